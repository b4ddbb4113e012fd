# Included, or in script mode: `hash`, of all files below FOLDER that shaders are made of, by which saved score functions and
# shaders that were compiled before know theirs. With OUTPUT as a header.
cmake_minimum_required(VERSION 3.25)
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
