# Included, or in script mode: sets `hash` to a hash of all shader sources below FOLDER. Saved score functions and precompiled
# shaders carry it, so that the library knows those of its own sources. If OUTPUT is set, also writes the hash to that header.
cmake_minimum_required(VERSION 3.22...3.25)
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*)
list(FILTER files EXCLUDE REGEX "^prebuilt/")
list(SORT files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${FOLDER}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
if(NOT OUTPUT)
  return()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "// Generated: a hash of all shader sources.
#pragma once
#include <string_view>
namespace vkattn::detail {
inline constexpr std::string_view kShaderSourcesHash = \"${hash}\";
}
" @ONLY)
