// Times ggml's back ends on problems in vkattn's words, and compares rows of each output with float64. A line
// of JSON for each; scripts/measure-peers runs it.
//
//   vkattn_ggml_measure REPEAT THREADS DEVICE[,DEVICE…] PROBLEM…
//
// DEVICE is ggml's name of a device: CPU, Vulkan0, vkattn. K and V have the problem's type, Q is float32, and
// a causal mask is float16, as ggml has them. Of the environment it reads what the test of the back end does.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "float64.hpp"
#include "graph.hpp"
#include "problem/problem.hpp"

namespace {

using namespace vkattn;
using vkattn::ggml::Graph;
using vkattn::ggml::Shape;

constexpr std::uint64_t kSeed = 1;
/// The error of an output with a NaN or infinity, as JSON has neither.
constexpr double kInfiniteError = 1e300;

/// The shape of a problem, or nothing if the problem has what this program does not know.
std::optional<Shape> shape_of(const AttentionDesc& desc) {
  AttentionDesc plain;
  plain.batch = desc.batch;
  plain.query_heads = desc.query_heads;
  plain.kv_heads = desc.kv_heads;
  plain.query_length = desc.query_length;
  plain.kv_length = desc.kv_length;
  plain.head_dim = desc.head_dim;
  plain.value_dim = desc.value_dim;
  plain.causal = desc.causal;
  plain.set_type(desc.query.type);
  if (desc.mask.type == MaskType::kNone) plain.mask = desc.mask;
  if (plain.resolved() != desc.resolved()) return std::nullopt;
  if (desc.causal && desc.query_length != desc.kv_length) return std::nullopt;
  const AttentionDesc whole = desc.resolved();
  Shape shape;
  shape.key = whole.key.type == DataType::kFloat16    ? GGML_TYPE_F16
              : whole.key.type == DataType::kBfloat16 ? GGML_TYPE_BF16
                                                      : GGML_TYPE_F32;
  shape.value = shape.key;
  shape.batch = whole.batch;
  shape.query_heads = whole.query_heads;
  shape.kv_heads = whole.kv_heads;
  shape.queries = whole.query_length;
  shape.keys = whole.kv_length;
  shape.head_dim = whole.head_dim;
  shape.value_dim = whole.value_dim;
  if (whole.causal) shape.mask = ggml::Mask::kCausal;
  return shape;
}

/// The median of so many executions; nothing if one fails.
std::optional<double> median_ms(ggml_backend_t backend, const Graph& graph, int repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (ggml_backend_graph_compute(backend, graph.graph()) != GGML_STATUS_SUCCESS) return std::nullopt;
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Measures a problem on a device; what is printed behind the problem's and the device's names.
std::string measure(const Shape& shape, const std::string& device, int repeat, int threads) {
  const ggml::Backend backend = ggml::backend_of(device);
  if (!backend) return "\"reason\": \"ggml has no such device\"";
  ggml::set_threads(backend.get(), threads);
  const Graph graph(shape, backend.get(), kSeed);
  ggml_prec_set_acc(&graph.node(), GGML_PREC_F32);  // as llama.cpp asks for
  if (!ggml_backend_supports_op(backend.get(), &graph.node())) return "\"reason\": \"not computed by it\"";
  if (ggml_backend_graph_compute(backend.get(), graph.graph()) != GGML_STATUS_SUCCESS) {
    return "\"reason\": \"it failed\"";
  }
  double error = ggml::Float64(shape, graph).compare_some(graph.output()).error;
  if (!std::isfinite(error)) error = kInfiniteError;
  const std::optional<double> ms = median_ms(backend.get(), graph, repeat);
  if (!ms) return "\"reason\": \"it failed after the first time\"";
  std::ostringstream text;
  text << "\"median_ms\": " << *ms << ", \"error\": " << error;
  return text.str();
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) {
    std::fputs("usage: vkattn_ggml_measure REPEAT THREADS DEVICE[,DEVICE...] PROBLEM...\n", stderr);
    return 2;
  }
  const int repeat = ggml::number_of("REPEAT", arguments[0], 1);
  const int threads = ggml::number_of("THREADS", arguments[1], 1);
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const auto problem = bench::parse_problem(arguments[i]);
    if (!problem) {
      std::fprintf(stderr, "%s\n", problem.error().message.c_str());
      return 2;
    }
    const std::optional<Shape> shape =
        problem->operation == bench::Operation::kForward ? shape_of(problem->desc) : std::nullopt;
    if (!shape) {
      std::fprintf(stderr, "'%s' is no forward pass of plain attention, causal and square at most\n",
                   arguments[i].c_str());
      return 2;
    }
    std::istringstream devices(arguments[2]);
    for (std::string device; std::getline(devices, device, ',');) {
      const std::string result = measure(*shape, device, repeat, threads);
      std::printf("{\"problem\": \"%s\", \"device\": \"%s\", %s}\n", arguments[i].c_str(), device.c_str(),
                  result.c_str());
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** values) {
  return vkattn::ggml::run_program(count, values, run);
}
