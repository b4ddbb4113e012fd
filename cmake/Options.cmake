# Compiler settings shared by every target of the project: language level, warnings, sanitizers.
add_library(vkattn_options INTERFACE)
target_compile_features(vkattn_options INTERFACE cxx_std_20)
if(MSVC)
  target_compile_options(vkattn_options INTERFACE /W4 /permissive- /utf-8 /bigobj $<$<BOOL:${VKATTN_WARNINGS_AS_ERRORS}>:/WX>)
else()
  target_compile_options(vkattn_options INTERFACE
    -Wall -Wextra -Wpedantic -Wno-missing-field-initializers  # Vulkan structs are initialised with sType only
    -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # GCC 12 warns of overlaps in std::string that do not exist (PR 105651)
    $<$<BOOL:${VKATTN_WARNINGS_AS_ERRORS}>:-Werror>)
  if(VKATTN_SANITIZE)
    target_compile_definitions(vkattn_options INTERFACE VKATTN_SANITIZED)
    # End the program at undefined behaviour: after a mere message the test would pass.
    target_compile_options(vkattn_options INTERFACE -fsanitize=${VKATTN_SANITIZE} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer)
    target_link_options(vkattn_options INTERFACE -fsanitize=${VKATTN_SANITIZE})
  endif()
endif()
if(VKATTN_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # counts the lines that run, without libFuzzer's main()
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Standard headers are more than half of what Clang compiles. Precompiled once for all libraries, which have the same flags, and
# once for each program that asks. GCC gains only a fifth, and then warns of errors that do not exist (GCC 12: std::string).
function(vkattn_precompile_headers TARGET)
  if(NOT VKATTN_PRECOMPILE_HEADERS)
    return()
  endif()
  get_target_property(type ${TARGET} TYPE)
  if(type STREQUAL "EXECUTABLE" OR "${TARGET}" STREQUAL "vkattn_core")
    target_precompile_headers(${TARGET} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <fstream>
      <functional> <limits> <map> <memory> <optional> <set> <span> <string> <string_view> <utility> <vector>)
  else()
    # Clang accepts a precompiled header only under the flags that made it.
    set_target_properties(${TARGET} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_precompile_headers(${TARGET} REUSE_FROM vkattn_core)
  endif()
endfunction()

# For unity builds: compiles the sources of each group as one. Each argument is a group of folders; another folder is a group of its
# own. Names in unnamed namespaces are therefore unique within a group.
function(vkattn_unity_by_folder TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${TARGET} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$")
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(GET folder FILENAME group)
      foreach(folders IN LISTS ARGN)
        if(group MATCHES "^(${folders})$")
          string(REPLACE "|" "_" group "${folders}")
        endif()
      endforeach()
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}_")
    endif()
  endforeach()
endfunction()
