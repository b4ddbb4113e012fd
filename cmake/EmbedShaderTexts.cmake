# Script mode: writes the text of shader files and each binary's recipe to the C++ source OUTPUT. FILES is a list of paths below
# FOLDER, one a line. Each line of RECIPES is name|file|target environment|defines, with spaces between defines.
cmake_minimum_required(VERSION 3.22...3.25)

# Some compilers refuse longer string literals, but join neighbouring ones. The suffix sv makes each a string_view of known
# length: to count the length of all shaders while compiling would exceed Clang's limit.
set(piece_length 8000)

set(texts "")
file(STRINGS ${FILES} files)
foreach(path IN LISTS files)
  file(READ ${FOLDER}/${path} text)
  string(LENGTH "${text}" length)
  set(pieces "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} ${piece_length} piece)
    string(APPEND pieces "\n     R\"vkattn(${piece})vkattn\"sv")
    math(EXPR at "${at} + ${piece_length}")
  endwhile()
  string(APPEND texts "    {\"${path}\",${pieces}},\n")
endforeach()

set(recipes "")
file(STRINGS ${RECIPES} lines)
foreach(line IN LISTS lines)
  string(REPLACE "|" "\", \"" fields "${line}")
  string(APPEND recipes "    {\"${fields}\"},\n")
endforeach()

file(WRITE ${OUTPUT} "// Generated: shaders as text, and how each binary is made of them.
#include \"score/shader_texts.hpp\"

namespace vkattn::detail {
namespace {

using namespace std::string_view_literals;

constexpr ShaderText kTexts[] = {
${texts}};

constexpr ShaderRecipe kRecipes[] = {
${recipes}};

}  // namespace

std::span<const ShaderText> shader_texts() { return kTexts; }
std::span<const ShaderRecipe> shader_recipes() { return kRecipes; }

}  // namespace vkattn::detail
")
