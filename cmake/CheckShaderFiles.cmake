# Script mode: checks that each .glsl file below SHADERS can be the only include of a shader: it must compile with and without
# VKATTN_FEATURES. LEFT_OUT is a regular expression for the files that need extensions which the compiler GLSLANG lacks. Shaders
# are written to WORK.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE files RELATIVE ${SHADERS} ${SHADERS}/*.glsl)
file(MAKE_DIRECTORY ${WORK})
set(checked 0)
set(failed "")
foreach(file IN LISTS files)
  if(LEFT_OUT AND file MATCHES "${LEFT_OUT}")
    message(STATUS "left out: ${file}")
    continue()
  endif()
  set(shader ${WORK}/alone.comp)
  file(WRITE ${shader} "#version 460\n#extension GL_GOOGLE_include_directive : require\n#include \"${file}\"\n"
       "void main() {}\n")
  foreach(features 0 1)
    execute_process(
      COMMAND ${GLSLANG} -V --quiet --target-env vulkan1.3 -I${SHADERS} -DVKATTN_FEATURES=${features}
              -o ${shader}.spv ${shader}
      RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    math(EXPR checked "${checked} + 1")
    if(result)
      list(APPEND failed ${file})
      message(STATUS "${file} does not compile by itself with VKATTN_FEATURES=${features}:\n${output}")
    endif()
  endforeach()
endforeach()
if(failed OR checked EQUAL 0)
  message(FATAL_ERROR "of ${checked} shaders these did not compile: ${failed}")
endif()
message(STATUS "${checked} shaders compiled")
