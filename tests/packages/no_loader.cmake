# Where Vulkan's headers are installed and no loader, which a program's volk finds at run time: the core of the installation, and
# the library as a part of the project.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
# As if there were none: what is set is not looked for.
set(no_loader -DVulkan_LIBRARY=OFF)
configure_consumer(${CMAKE_CURRENT_LIST_DIR}/no_loader -DCMAKE_PREFIX_PATH=${INSTALLED} -DEXAMPLES=${SOURCE}/examples/packages
                   ${no_loader})
step(${CMAKE_COMMAND} --build ${WORK}/build)
attends(${WORK}/build/attend)

# Configured and not built: package.no_glslang builds it so.
step(${CMAKE_COMMAND} --fresh -G ${GENERATOR} -S ${SOURCE}/tests/subproject -B ${WORK}/subproject -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
     ${no_loader})
if(step_output MATCHES "vkattn:|left out|Warning")
  message(FATAL_ERROR "the project was told of vkattn:\n${step_output}")
endif()
