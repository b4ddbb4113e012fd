# Script mode: the text of shader files and the recipe of each binary as one C++ source. Each line of the list of
# FILES is a path below FOLDER; each line of RECIPES is name|file|target environment|defines, defines separated by
# spaces.
cmake_minimum_required(VERSION 3.25)

# String literals longer than this are too long for some compilers; neighbours are joined. Their suffix gives the length:
# counting it while compiling is more than Clang allows for all shaders together.
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
