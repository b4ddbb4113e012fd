// Rules and strides that follow from several words of a matrix multiplication together.
#include "common/checked.hpp"
#include "problem/problem_parser.hpp"

namespace vkattn::bench {

/// Makes dense matrices, stored directly or transposed.
void Problem::lay_out_matmul() {
  for (MatrixDesc* const matrix : {&matmul.a, &matmul.b, &matmul.output}) matrix->strides.reset();
  const auto transpose = [](MatrixDesc& matrix, std::int64_t rows, std::int64_t columns) {
    matrix.strides = MatrixStrides{detail::saturating_multiply(rows, columns), 1, rows};
  };
  if (transposed == Transposed::kA || transposed == Transposed::kBoth) {
    transpose(matmul.a, matmul.rows, matmul.inner);
  }
  if (transposed == Transposed::kB || transposed == Transposed::kBoth) {
    transpose(matmul.b, matmul.inner, matmul.columns);
  }
  matmul = matmul.resolved();
}

Result<void> ProblemParser::check_subject() const {
  if (problem_.operation != Operation::kMatmul) {
    if (matmul_word_.empty()) return {};
    return problem_error(quoted(matmul_word_) + " is of a matrix multiplication; add the word matmul");
  }
  if (attention_word_.empty()) return {};
  std::string own;
  for (const Word& word : words()) {
    if (word.subject == Subject::kAttention || word.example.empty()) continue;
    own += (own.empty() ? "" : " ") + std::string(word.example);
  }
  return problem_error(quoted(attention_word_) +
                       " is of attention; the words of a matrix multiplication are " + own);
}

Result<void> ProblemParser::finish_matmul() {
  if (!has("sizes")) {
    return problem_error(
        "the matrix multiplication names no sizes; add a word such as 512x512x512, rows x columns x inner");
  }
  MatmulDesc& matmul = problem_.matmul;
  auto type = DataType::kFloat32;
  for (const Name<DataType>& name : kFloatNames) {
    if (name.text == word_of("type")) type = name.value;
  }
  if (!has("a")) matmul.a.type = type;
  if (!has("b=")) matmul.b.type = type;
  if (!has("output")) matmul.output.type = type;
  if (word_of("bias") == "bias") matmul.bias_type = type;
  if (block_elements(matmul.b.type) > 1 &&
      (problem_.transposed == Transposed::kB || problem_.transposed == Transposed::kBoth)) {
    return problem_error("b of " + std::string(name(matmul.b.type)) +
                         " has its blocks along inner and so lies as its transpose anyway; leave out " +
                         quoted(word_of("transposed")));
  }
  const std::uint32_t alignment =
      has("aligned") ? problem_.desc.query.alignment_bytes : default_alignment(problem_);
  for (MatrixDesc* const matrix : {&matmul.a, &matmul.b, &matmul.output}) matrix->alignment_bytes = alignment;
  problem_.desc = {};
  if (Result<void> s = check_shift(); !s.ok()) return s;
  problem_.lay_out();
  return validate(matmul);
}

}  // namespace vkattn::bench
