# Script mode: packs the file SHADER as the gzip file GZIP, and writes it to the C++ source OUTPUT as the variable shader_<NAME>
# in the namespace NAMESPACE. If SHADER is empty, GZIP exists already. The bytes are written as numbers, because compilers limit
# the length of string literals.
cmake_minimum_required(VERSION 3.22...3.25)
if(SHADER)
  file(ARCHIVE_CREATE OUTPUT ${GZIP} PATHS ${SHADER} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
endif()
file(READ ${GZIP} hex HEX)
if(NOT hex MATCHES "^1f8b0800")
  message(FATAL_ERROR "${GZIP} is no gzip file without a name; make it by file(ARCHIVE_CREATE) of CMake or gzip -n")
endif()
# Drop the time from gzip's header: with it, each build would differ.
string(SUBSTRING "${hex}" 16 -1 hex)
string(PREPEND hex 1f8b080000000000)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REPEAT "." 100 line)
string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
# It includes little, as there are more than a hundred of these.
file(WRITE ${OUTPUT} "// Generated: the shader ${NAME}, packed: src/spirv/packed_shader.hpp.
#include \"spirv/embedded_shader.hpp\"

namespace ${NAMESPACE} {
namespace {

constexpr unsigned char kBytes[] = {
    ${bytes}};

}  // namespace

extern const ::vkattn::detail::EmbeddedShader shader_${NAME};
constexpr ::vkattn::detail::EmbeddedShader shader_${NAME}{kBytes, sizeof kBytes};

}  // namespace ${NAMESPACE}
")
