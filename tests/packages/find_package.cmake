# Programs that find the moved installation, and one that asks for a component that does not exist.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
configure_consumer(${SOURCE}/examples/packages/find_package -DCMAKE_PREFIX_PATH=${INSTALLED})
step(${CMAKE_COMMAND} --build ${WORK}/build)
attends(${WORK}/build/attend_c)
attends(${WORK}/build/attend_cpp)

set(project ${WORK}/wrong)
file(WRITE ${project}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(wrong LANGUAGES NONE)
find_package(vkattn REQUIRED COMPONENTS core backward)\n")
execute_process(COMMAND ${CMAKE_COMMAND} --fresh -G ${GENERATOR} -S ${project} -B ${project}/build -DCMAKE_PREFIX_PATH=${INSTALLED}
                RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE errors)
string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
if(NOT result OR NOT errors MATCHES "installed without the component 'backward'; it has core")
  message(FATAL_ERROR "a component that there is not gave ${result}: ${errors}")
endif()
