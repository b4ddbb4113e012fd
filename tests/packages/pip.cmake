# The command that README and docs/python.md give, from the sources and from the source archive, each in a new virtual environment.
# Then the program of README's section on Python runs there, and its numbers are compared. No index is asked: the build tools
# and NumPy are the system's. Both lie in one place in turn and share a folder of the build: of the archive only what differs
# from the sources is compiled again (package.no_glslang compiles all of it), and what it lacks is missed.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
file(REMOVE_RECURSE ${WORK})
foreach(document README.md docs/python.md)
  file(STRINGS ${SOURCE}/${document} command REGEX "pip install \\.")
  if(NOT command)
    message(FATAL_ERROR "${document} has no 'pip install .'; this test runs the command that it gives")
  endif()
endforeach()
# The compiler need not optimize, and one kernel is enough. 0 is pip's word for no isolation here.
set(environment PIP_NO_BUILD_ISOLATION=0 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
    SKBUILD_BUILD_DIR=${WORK}/made CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} CXX=${CXX_COMPILER} "CMAKE_ARGS=-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DVKATTN_SMALL_CODE=OFF -DVKATTN_KERNELS=lane")
# What git has; where there is no git, all but folders of builds.
macro(clone_sources)
  find_program(git git)
  if(git AND EXISTS ${SOURCE}/.git)
    step(${git} -c safe.directory=* clone --quiet --no-hardlinks ${SOURCE} ${folder})
  else()
    file(COPY ${SOURCE}/ DESTINATION ${folder} PATTERN .git EXCLUDE PATTERN build EXCLUDE PATTERN "build-*" EXCLUDE PATTERN .cache EXCLUDE
         PATTERN dist EXCLUDE)
  endif()
endmacro()
set(folder ${WORK}/vkattn-${VERSION})
set(venv ${WORK}/venv)
foreach(from sources archive)
  file(REMOVE_RECURSE ${folder})
  if(from STREQUAL "sources")
    clone_sources()
  else()
    file(ARCHIVE_EXTRACT INPUT ${ARCHIVE} DESTINATION ${WORK})
  endif()
  step(${PYTHON} -m venv --clear --system-site-packages ${venv})
  step(${CMAKE_COMMAND} -E env ${environment} ${CMAKE_COMMAND} -E chdir ${folder} ${venv}/bin/pip install .)
  execute_process(COMMAND ${venv}/bin/python -I ${CMAKE_CURRENT_LIST_DIR}/pip_program.py ${folder}/README.md ${venv}
                  WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 77 AND NOT DEFINED ENV{VKATTN_TEST_REQUIRE_DEVICE})
    message(STATUS "skipped: no Vulkan device")
  elseif(result)
    message(FATAL_ERROR "README's program ended with ${result} after 'pip install .' in the ${from}:\n${output}")
  else()
    message(STATUS "${from}: ${output}")
  endif()
endforeach()
