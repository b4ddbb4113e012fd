// Reads and writes the words of matrix multiplications.
#include <array>

#include "problem/word_values.hpp"

namespace vkattn::bench {

namespace {

constexpr std::string_view kOnes = "ones";

}  // namespace

Result<void> read_sizes(const Given& given, Problem& problem) {
  MatmulDesc& matmul = problem.matmul;
  std::string_view text = given.value;
  for (std::int64_t* const size : {&matmul.rows, &matmul.columns}) {
    const std::size_t cross = text.find('x');
    if (Result<void> s = read_piece(given, text.substr(0, cross), *size); !s.ok()) return s;
    text.remove_prefix(cross + 1);
  }
  return read_piece(given, text, matmul.inner);
}

Text write_sizes(const Problem& problem) {
  const MatmulDesc& matmul = problem.matmul;
  return number_text(matmul.rows) + "x" + number_text(matmul.columns) + "x" + number_text(matmul.inner);
}

Result<void> read_a_type(const Given& given, Problem& problem) {
  MatmulDesc& matmul = problem.matmul;
  matmul.a_is_ones = given.value == kOnes;
  if (matmul.a_is_ones || read_name(given, kFloatNames, matmul.a.type).ok()) return {};
  std::vector<std::string_view> choices;
  for (const Name<DataType>& name : kFloatNames) choices.push_back(name.text);
  choices.push_back(kOnes);
  return no_such_name(given, choices);
}

Text write_a_type(const Problem& problem) {
  return problem.matmul.a_is_ones ? Text(kOnes) : type_text(problem, problem.matmul.a.type);
}

Result<void> read_b_type(const Given& given, Problem& problem) {
  return read_name(given, kWeightNames, problem.matmul.b.type);
}

Text write_b_type(const Problem& problem) {
  return type_text(problem, problem.matmul.b.type);
}

Result<void> read_bias(const Given& /*given*/, Problem& problem) {
  problem.matmul.has_bias = true;
  return {};
}

Text write_bias(const Problem& problem) {
  const MatmulDesc& matmul = problem.matmul;
  return matmul.has_bias && matmul.bias_type == common_type(problem) ? Text("") : Text();
}

Result<void> read_bias_type(const Given& given, Problem& problem) {
  problem.matmul.has_bias = true;
  return read_name(given, kFloatNames, problem.matmul.bias_type);
}

Text write_bias_type(const Problem& problem) {
  const MatmulDesc& matmul = problem.matmul;
  return matmul.has_bias ? type_text(problem, matmul.bias_type) : Text();
}

Result<void> read_accumulates(const Given& /*given*/, Problem& problem) {
  problem.matmul.accumulates = true;
  return {};
}

Text write_accumulates(const Problem& problem) {
  return problem.matmul.accumulates ? Text("") : Text();
}

}  // namespace vkattn::bench
