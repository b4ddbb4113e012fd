# Finds glslang as a library, for users' score functions. Sets VKATTN_HAVE_SCORE_FUNCTIONS.
find_package(Threads QUIET)  # glslang 12 links Threads without finding it
find_package(glslang CONFIG QUIET)
if(TARGET glslang::SPIRV AND TARGET glslang::glslang-default-resource-limits)
  set(VKATTN_HAVE_SCORE_FUNCTIONS TRUE)
  message(STATUS "vkattn: score functions with glslang ${glslang_VERSION}")
elseif(VKATTN_BUILD_SCORE_FUNCTIONS STREQUAL "AUTO")
  message(STATUS "vkattn: left out: score functions (no glslang library; Debian: glslang-dev)")
else()
  message(FATAL_ERROR "vkattn: VKATTN_BUILD_SCORE_FUNCTIONS is ${VKATTN_BUILD_SCORE_FUNCTIONS} but there is no glslang library "
                      "(Debian: glslang-dev); install it, or set the option to OFF or AUTO")
endif()
