# Compiles GLSL to SPIR-V at build time. shaders/binaries.cmake declares each binary with vkattn_shader().
# vkattn_add_shader_library() compiles the binaries of one set, makes each smaller with spirv-opt if that is installed
# (-DVKATTN_SPIRV_OPT=OFF does without), validates it with spirv-val, and embeds it. A binary is left out if the compiler lacks
# its GLSL extensions or options exclude it; the summary says why. With VKATTN_PREBUILT_SHADERS all come from that folder.

include(${CMAKE_CURRENT_LIST_DIR}/PrebuiltShaders.cmake)
if(NOT VKATTN_PREBUILT_SHADERS)
  find_program(VKATTN_GLSLANG NAMES glslangValidator glslang REQUIRED)
  if(PROJECT_IS_TOP_LEVEL)
    set(spirv_val_required REQUIRED)
  endif()
  find_program(VKATTN_SPIRV_VAL NAMES spirv-val ${spirv_val_required})
  find_program(VKATTN_SPIRV_OPT NAMES spirv-opt)
  mark_as_advanced(VKATTN_GLSLANG VKATTN_SPIRV_VAL VKATTN_SPIRV_OPT)
  # Halves the size of packed binaries. A cross build that cannot run it embeds them unchanged.
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    add_executable(vkattn_pack_shader EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/pack_shader.cpp
                                                       ${PROJECT_SOURCE_DIR}/src/spirv/spirv_deltas.cpp)
    target_include_directories(vkattn_pack_shader PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(vkattn_pack_shader PRIVATE vkattn_options)
  endif()
endif()
# These passes remove variables, dead code and repetitions: a seventh of a binary. Inlining is left out, as it doubles a binary;
# simplifying arithmetic too, as it may change results. --ssa-rewrite makes phis. Kernels with cooperative matrices go without
# it, because drivers seldom see phis of matrices.
set(vkattn_spirv_passes --eliminate-dead-functions --eliminate-dead-branches --merge-blocks --eliminate-dead-code-aggressive
                        --redundancy-elimination --unify-const --eliminate-dead-code-aggressive --compact-ids)
set(vkattn_matrix_spirv_passes --eliminate-local-single-block --eliminate-local-single-store ${vkattn_spirv_passes})
list(PREPEND vkattn_spirv_passes --ssa-rewrite)

# OUT: whether the compiler knows the GLSL extension.
function(vkattn_probe_glsl_extension EXTENSION OUT)
  set(cache_name VKATTN_HAVE_${EXTENSION})
  if(NOT DEFINED ${cache_name})
    set(probe ${CMAKE_CURRENT_BINARY_DIR}/probe_${EXTENSION}.comp)
    file(WRITE ${probe} "#version 460\n#extension ${EXTENSION} : require\nvoid main() {}\n")
    execute_process(
      COMMAND ${VKATTN_GLSLANG} -V --target-env vulkan1.3 -o ${probe}.spv ${probe}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(${cache_name} FALSE CACHE INTERNAL "glslang knows ${EXTENSION}")
    else()
      set(${cache_name} TRUE CACHE INTERNAL "glslang knows ${EXTENSION}")
    endif()
  endif()
  set(${OUT} ${${cache_name}} PARENT_SCOPE)
endfunction()

# vkattn_form(WORD [TARGET_ENV env] [DEFINES ...] [GLSL_EXTENSIONS ...] [DEVICE_FEATURES ...])
# declares a word that binaries' forms may contain, and what it needs of compiler and device.
function(vkattn_form WORD)
  cmake_parse_arguments(ARG "" "TARGET_ENV" "DEFINES;GLSL_EXTENSIONS;DEVICE_FEATURES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vkattn_form(${WORD}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  foreach(field TARGET_ENV DEFINES GLSL_EXTENSIONS DEVICE_FEATURES)
    set_property(GLOBAL PROPERTY VKATTN_FORM_${WORD}_${field} "${ARG_${field}}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY VKATTN_FORMS ${WORD})
endfunction()

# OUT: why options exclude the binary of FILE with these words; empty if they do not.
function(vkattn_reason_to_leave_out FILE WORDS OUT)
  set(${OUT} "" PARENT_SCOPE)
  string(REGEX REPLACE "/.*" "" kernel "${FILE}")
  if("${kernel}" IN_LIST vkattn_kernels AND NOT "${kernel}" IN_LIST VKATTN_KERNELS)
    set(${OUT} "it was configured without ${kernel} in VKATTN_KERNELS" PARENT_SCOPE)
  elseif(kernel STREQUAL "backward" AND NOT VKATTN_GRADIENTS)
    set(${OUT} "it was configured with VKATTN_GRADIENTS=OFF, without backward passes" PARENT_SCOPE)
  elseif(kernel STREQUAL "matmul" AND NOT VKATTN_MATMUL)
    set(${OUT} "it was configured with VKATTN_MATMUL=OFF, without matrix multiplication and layers" PARENT_SCOPE)
  elseif("fetched" IN_LIST WORDS AND NOT VKATTN_BUILD_TESTS)
    set(${OUT} "it is for tests, and was configured with VKATTN_BUILD_TESTS=OFF" PARENT_SCOPE)
  elseif("features" IN_LIST WORDS AND NOT VKATTN_FEATURES)
    set(${OUT} "it was configured with VKATTN_FEATURES=OFF, without masks, caches, gradients and the like" PARENT_SCOPE)
  endif()
endfunction()

# OUT: a sentence that names the GLSL extensions which the compiler lacks; empty if it has all.
function(vkattn_reason_not_compiled EXTENSIONS OUT)
  set(missing "")
  foreach(extension IN LISTS EXTENSIONS)
    vkattn_probe_glsl_extension(${extension} known)
    if(NOT known)
      list(APPEND missing ${extension})
    endif()
  endforeach()
  set(${OUT} "" PARENT_SCOPE)
  if(missing)
    string(REPLACE ";" ", " missing "${missing}")
    set(${OUT} "its compiler does not know ${missing}" PARENT_SCOPE)
  endif()
endfunction()

# vkattn_shader(NAME SET FILE [FORM words ...])
# declares one binary. FILE is relative to shaders/ unless absolute.
function(vkattn_shader NAME SET FILE)
  cmake_parse_arguments(ARG "" "" "FORM" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vkattn_shader(${NAME}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  get_property(forms GLOBAL PROPERTY VKATTN_FORMS)
  set(target_env vulkan1.1)
  set(defines "")
  set(extensions "")
  set(features "")
  foreach(word IN LISTS ARG_FORM)
    if(NOT word IN_LIST forms)
      message(FATAL_ERROR "vkattn_shader(${NAME}): there is no form '${word}'")
    endif()
    foreach(field TARGET_ENV DEFINES GLSL_EXTENSIONS DEVICE_FEATURES)
      get_property(form_${field} GLOBAL PROPERTY VKATTN_FORM_${word}_${field})
    endforeach()
    if(form_TARGET_ENV)
      set(target_env ${form_TARGET_ENV})
    endif()
    list(APPEND defines ${form_DEFINES})
    list(APPEND extensions ${form_GLSL_EXTENSIONS})
    list(APPEND features ${form_DEVICE_FEATURES})
  endforeach()
  vkattn_reason_to_leave_out("${FILE}" "${ARG_FORM}" reason)
  if(NOT reason AND VKATTN_PREBUILT_SHADERS)
    vkattn_reason_not_prebuilt(${NAME} reason)
  elseif(NOT reason)
    vkattn_reason_not_compiled("${extensions}" reason)
  endif()
  if(NOT VKATTN_QUANTISED)
    list(APPEND defines VKATTN_QUANTISED=0)
  endif()
  string(REPLACE ";" ", " features "${features}")
  cmake_path(ABSOLUTE_PATH FILE BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/shaders)
  set_property(GLOBAL PROPERTY VKATTN_SHADER_${NAME}_FILE "${FILE}")
  set_property(GLOBAL PROPERTY VKATTN_SHADER_${NAME}_TARGET_ENV "${target_env}")
  set_property(GLOBAL PROPERTY VKATTN_SHADER_${NAME}_DEFINES "${defines}")
  set_property(GLOBAL PROPERTY VKATTN_SHADER_${NAME}_REASON "${reason}")
  set_property(GLOBAL PROPERTY VKATTN_SHADER_${NAME}_FEATURES "${features}")
  set_property(GLOBAL APPEND PROPERTY VKATTN_SHADERS ${NAME})
  set_property(GLOBAL APPEND PROPERTY VKATTN_SHADER_SET_${SET} ${NAME})
endfunction()

# Compiles one declared binary without names for debuggers, and embeds it. OUT: the C++ source; empty if it is left out.
function(vkattn_embed_shader NAME NAMESPACE OUT)
  foreach(field FILE TARGET_ENV DEFINES REASON FEATURES)
    get_property(${field} GLOBAL PROPERTY VKATTN_SHADER_${NAME}_${field})
  endforeach()
  set(${OUT} "" PARENT_SCOPE)
  if(REASON)
    return()
  endif()
  set(base ${CMAKE_CURRENT_BINARY_DIR}/shaders/${NAME})
  set(${OUT} ${base}.cpp PARENT_SCOPE)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedShader.cmake)
  if(VKATTN_PREBUILT_SHADERS)
    set(gzip ${VKATTN_PREBUILT_SHADERS}/${NAME}.gz)
    add_custom_command(
      OUTPUT ${base}.cpp
      COMMAND ${CMAKE_COMMAND} -DGZIP=${gzip} -DOUTPUT=${base}.cpp -DNAME=${NAME} -DNAMESPACE=${NAMESPACE} -P ${script}
      DEPENDS ${gzip} ${script}
      COMMENT "Embedding shader ${NAME}"
      VERBATIM)
    return()
  endif()
  set(spv ${base}.spv)
  list(TRANSFORM DEFINES PREPEND -D)
  set(optimize "")
  set(tools ${VKATTN_GLSLANG})
  if(VKATTN_SPIRV_OPT)
    list(APPEND tools ${VKATTN_SPIRV_OPT})
    set(passes ${vkattn_spirv_passes})
    if(FEATURES MATCHES "cooperativeMatrix")
      set(passes ${vkattn_matrix_spirv_passes})
    endif()
    set(optimize COMMAND ${VKATTN_SPIRV_OPT} --target-env=${TARGET_ENV} ${passes} ${spv} -o ${spv})
  endif()
  set(validate "")
  if(VKATTN_SPIRV_VAL)
    set(validate COMMAND ${VKATTN_SPIRV_VAL} --target-env ${TARGET_ENV} ${spv})
  endif()
  add_custom_command(
    OUTPUT ${spv}
    COMMAND ${VKATTN_GLSLANG} -V --quiet -g0 --target-env ${TARGET_ENV} -I${PROJECT_SOURCE_DIR}/shaders ${DEFINES}
            --depfile ${spv}.d -o ${spv} ${FILE}
    ${optimize}
    ${validate}
    DEPENDS ${FILE} ${tools}
    DEPFILE ${spv}.d
    COMMENT "Compiling shader ${NAME}"
    VERBATIM)
  set(shader ${spv})
  set(pack "")
  if(TARGET vkattn_pack_shader)
    set(shader ${base}.deltas)
    set(pack COMMAND vkattn_pack_shader ${spv} ${shader})
  endif()
  add_custom_command(
    OUTPUT ${base}.cpp
    BYPRODUCTS ${base}.gz
    ${pack}
    COMMAND ${CMAKE_COMMAND} -DSHADER=${shader} -DGZIP=${base}.gz -DOUTPUT=${base}.cpp -DNAME=${NAME}
            -DNAMESPACE=${NAMESPACE} -P ${script}
    DEPENDS ${spv} ${script}
    COMMENT "Embedding shader ${NAME}"
    VERBATIM)
endfunction()

# vkattn_add_shader_library(TARGET SET NAMESPACE): a library with the binaries of SET, each in its own source and object, and a
# table of them. Its function `<namespace>::shader_binaries()` is declared in the header <TARGET>.hpp.
function(vkattn_add_shader_library TARGET SET NAMESPACE)
  get_property(names GLOBAL PROPERTY VKATTN_SHADER_SET_${SET})
  set(sources "")
  set(declarations "")
  set(table "")
  foreach(name IN LISTS names)
    vkattn_embed_shader(${name} ${NAMESPACE} source)
    get_property(reason GLOBAL PROPERTY VKATTN_SHADER_${name}_REASON)
    get_property(features GLOBAL PROPERTY VKATTN_SHADER_${name}_FEATURES)
    set(embedded nullptr)
    if(source)
      list(APPEND sources ${source})
      string(APPEND declarations "extern const ::vkattn::detail::EmbeddedShader shader_${name};\n")
      set(embedded "&shader_${name}")
    endif()
    string(APPEND table "    {\"${name}\", ${embedded}, \"${reason}\", \"${features}\"},\n")
  endforeach()
  list(LENGTH names count)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/shaders/${TARGET})
  file(CONFIGURE OUTPUT ${base}.hpp CONTENT
"// Generated: the shader binaries of the set '${SET}'.
#pragma once
#include \"vulkan/shader_code.hpp\"
namespace ${NAMESPACE} {
[[nodiscard]] std::span<const ::vkattn::detail::ShaderBinary> shader_binaries();
}
" @ONLY)
  file(CONFIGURE OUTPUT ${base}.cpp CONTENT
"// Generated: the table of the shader binaries of the set '${SET}'.
#include \"${TARGET}.hpp\"

#include <array>

namespace ${NAMESPACE} {

${declarations}
namespace {

const std::array<::vkattn::detail::ShaderBinary, ${count}> kBinaries{{
${table}}};

}  // namespace

std::span<const ::vkattn::detail::ShaderBinary> shader_binaries() { return kBinaries; }

}  // namespace ${NAMESPACE}
" @ONLY)
  add_library(${TARGET} OBJECT ${base}.cpp ${sources})
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD OFF)
  list(TRANSFORM sources REPLACE "[.]cpp$" ".gz" OUTPUT_VARIABLE packed)
  set_target_properties(${TARGET} PROPERTIES VKATTN_PACKED_SHADERS "${packed}")
  target_include_directories(${TARGET} PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/shaders ${PROJECT_SOURCE_DIR}/src
                                              ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${TARGET} PRIVATE vkattn_options)
endfunction()

# vkattn_add_shader_texts(OUT SET NAMES...): OUT is the path of a C++ source that defines the functions of
# src/score/shader_texts.hpp: the text of SET's shaders, of NAMES' and of all files they include, and each binary's recipe.
function(vkattn_add_shader_texts OUT SET)
  set(folder ${PROJECT_SOURCE_DIR}/shaders)
  get_property(names GLOBAL PROPERTY VKATTN_SHADER_SET_${SET})
  list(APPEND names ${ARGN})
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*.glsl ${folder}/*.h)
  set(recipes "")
  foreach(name IN LISTS names)
    foreach(field FILE TARGET_ENV DEFINES)
      get_property(${field} GLOBAL PROPERTY VKATTN_SHADER_${name}_${field})
    endforeach()
    cmake_path(RELATIVE_PATH FILE BASE_DIRECTORY ${folder})
    list(APPEND files ${FILE})
    string(REPLACE ";" " " DEFINES "${DEFINES}")
    string(APPEND recipes "${name}|${FILE}|${TARGET_ENV}|${DEFINES}\n")
  endforeach()
  list(REMOVE_DUPLICATES files)
  list(TRANSFORM files PREPEND ${folder}/ OUTPUT_VARIABLE paths)
  string(REPLACE ";" "\n" files "${files}")
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${SET}_shader_texts)
  file(CONFIGURE OUTPUT ${base}.files CONTENT "${files}\n" @ONLY)
  file(CONFIGURE OUTPUT ${base}.recipes CONTENT "${recipes}" @ONLY)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedShaderTexts.cmake)
  add_custom_command(
    OUTPUT ${base}.cpp
    COMMAND ${CMAKE_COMMAND} -DFILES=${base}.files -DRECIPES=${base}.recipes -DFOLDER=${folder}
            -DOUTPUT=${base}.cpp -P ${script}
    DEPENDS ${paths} ${base}.files ${base}.recipes ${script}
    COMMENT "Embedding the shaders of '${SET}' as text"
    VERBATIM)
  set(${OUT} ${base}.cpp PARENT_SCOPE)
endfunction()

# Prints at configure time how many binaries are built and left out. Their names and reasons are VERBOSE.
function(vkattn_print_shader_summary)
  if(VKATTN_PREBUILT_SHADERS)
    set(compiler "of ${VKATTN_PREBUILT_SHADERS}")
  else()
    execute_process(COMMAND ${VKATTN_GLSLANG} --version OUTPUT_VARIABLE version ERROR_QUIET)
    string(REGEX MATCH "Glslang Version: [^\n]*" version "${version}")
    set(compiler "by ${VKATTN_GLSLANG} (${version})")
  endif()
  get_property(names GLOBAL PROPERTY VKATTN_SHADERS)
  list(LENGTH names all)
  set(built ${all})
  set(unknown "")
  set(unknown_count 0)
  set(by_options 0)
  foreach(name IN LISTS names)
    get_property(reason GLOBAL PROPERTY VKATTN_SHADER_${name}_REASON)
    if(reason)
      math(EXPR built "${built} - 1")
      message(VERBOSE "vkattn: without the shader binary ${name}: ${reason}")
      if(reason MATCHES "^its compiler does not know (.*)")
        math(EXPR unknown_count "${unknown_count} + 1")
        string(REPLACE ", " ";" extensions "${CMAKE_MATCH_1}")
        list(APPEND unknown ${extensions})
      elseif(NOT reason MATCHES "^it is for tests")
        math(EXPR by_options "${by_options} + 1")
      endif()
    endif()
  endforeach()
  message(STATUS "vkattn: ${built} of ${all} shader binaries ${compiler}")
  if(unknown)
    list(REMOVE_DUPLICATES unknown)
    list(JOIN unknown ", " unknown)
    message(STATUS "vkattn: left out: ${unknown_count} shader binaries, as this compiler does not know ${unknown}; "
                   "glslang 16 compiles all, named by VKATTN_GLSLANG")
  endif()
  if(by_options)
    message(STATUS "vkattn: left out: ${by_options} shader binaries by options")
  endif()
endfunction()

# Tells in one line if kernels on matrix units were asked for and lack a binary, and what to do.
function(vkattn_tell_of_missing_matrices)
  get_property(names GLOBAL PROPERTY VKATTN_SHADERS)
  list(FILTER names INCLUDE REGEX "^attention_matrix")
  foreach(name IN LISTS names)
    get_property(reason GLOBAL PROPERTY VKATTN_SHADER_${name}_REASON)
    if(reason MATCHES "^its compiler does not know")
      message(STATUS "vkattn: without some kernels on matrix units: ${VKATTN_GLSLANG} is too old; name glslang 16 by VKATTN_GLSLANG, or "
                     "take a source archive that has them")
      return()
    elseif(reason MATCHES "VKATTN_PREBUILT_SHADERS")
      message(STATUS "vkattn: without some kernels on matrix units: ${VKATTN_PREBUILT_SHADERS} lacks them; take an archive that was "
                     "packed with glslang 16, or leave VKATTN_PREBUILT_SHADERS empty and name glslang 16 by VKATTN_GLSLANG")
      return()
    endif()
  endforeach()
endfunction()
