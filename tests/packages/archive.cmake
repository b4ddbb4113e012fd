# Makes the source archive with its target.
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
step(${CMAKE_COMMAND} --build ${BUILD} --target vkattn_source_archive)
if(NOT EXISTS ${ARCHIVE})
  message(FATAL_ERROR "there is no ${ARCHIVE}")
endif()
