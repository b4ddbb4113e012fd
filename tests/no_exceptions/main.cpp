// Uses core, score functions and runtime without exceptions and type information. This file and all their
// sources are compiled without them. With the argument 'device' it also uses a device.
#include <vkattn/kernels.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/safetensors.hpp>
#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
#include <vkattn/score_function.hpp>
#endif

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/reference.hpp"
#include "runtime/tuning_file.hpp"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error this program is about libraries without exceptions and type information
#endif

namespace vkattn {
namespace {

int failures = 0;

void expect(bool true_here, const char* what) {
  if (true_here) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

constexpr std::int64_t kQueries = 5;
constexpr std::int64_t kKeys = 37;
constexpr std::int64_t kDim = 16;

AttentionDesc small_problem() {
  AttentionDesc desc;
  desc.query_heads = 2;
  desc.query_length = kQueries;
  desc.kv_length = kKeys;
  desc.head_dim = kDim;
  desc.causal = true;
  desc.align = Align::kBottomRight;
  return desc;
}

std::vector<float> numbers(std::int64_t count, double step) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  return all;
}

struct SmallArrays {
  std::vector<float> query = numbers(2 * kQueries * kDim, 0.7);
  std::vector<float> key = numbers(2 * kKeys * kDim, 0.9);
  std::vector<float> value = numbers(2 * kKeys * kDim, 1.3);
  std::vector<float> output = std::vector<float>(query.size());

  HostTensors tensors() { return {.query = query, .key = key, .value = value, .output = output}; }
};

/// Whether the output is that of the reference.
bool is_right(const AttentionDesc& given, SmallArrays& arrays) {
  const AttentionDesc desc = given.resolved();
  reference::Inputs inputs;
  static_cast<HostTensors&>(inputs) = arrays.tensors();
  bool right = true;
  for (std::int64_t head = 0; head < desc.query_heads; ++head) {
    for (std::int64_t query = 0; query < kQueries; ++query) {
      const reference::Row row = reference::compute_row(desc, inputs, {0, head, query});
      for (std::int64_t dim = 0; dim < kDim; ++dim) {
        const auto at = static_cast<std::size_t>((head * kQueries + query) * kDim + dim);
        const double difference =
            std::abs(static_cast<double>(arrays.output[at]) - row.output[static_cast<std::size_t>(dim)]);
        right = right && difference <= reference::output_tolerance(desc, row, dim);
      }
    }
  }
  return right;
}

// Texts that are not JSON or not UTF-8 are refused. A written file is read again.
void test_safetensors() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("vkattn-no-exceptions-" + std::to_string(std::random_device()()));
  const std::vector<float> values = numbers(6, 1);
  TensorToStore tensor{"w", StoredType::kFloat32, {2, 3}, std::as_bytes(std::span(values))};
  expect(write_safetensors(path, {&tensor, 1}, {{"key", "value"}}).ok(), "a file of tensors is written");
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  expect(file.ok(), "a file of tensors is opened");
  if (file.ok()) {
    const Result<std::vector<float>> read = file->read_floats("w");
    expect(read.ok() && *read == values, "a tensor is read as it was written");
  }
  tensor.name = "\xff";
  expect(!write_safetensors(path, {&tensor, 1}).ok(), "a name that is not UTF-8 is refused");
  std::ofstream(path, std::ios::binary) << std::string("\x02\0\0\0\0\0\0\0{\xff", 10);
  expect(!SafetensorsFile::open(path).ok(), "a header that is no JSON is refused");
  std::error_code error;
  std::filesystem::remove(path, error);
}

void test_without_device() {
  AttentionDesc desc = small_problem();
  expect(validate(desc).ok(), "a good problem is valid");
  desc.head_dim = -1;
  const Result<void> refused = validate(desc);
  expect(!refused.ok() && !refused.error().message.empty(), "a bad one is refused with a sentence");
  const std::vector<KernelSupport> support = kernel_support(small_problem(), Capabilities{});
  expect(!support.empty(), "kernels are listed");
  expect(!Device::borrow({}).ok(), "no device can be borrowed from nothing");

  // Text that is not JSON, JSON of another kind, and numbers out of range. The parser throws for each of
  // them.
  for (const std::string_view text : {"{\"format\":", "[1, 2", "\xff\xfe", "{\"format\": \"vkattn tuning\"}",
                                      "{\"format\":\"vkattn tuning\",\"version\":1e999,\"devices\":[{}]}"}) {
    const Tuning tuning = detail::parse_tuning(text, "a file", Capabilities{});
    expect(tuning.problems.empty() && !tuning.warning.empty(), "a broken tuning file is ignored with a word");
  }
  expect(!detail::merge_tuning("[", Capabilities{}, {}).ok(), "a broken tuning file is not merged");
  expect(detail::merge_tuning("", Capabilities{}, {}).ok(), "a tuning file is begun");

  test_safetensors();

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
  ScoreFunctionDesc score;
  score.source = "float score(float s, uint b) { return s; }";
  expect(!ScoreFunction::create(score).ok(), "a score function that does not compile is refused");
#endif
}

void test_compute(const Runtime& runtime) {
  SmallArrays arrays;
  const Result<void> computed = runtime.compute(small_problem(), arrays.tensors());
  expect(computed.ok(), computed.ok() ? "" : computed.error().message.c_str());
  expect(computed.ok() && is_right(small_problem(), arrays), "attention is the reference's");
}

// Files that cannot exist, and an extension that does not exist, are refused or ignored. They never end the
// program.
void test_bad_options() {
  RuntimeOptions options;
  options.cache_dir = "/dev/null/no folder";
  options.tuning_file = "/dev/null/no file";
  const Result<Runtime> made = Runtime::create(options);
  expect(made.ok(), "files that cannot be read are ignored");
  if (made.ok()) test_compute(*made);
  expect(!made.ok() || !made->save_pipeline_cache().ok(), "a cache that cannot be written is told");
  options.device = "no such device";
  expect(!Runtime::create(options).ok(), "a device that there is not is refused");
}

}  // namespace
}  // namespace vkattn

int main(int argc, char** argv) {
  using namespace vkattn;
  if (argc < 2 || std::string_view(argv[1]) != "device") {
    test_without_device();
  } else {
    const Result<Runtime> runtime = Runtime::create();
    if (!runtime) {
      std::fprintf(stderr, "no device: %s\n", runtime.error().message.c_str());
      return std::getenv("VKATTN_TEST_REQUIRE_DEVICE") != nullptr ? 1 : 77;
    }
    test_compute(*runtime);
    test_bad_options();
  }
  return failures == 0 ? 0 : 1;
}
