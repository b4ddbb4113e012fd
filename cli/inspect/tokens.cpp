// See tokens.hpp.
#include "inspect/tokens.hpp"

#include <cmath>
#include <cstddef>

#include "console.hpp"
#include "error.hpp"
#include "harness/data.hpp"
#include "json.hpp"

namespace vkattn::cli {
namespace {

constexpr std::size_t kEmbeddingDim = 256;
constexpr std::uint64_t kProjectionStream = 1U << 20U;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// An ASCII punctuation mark. An apostrophe or hyphen is part of its word.
bool is_mark(char c) {
  return std::string_view(".,;:!?\"()[]{}").find(c) != std::string_view::npos;
}

/// The hash FNV-1a.
std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::vector<double> normal_numbers(std::uint64_t stream, std::size_t count) {
  harness::NormalNumbers normal(stream);
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = normal.at(i);
  return numbers;
}

}  // namespace

std::vector<std::string> split_tokens(std::string_view text) {
  std::vector<std::string> tokens;
  bool in_word = false;
  for (const char c : text) {
    if (is_space(c)) {
      in_word = false;
    } else if (is_mark(c) || !in_word) {
      tokens.emplace_back(1, c);
      in_word = !is_mark(c);
    } else {
      tokens.back() += c;
    }
  }
  return tokens;
}

std::vector<std::string> read_tokens(const std::string& option, const std::string& text) {
  std::vector<std::string> tokens = split_tokens(text);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (drawable(tokens[i]) == tokens[i]) continue;
    fail_usage(option + ": token " + std::to_string(i) +
               " has control characters or bytes that are no UTF-8");
  }
  return tokens;
}

std::vector<float> project_tokens(const std::vector<std::string>& tokens, const ProjectionSettings& settings,
                                  Projection which) {
  std::vector<std::vector<double>> embeddings;
  for (const std::string& token : tokens) {
    embeddings.push_back(normal_numbers(harness::stream_of(settings.seed, hash_of(token)), kEmbeddingDim));
  }
  const auto dims = static_cast<std::size_t>(settings.head_dim);
  const double norm = 1 / std::sqrt(static_cast<double>(kEmbeddingDim));
  std::vector<float> projected;
  std::vector<double> row(dims);
  for (std::int64_t head = 0; head < settings.heads; ++head) {
    const std::uint64_t number = kProjectionStream + 2 * static_cast<std::uint64_t>(head);
    const std::vector<double> matrix = normal_numbers(
        harness::stream_of(settings.seed, number + static_cast<std::uint64_t>(which)), kEmbeddingDim * dims);
    for (const std::vector<double>& embedding : embeddings) {
      row.assign(dims, 0);
      for (std::size_t e = 0; e < kEmbeddingDim; ++e) {
        for (std::size_t d = 0; d < dims; ++d) row[d] += embedding[e] * matrix[e * dims + d];
      }
      for (const double element : row) projected.push_back(static_cast<float>(element * norm));
    }
  }
  return projected;
}

}  // namespace vkattn::cli
