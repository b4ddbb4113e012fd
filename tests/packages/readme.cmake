# Runs what README shows: it configures the preset and installs this build. Then it runs the program in C++, the command for C and
# the tool's command. package.pip runs the Python part, and .ci/run runs scripts/demo and scripts/test.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(READ ${SOURCE}/README.md readme)

# readme_has(EXPRESSION OUT): the expression must match README once. OUT gets the text that its brackets match.
function(readme_has EXPRESSION OUT)
  string(REGEX MATCHALL "${EXPRESSION}" found "${readme}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "README.md has '${EXPRESSION}' ${count} times, not once")
  endif()
  string(REGEX MATCH "${EXPRESSION}" found "${readme}")
  set(${OUT} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# Only the folder differs from README. Building all targets in it gives BUILD.
readme_has("\n    (cmake --preset release) && cmake --build --preset release && cmake --install build/release\n" preset)
separate_arguments(preset UNIX_COMMAND "${preset}")
step(${CMAKE_COMMAND} -E chdir ${SOURCE} ${preset} -B ${WORK}/preset)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)

readme_has("\n    (find_package[^\n]*)\n" find)
readme_has("\n    (target_link_libraries[^\n]*)\n" link)
string(REGEX MATCH "```cpp\n([^`]*)```" program "${readme}")
file(WRITE ${WORK}/cpp/app.cpp "${CMAKE_MATCH_1}")
file(WRITE ${WORK}/cpp/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
${find}
add_executable(app app.cpp)
${link}
")
configure_consumer(${WORK}/cpp -DCMAKE_PREFIX_PATH=${WORK}/installed)
step(${CMAKE_COMMAND} --build ${WORK}/build)
execute_process(COMMAND ${WORK}/build/app RESULT_VARIABLE result)
if(result AND DEFINED ENV{VKATTN_TEST_REQUIRE_DEVICE})
  message(FATAL_ERROR "README's program in C++ ended with ${result}")
endif()

readme_has("\nC: `(cc app.c [^`]*)`" command)
file(GLOB_RECURSE file ${WORK}/installed/vkattn-shared.pc)
cmake_path(GET file PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
cmake_path(GET folder PARENT_PATH libraries)
set(ENV{LD_LIBRARY_PATH} ${libraries})
file(COPY ${SOURCE}/examples/packages/attend.c ${SOURCE}/examples/packages/own_vulkan.h DESTINATION ${WORK}/c/app)
file(RENAME ${WORK}/c/app/attend.c ${WORK}/c/app/app.c)
step(${CMAKE_COMMAND} -E chdir ${WORK}/c/app sh -ec "${command}")
attends(${WORK}/c/app/a.out)

readme_has("`(vkattn run [^`]*)`" command)
string(REPLACE "\n" " " command "${command}")
step(${PYTHON} -c "import sys, numpy
random = numpy.random.default_rng(1)
for name in 'qkv':
    numpy.save(f'{sys.argv[1]}/{name}.npy', random.standard_normal((1, 2, 30, 16), dtype='float32'))" ${WORK})
set(ENV{PATH} "${WORK}/installed/bin:$ENV{PATH}")
execute_process(COMMAND sh -ec "${command}" WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result AND DEFINED ENV{VKATTN_TEST_REQUIRE_DEVICE})
  message(FATAL_ERROR "README's '${command}' ended with ${result}:\n${output}")
endif()
message(STATUS "README's program in C++ and commands for C and the tool ran:\n${output}")
