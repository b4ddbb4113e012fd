# A program that builds vkattn as a part of its project, without spirv-opt. Configuring must print nothing about vkattn. Also the
# sentences of the library about problems that the project has left out: of C++ in a build with the runtime, which leaves out only
# shaders, and of C in one without, which leaves out sources.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
configure_consumer(${SOURCE}/examples/packages/fetch_content -DVKATTN_SOURCE=${SOURCE} -DVKATTN_BUILD_RUNTIME=ON -DVKATTN_QUANTISED=OFF
                   -DVKATTN_GRADIENTS=OFF -DVKATTN_MATMUL=OFF -DVKATTN_SPIRV_OPT=OFF
                   -DCMAKE_UNITY_BUILD=ON)
if(step_output MATCHES "vkattn:|left out|Warning")
  message(FATAL_ERROR "the project was told of vkattn:\n${step_output}")
endif()
# OPTION is the option that leaves gradients out.
macro(builds_without_gradients OPTION)
  step(${CMAKE_COMMAND} --build ${WORK}/build --target attend)
  attends(${WORK}/build/attend)
  file(GLOB_RECURSE core ${WORK}/build/_deps/*/libvkattn_core.a)
  step(${CXX_COMPILER} -std=c++20 -I${SOURCE}/include -o ${WORK}/left_out ${CMAKE_CURRENT_LIST_DIR}/left_out.cpp ${core})
  step(${WORK}/left_out ${OPTION})
endmacro()
builds_without_gradients(VKATTN_GRADIENTS=OFF)

# The project has gradients but not the features that they need. So gradients are left out too, by the other option.
step(${CMAKE_COMMAND} -DVKATTN_GRADIENTS=ON ${WORK}/build)
builds_without_gradients(VKATTN_FEATURES=OFF)

# Without the runtime the sources are left out.
step(${CMAKE_COMMAND} -DVKATTN_BUILD_RUNTIME=OFF ${WORK}/build)
step(${CMAKE_COMMAND} --build ${WORK}/build --target attend)
attends(${WORK}/build/attend)
step(${CXX_COMPILER} -std=c++17 -I${SOURCE}/include -o ${WORK}/left_out_c ${CMAKE_CURRENT_LIST_DIR}/left_out_c.cpp ${core})
step(${WORK}/left_out_c VKATTN_FEATURES=OFF)
