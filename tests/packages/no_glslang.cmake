# A program with vkattn from the source archive. It has no compiler, optimizer or validator of shaders, and no Vulkan loader to link.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
file(REMOVE_RECURSE ${WORK})
# This machine has all of them, so CMake must not look for them.
configure_consumer(${SOURCE}/examples/packages/no_glslang -DVKATTN_ARCHIVE=${ARCHIVE} -DVKATTN_GLSLANG=GLSLANG-NOTFOUND
                   -DVKATTN_SPIRV_OPT=SPIRV_OPT-NOTFOUND -DVKATTN_SPIRV_VAL=SPIRV_VAL-NOTFOUND -DVulkan_LIBRARY=OFF
                   -DCMAKE_UNITY_BUILD=ON)
file(STRINGS ${WORK}/build/CMakeCache.txt looked_for REGEX "^(VKATTN_(GLSLANG|SPIRV_OPT|SPIRV_VAL)|Vulkan_LIBRARY):")
if(NOT looked_for MATCHES "GLSLANG-NOTFOUND.*SPIRV_OPT-NOTFOUND.*SPIRV_VAL-NOTFOUND.*=OFF")
  message(FATAL_ERROR "the archive's build has looked for ${looked_for}")
endif()
step(${CMAKE_COMMAND} --build ${WORK}/build --target attend)
attends(${WORK}/build/attend)
