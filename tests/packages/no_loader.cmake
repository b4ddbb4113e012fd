# A machine with Vulkan's headers but without a loader to link. A program's volk finds the loader at run time. Tests the installed
# core, and the library as a part of the project.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
# Hides the loader: CMake does not look for a variable that is set.
set(no_loader -DVulkan_LIBRARY=OFF)
configure_consumer(${CMAKE_CURRENT_LIST_DIR}/no_loader -DCMAKE_PREFIX_PATH=${INSTALLED} -DEXAMPLES=${SOURCE}/examples/packages
                   ${no_loader})
step(${CMAKE_COMMAND} --build ${WORK}/build)
attends(${WORK}/build/attend)

# This is only configured. package.no_glslang builds it in this way.
step(${CMAKE_COMMAND} --fresh -G ${GENERATOR} -S ${SOURCE}/tests/subproject -B ${WORK}/subproject -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
     ${no_loader})
string(REGEX REPLACE "-- vkattn: without some kernels on matrix units[^\n]*\n" "" step_output "${step_output}")
if(step_output MATCHES "vkattn:|left out|Warning")
  message(FATAL_ERROR "the project was told of vkattn:\n${step_output}")
endif()
