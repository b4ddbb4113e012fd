# Shared by the scripts of package tests. Variables of all: SOURCE (the project's root), BUILD, WORK (a folder of the test's own),
# GENERATOR, C_COMPILER, CXX_COMPILER, LAUNCHER.
cmake_minimum_required(VERSION 3.25)

# step(COMMAND...): runs the command and sets step_output. If it fails, its whole output is printed.
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
  set(step_output "${output}" PARENT_SCOPE)
endfunction()

# configure_consumer(FOLDER OPTIONS...): configures a project in WORK/build. The compiler need not optimize it.
macro(configure_consumer FOLDER)
  step(${CMAKE_COMMAND} --fresh --no-warn-unused-cli -G ${GENERATOR} -S ${FOLDER} -B ${WORK}/build -DCMAKE_C_COMPILER=${C_COMPILER}
       -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Debug
       "-DCMAKE_CXX_FLAGS_DEBUG=-O0" ${ARGN})
endmacro()

# attends(PROGRAM [TIMES]): the program must print the four numbers of attention TIMES times. Without a device the test is skipped.
function(attends PROGRAM)
  set(expected "2.8068 4.0758 4.1932 5.9242\n")
  if(ARGC GREATER 1)
    string(REPEAT "${expected}" ${ARGV1} expected)
  endif()
  execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(result EQUAL 77 AND NOT DEFINED ENV{VKATTN_TEST_REQUIRE_DEVICE})
    message(STATUS "skipped: ${errors}")
  elseif(result OR NOT output STREQUAL expected)
    message(FATAL_ERROR "${PROGRAM} ended with ${result}:\n${output}${errors}")
  else()
    message(STATUS "${PROGRAM}: ${output}")
  endif()
endfunction()
