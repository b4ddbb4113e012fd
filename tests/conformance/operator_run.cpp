// A case's problem on a kernel and on the reference: see attention_operator.hpp.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "conformance/attention_operator.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

/// NaN in every type that is stored.
constexpr std::byte kPoison{0xff};

/// A tensor on the device: in whole groups of 16 bytes, for kernels may read 32-bit words.
struct DeviceTensor {
  Buffer buffer;
  std::size_t bytes = 0;

  [[nodiscard]] BufferRange range() const { return bytes == 0 ? BufferRange{} : buffer.range(); }
};

/// Buffers of one run. The first error is kept; whatever follows it does nothing.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(const Runtime& runtime) : runtime_(runtime) {}

  DeviceTensor input(std::span<const std::byte> content) {
    DeviceTensor tensor = output(content.size());
    if (status_.ok() && !content.empty()) status_ = runtime_.write(tensor.buffer, 0, content);
    return tensor;
  }

  DeviceTensor output(std::size_t bytes) {
    DeviceTensor tensor;
    if (!status_.ok() || bytes == 0) return tensor;
    const std::vector<std::byte> poison((bytes + 15) / 16 * 16, kPoison);
    Result<Buffer> buffer = runtime_.create_buffer(poison.size());
    if (!buffer.ok()) {
      status_ = buffer.error();
      return tensor;
    }
    tensor.buffer = std::move(buffer).value();
    tensor.bytes = bytes;
    status_ = runtime_.write(tensor.buffer, 0, poison);
    return tensor;
  }

  std::vector<std::byte> read(const DeviceTensor& tensor) {
    std::vector<std::byte> content(tensor.bytes);
    if (status_.ok() && tensor.bytes != 0) status_ = runtime_.read(tensor.buffer, 0, content);
    return content;
  }

  void run(const AttentionPlan& plan, const AttentionTensors& tensors) {
    const DeviceTensor workspace = output(static_cast<std::size_t>(plan.workspace_bytes()));
    if (!status_.ok()) return;
    const Result<Bindings> bindings = plan.make_bindings(tensors, workspace.range());
    if (!bindings.ok()) {
      status_ = bindings.error();
      return;
    }
    const Result<double> time = runtime_.execute(plan, *bindings);
    if (!time.ok()) status_ = time.error();
  }

  void run(const AppendPlan& plan, const AppendTensors& tensors) {
    if (!status_.ok()) return;
    const Result<Bindings> bindings = plan.make_bindings(tensors);
    if (!bindings.ok()) {
      status_ = bindings.error();
      return;
    }
    const auto times = runtime_.execute([&](VkCommandBuffer commands) { plan.record(commands, *bindings); });
    if (!times.ok()) status_ = times.error();
  }

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const Runtime& runtime_;
  Status status_;
};

ElementType element_type(DataType type) {
  return type == DataType::kFloat16    ? ElementType::kFloat16
         : type == DataType::kBfloat16 ? ElementType::kBfloat16
                                       : ElementType::kFloat32;
}

std::size_t elements(const TensorExtents& extents) {
  return static_cast<std::size_t>(extents.batch * extents.heads * extents.rows * extents.dims);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

reference::Inputs reference_inputs(const OperatorProblem& problem) {
  reference::Inputs inputs;
  inputs.query = problem.query.data();
  inputs.key = problem.key.data();
  inputs.value = problem.value.data();
  inputs.mask = problem.mask.data();
  inputs.kv_lengths = problem.kv_lengths;
  inputs.alibi_slopes = problem.alibi_slopes;
  inputs.sinks = problem.sinks;
  return inputs;
}

CaseTensor numbers(std::string role, const std::vector<double>& values) {
  const std::span<const std::byte> bytes = bytes_of(values);
  return {std::move(role), ElementType::kFloat64, {}, {bytes.begin(), bytes.end()}};
}

/// The rows of a cache that are in use, as the operator's present: (batch, heads, rows, dims).
std::vector<std::byte> rows_in_use(const OperatorProblem& problem, const TensorDesc& tensor,
                                   std::int64_t dims, const std::vector<std::byte>& cache) {
  if (!problem.append) return cache;
  const TensorExtents extents = cache_extents(*problem.append, dims);
  const auto row_bytes = static_cast<std::size_t>(dims) * element_bytes(tensor.type);
  const std::size_t cache_bytes = static_cast<std::size_t>(extents.rows) * row_bytes;
  const std::size_t used_bytes = static_cast<std::size_t>(problem.desc.kv_length) * row_bytes;
  std::vector<std::byte> used;
  for (std::size_t head = 0; head + cache_bytes <= cache.size(); head += cache_bytes) {
    const auto first = cache.begin() + static_cast<std::ptrdiff_t>(head);
    used.insert(used.end(), first, first + static_cast<std::ptrdiff_t>(used_bytes));
  }
  return used;
}

/// Appends the new keys and values to the caches.
Status append(const Runtime& runtime, DeviceBuffers& device, const OperatorProblem& problem,
              const DeviceTensor& key, const DeviceTensor& value) {
  AppendOptions options;
  options.pipeline_cache = runtime.pipeline_cache();
  const Result<AppendPlan> plan = AppendPlan::create(runtime.device(), *problem.append, options);
  if (!plan.ok()) return plan.error();
  const DeviceTensor new_key = device.input(problem.key_cache.added);
  const DeviceTensor new_value = device.input(problem.value_cache.added);
  AppendTensors tensors;
  tensors.key = new_key.range();
  tensors.value = new_value.range();
  tensors.cache_key = key.range();
  tensors.cache_value = value.range();
  device.run(plan.value(), tensors);
  return device.status();
}

}  // namespace

const CaseTensor* OperatorResults::output(std::string_view role) const {
  const auto found =
      std::find_if(outputs.begin(), outputs.end(), [&](const CaseTensor& t) { return t.role == role; });
  return found != outputs.end() ? &*found : nullptr;
}

Result<OperatorResults> run_on_kernel(const Runtime& runtime, const OperatorProblem& problem,
                                      const std::string& kernel) {
  const AttentionDesc& desc = problem.desc;
  const Result<AttentionPlan> plan = make_plan(runtime, desc, {kernel});
  if (!plan.ok()) return plan.error();
  DeviceBuffers device(runtime);
  const DeviceTensor query = device.input(problem.query);
  const DeviceTensor key = device.input(problem.append ? problem.key_cache.before : problem.key);
  const DeviceTensor value = device.input(problem.append ? problem.value_cache.before : problem.value);
  if (problem.append) {
    if (Status s = append(runtime, device, problem, key, value); !s.ok()) return s.error();
  }
  const DeviceTensor mask = device.input(problem.mask);
  const DeviceTensor kv_lengths = device.input(bytes_of(problem.kv_lengths));
  const DeviceTensor alibi_slopes = device.input(bytes_of(problem.alibi_slopes));
  const DeviceTensor sinks = device.input(bytes_of(problem.sinks));
  const bool has_weights = desc.weights != WeightsStage::kNone;
  const DeviceTensor output =
      device.output(elements(query_extents(desc, desc.value_dim)) * element_bytes(desc.output.type));
  const DeviceTensor lse = device.output(desc.has_lse ? elements(query_extents(desc, 1)) * sizeof(float) : 0);
  const DeviceTensor weights = device.output(has_weights ? elements(score_extents(desc)) * sizeof(float) : 0);
  AttentionTensors tensors;
  tensors.query = query.range();
  tensors.key = key.range();
  tensors.value = value.range();
  tensors.output = output.range();
  tensors.lse = lse.range();
  tensors.kv_lengths = kv_lengths.range();
  tensors.mask = mask.range();
  tensors.alibi_slopes = alibi_slopes.range();
  tensors.sinks = sinks.range();
  tensors.weights = weights.range();
  device.run(plan.value(), tensors);
  OperatorResults results;
  results.probability_type = plan->probability_type();
  results.outputs = {{"Y", element_type(desc.output.type), {}, device.read(output)},
                     {"lse", ElementType::kFloat32, {}, device.read(lse)},
                     {"qk_matmul_output", ElementType::kFloat32, {}, device.read(weights)},
                     {"present_key",
                      element_type(desc.key.type),
                      {},
                      rows_in_use(problem, desc.key, desc.head_dim, device.read(key))},
                     {"present_value",
                      element_type(desc.value.type),
                      {},
                      rows_in_use(problem, desc.value, desc.value_dim, device.read(value))}};
  if (!device.status().ok()) return device.status().error();
  return results;
}

std::vector<reference::Row> reference_rows(const OperatorProblem& problem) {
  const AttentionDesc& desc = problem.desc;
  const reference::Inputs inputs = reference_inputs(problem);
  std::vector<reference::Row> rows;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < desc.query_length; ++i) {
        rows.push_back(reference::compute_row(desc, inputs, {b, h, i}));
      }
    }
  }
  return rows;
}

OperatorResults reference_results(const OperatorProblem& problem, const std::vector<reference::Row>& rows) {
  const AttentionDesc& desc = problem.desc;
  std::vector<double> output(elements(query_extents(desc, desc.value_dim)));
  std::vector<double> lse;
  std::vector<double> weights;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const OutputRow place = output_row(desc, n);
    for (std::size_t d = 0; d < rows[n].output.size(); ++d) {
      output[place.first + d * place.stride] = rows[n].output[d];
    }
    lse.push_back(rows[n].lse);
    weights.insert(weights.end(), rows[n].weights.begin(), rows[n].weights.end());
  }
  OperatorResults results;
  results.outputs = {numbers("Y", output),
                     numbers("lse", lse),
                     numbers("qk_matmul_output", weights),
                     {"present_key",
                      element_type(desc.key.type),
                      {},
                      rows_in_use(problem, desc.key, desc.head_dim, problem.key)},
                     {"present_value",
                      element_type(desc.value.type),
                      {},
                      rows_in_use(problem, desc.value, desc.value_dim, problem.value)}};
  return results;
}

OutputRow output_row(const AttentionDesc& desc, std::size_t row) {
  const auto n = static_cast<std::int64_t>(row);
  const std::int64_t i = n % desc.query_length;
  const std::int64_t h = n / desc.query_length % desc.query_heads;
  const std::int64_t b = n / desc.query_length / desc.query_heads;
  const Strides& strides = *desc.output.strides;
  return {static_cast<std::size_t>(b * strides.batch + h * strides.head + i * strides.row),
          static_cast<std::size_t>(strides.dim)};
}

}  // namespace vkattn::tests
