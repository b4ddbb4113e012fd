# Runs the command of README and docs/python.md, for the sources and for the source archive, each in a new virtual environment. Then
# it runs the program of README's section on Python there, and compares its numbers. No package index is used: the build tools and
# NumPy come from the system. Sources and archive take turns in one folder and share a build folder. So only files of the archive
# that differ from the sources are compiled again (package.no_glslang compiles all), and a file that the archive lacks is noticed.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
file(REMOVE_RECURSE ${WORK})
foreach(document README.md docs/python.md)
  file(STRINGS ${SOURCE}/${document} command REGEX "pip install \\.")
  if(NOT command)
    message(FATAL_ERROR "${document} has no 'pip install .'; this test runs the command that it gives")
  endif()
endforeach()
# The compiler need not optimize, and one kernel is enough. For pip, 0 means no isolation here.
set(environment PIP_NO_BUILD_ISOLATION=0 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
    SKBUILD_BUILD_DIR=${WORK}/made CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} CXX=${CXX_COMPILER} "CMAKE_ARGS=-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DVKATTN_SMALL_CODE=OFF -DVKATTN_KERNELS=lane")
# The files that git knows. Without git, all files except build folders.
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
