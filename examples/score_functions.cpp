// Score functions of one's own: a prefix that every token sees, documents that see only themselves, and a
// bias by distance. All queries are zero and the values are the unit matrix, so the output shows which token
// attends to which.
#include <vkattn/runtime.hpp>
#include <vkattn/score_function.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace {

constexpr const char* kPrefix = R"(
  bool visible(Position p) { return p.key <= p.query || p.key < prefix(p.batch); }
)";

constexpr const char* kDocuments = R"(
  bool visible(Position p) { return p.key <= p.query && document(p.key) == document(p.query); }
)";

constexpr const char* kDistance = R"(
  float score(float s, Position p) { return s + bias(abs(int(p.key) - int(p.query))); }
)";

constexpr std::size_t kTokens = 8;
using Matrix = std::array<float, kTokens * kTokens>;

// Ends the program if a call failed. The error says what failed and why.
template <class T>
T checked(vkattn::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

void checked(const vkattn::Result<void>& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

// Computes attention with a score function that reads one table.
template <class Table>
Matrix attend(const vkattn::Runtime& runtime, const char* source, const vkattn::ScoreBuffer& buffer,
              const Table& table) {
  vkattn::AttentionDesc desc;
  desc.query_length = desc.kv_length = desc.head_dim = kTokens;
  desc.score_function = checked(vkattn::ScoreFunction::create({source, buffer.name, {buffer}}));

  const Matrix zeros{};
  Matrix unit{};
  for (std::size_t i = 0; i < kTokens; ++i) unit[i * kTokens + i] = 1;
  Matrix weights{};
  checked(runtime.compute(
      desc, {.query = zeros, .key = zeros, .value = unit, .output = weights, .score_buffers = {table}}));
  return weights;
}

void print(const char* title, const Matrix& weights) {
  std::printf("\n%s\n", title);
  for (std::size_t i = 0; i < kTokens; ++i) {
    for (std::size_t j = 0; j < kTokens; ++j) {
      const float weight = weights[i * kTokens + j];
      if (weight == 0) std::printf("   . ");
      if (weight != 0) std::printf(" %.2f", static_cast<double>(weight));
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  using enum vkattn::ScoreBufferType;
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create());
  const std::array<std::uint32_t, 1> prefix{3};  // of each batch entry
  const std::array<std::int32_t, kTokens> document{0, 0, 0, 1, 1, 1, 1, 2};
  const std::array<float, kTokens> bias{0, -0.5F, -1, -2, -4, -8, -16, -32};
  print("a prefix of 3", attend(runtime, kPrefix, {"prefix", kUint}, prefix));
  print("three documents", attend(runtime, kDocuments, {"document", kInt}, document));
  print("a bias by distance", attend(runtime, kDistance, {"bias", kFloat}, bias));
}
