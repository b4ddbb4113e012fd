# Precompiled shaders: VKATTN_PREBUILT_SHADERS names a folder of files <name>.gz. The target vkattn_prebuilt_shaders makes one,
# and the source archive has one. Its list, shaders.txt, begins with the hash of the shaders' sources, so that a library
# of another version refuses them, then the compiler's version, then one name a line.

# OUT: a hash of all files from which shaders are made.
function(vkattn_hash_shader_sources OUT)
  set(FOLDER ${PROJECT_SOURCE_DIR}/shaders)
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/HashFiles.cmake)
  set(${OUT} ${hash} PARENT_SCOPE)
endfunction()

# OUT: why the folder lacks the shader; empty if it has it.
function(vkattn_reason_not_prebuilt NAME OUT)
  set(${OUT} "" PARENT_SCOPE)
  if(NOT NAME IN_LIST vkattn_prebuilt_names)
    set(${OUT} "it was configured with VKATTN_PREBUILT_SHADERS, which have none" PARENT_SCOPE)
  endif()
endfunction()

# vkattn_add_prebuilt_shaders(PREBUILT LIBRARIES...): adds the target that makes the folder PREBUILT of the shaders in LIBRARIES
# (see vkattn_add_shader_library()).
function(vkattn_add_prebuilt_shaders PREBUILT)
  set(files "")
  foreach(library IN LISTS ARGN)
    get_target_property(packed ${library} VKATTN_PACKED_SHADERS)
    list(APPEND files ${packed})
  endforeach()
  list(TRANSFORM files REPLACE "^.*/([^/]+)[.]gz$" "\\1" OUTPUT_VARIABLE names)
  list(JOIN names "\n" names)
  vkattn_hash_shader_sources(hash)
  execute_process(COMMAND ${VKATTN_GLSLANG} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "(Glslang Version: [^\n]+)")
    set(CMAKE_MATCH_1 "a compiler that does not tell its version")
  endif()
  set(list ${PROJECT_BINARY_DIR}/shaders.txt)
  file(CONFIGURE OUTPUT ${list} CONTENT "${hash}\n${CMAKE_MATCH_1}\n${names}\n" @ONLY)
  add_custom_target(vkattn_prebuilt_shaders
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${PREBUILT}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PREBUILT}
    COMMAND ${CMAKE_COMMAND} -E copy ${files} ${list} ${PREBUILT}
    COMMENT "Gathering packed shaders in ${PREBUILT}"
    VERBATIM)
  add_dependencies(vkattn_prebuilt_shaders ${ARGN})
endfunction()

if(VKATTN_PREBUILT_SHADERS)
  cmake_path(ABSOLUTE_PATH VKATTN_PREBUILT_SHADERS BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT EXISTS ${VKATTN_PREBUILT_SHADERS}/shaders.txt)
    message(FATAL_ERROR "vkattn: VKATTN_PREBUILT_SHADERS is ${VKATTN_PREBUILT_SHADERS}, where there is no shaders.txt; name a "
                        "folder that the target vkattn_prebuilt_shaders made, or leave it empty to compile shaders")
  endif()
  file(STRINGS ${VKATTN_PREBUILT_SHADERS}/shaders.txt vkattn_prebuilt_names)
  list(POP_FRONT vkattn_prebuilt_names prebuilt_of prebuilt_by)
  message(VERBOSE "vkattn: shaders of ${VKATTN_PREBUILT_SHADERS}, compiled by ${prebuilt_by}")
  vkattn_hash_shader_sources(hash)
  if(NOT prebuilt_of STREQUAL hash)
    message(FATAL_ERROR "vkattn: the shaders of ${VKATTN_PREBUILT_SHADERS} were made of other sources than those of "
                        "${PROJECT_SOURCE_DIR}/shaders; leave VKATTN_PREBUILT_SHADERS empty to compile them anew")
  endif()
endif()
