// Runs a case's problem on a kernel and on the reference: see attention_operator.hpp.
#include <algorithm>
#include <span>
#include <utility>

#include "conformance/attention_operator.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

using detail::TensorRow;
using Bytes = std::vector<std::byte>;
using Range = BufferRange AttentionTensors::*;

/// NaN in every storage type.
constexpr std::byte kPoison{0xff};

/// The operator's outputs, and the tensor of each.
constexpr std::pair<std::string_view, Range> kResults[] = {{"Y", &AttentionTensors::output},
                                                           {"lse", &AttentionTensors::lse},
                                                           {"qk_matmul_output", &AttentionTensors::weights},
                                                           {"present_key", &AttentionTensors::key},
                                                           {"present_value", &AttentionTensors::value}};

/// The size is a multiple of 16 bytes, because kernels may read 32-bit words.
Buffer device_buffer(const Runtime& runtime, Bytes content) {
  if (content.empty()) return {};
  content.resize((content.size() + 15) / 16 * 16, kPoison);
  Buffer buffer = must(runtime.create_buffer(content.size()));
  must(runtime.write(buffer, 0, content));
  return buffer;
}

BufferRange range_of(const Buffer& buffer) {
  return buffer.handle() == VK_NULL_HANDLE ? BufferRange{} : buffer.range();
}

/// The contents of a tensor before the run: poison in an output, and no new rows in a cache.
Bytes content_before(const OperatorProblem& problem, const TensorRow& row) {
  const AttentionDesc& desc = problem.desc;
  if (!row.is_used(desc)) return {};
  if (row.use.written) return Bytes(static_cast<std::size_t>(row.bytes(desc)), kPoison);
  const bool is_cache =
      problem.append && (row.range == &AttentionTensors::key || row.range == &AttentionTensors::value);
  return is_cache ? problem.caches[row.range].before : problem.host[row.range];
}

void append(const Runtime& runtime, const OperatorProblem& problem, const AttentionTensors& caches) {
  const AppendPlan plan = must(runtime.make_plan(*problem.append));
  const Buffer key = device_buffer(runtime, problem.caches[&AttentionTensors::key].added);
  const Buffer value = device_buffer(runtime, problem.caches[&AttentionTensors::value].added);
  AppendTensors tensors;
  tensors.key = range_of(key);
  tensors.value = range_of(value);
  tensors.cache_key = caches.key;
  tensors.cache_value = caches.value;
  const Bindings bindings = must(plan.make_bindings(tensors));
  must(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
}

/// A tensor as the operator's output. For a cache only the used rows: (batch, heads, rows, dims).
CaseTensor operator_output(const OperatorProblem& problem, std::string_view role, const TensorRow& row,
                           Bytes content) {
  const AttentionDesc& desc = problem.desc;
  const ElementType type = element_type(row.storage(desc).type);
  CaseTensor tensor{std::string(role), type, {}, std::move(content)};
  if (!problem.append || !role.starts_with("present_")) return tensor;
  const TensorExtents extents = cache_extents(*problem.append, row.extents(desc).dims);
  const std::size_t row_bytes = static_cast<std::size_t>(extents.dims) * element_bytes(type);
  const std::size_t head_bytes = static_cast<std::size_t>(extents.rows) * row_bytes;
  const Bytes cache = std::exchange(tensor.bytes, {});
  for (auto head = cache.begin(); head != cache.end(); head += static_cast<std::ptrdiff_t>(head_bytes)) {
    const auto used = static_cast<std::size_t>(desc.kv_length) * row_bytes;
    tensor.bytes.insert(tensor.bytes.end(), head, head + static_cast<std::ptrdiff_t>(used));
  }
  return tensor;
}

CaseTensor numbers(std::string role, const std::vector<double>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {std::move(role), ElementType::kFloat64, {}, {bytes.begin(), bytes.end()}};
}

}  // namespace

OperatorResults run_on_kernel(const Runtime& runtime, const OperatorProblem& problem,
                              const std::string& kernel) {
  const AttentionPlan plan = must(make_plan(runtime, problem.desc, {kernel}));
  detail::PerTensor<Buffer> buffers;
  detail::PerTensor<Bytes> content;
  AttentionTensors tensors;
  for (const TensorRow& row : detail::tensor_table()) {
    content[row.range] = content_before(problem, row);
    buffers[row.range] = device_buffer(runtime, content[row.range]);
    tensors.*row.range = range_of(buffers[row.range]);
  }
  if (problem.append) append(runtime, problem, tensors);
  const Buffer workspace = device_buffer(runtime, Bytes(plan.workspace_bytes(), kPoison));
  const Bindings bindings = must(plan.make_bindings(tensors, range_of(workspace)));
  must(runtime.execute(plan, bindings));
  OperatorResults results;
  results.probability_type = plan.probability_type();
  for (const auto& [role, range] : kResults) {
    Bytes& bytes = content[range];
    if (!bytes.empty()) must(runtime.read(buffers[range], 0, bytes));
    results.outputs.push_back(operator_output(problem, role, detail::row_of(range), bytes));
  }
  return results;
}

std::vector<reference::Row> reference_rows(const OperatorProblem& problem) {
  const AttentionDesc& desc = problem.desc;
  const reference::Inputs inputs{
      detail::host_tensors([&](const TensorRow& row) -> const Bytes& { return problem.host[row.range]; })};
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
  const TensorExtents extents = query_extents(desc, desc.value_dim);
  std::vector<double> output(
      static_cast<std::size_t>(extents.batch * extents.heads * extents.rows * extents.dims));
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
  results.outputs = {numbers("Y", output), numbers("lse", lse), numbers("qk_matmul_output", weights)};
  for (const auto& [role, range] : kResults) {
    if (!role.starts_with("present_")) continue;
    results.outputs.push_back(operator_output(problem, role, detail::row_of(range), problem.host[range]));
  }
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
