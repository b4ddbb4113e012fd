// Attention on arrays in host memory: see Runtime::compute().
#include "runtime/host_call.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn {

namespace detail {

namespace {

/// Plans that compute(desc, …) keeps.
constexpr std::size_t kKeptPlans = 8;

std::int64_t bytes_of(const TensorRow& row, const AttentionDesc& desc) {
  const TensorExtents e = tensor_extents(row, desc);
  return tensor_bytes(row.storage(desc), e.batch, e.heads, e.rows, e.dims).value();  // validated
}

Result<Buffer> upload(const Runtime& runtime, std::span<const std::byte> bytes) {
  // Kernels without 16-bit storage read whole words.
  auto buffer = runtime.create_buffer((bytes.size() + 3) / 4 * 4);
  if (!buffer) return buffer.error();
  if (Status s = runtime.write(*buffer, 0, bytes); !s) return s.error();
  return buffer;
}

Status check_size(const TensorRow& row, std::size_t given, std::int64_t needed) {
  if (std::cmp_greater_equal(given, needed)) return {};
  return Error{
      ErrorCode::kInvalidArgument, VK_SUCCESS,
      message("the array of ", row.name, " has ", given, " bytes but the problem's tensor has ", needed,
              given == 0 ? "; give HostTensors::" : "; give all of HostTensors::", row.name)};
}

/// Outputs are uploaded too: what the problem does not write of them must come back as it was.
Status upload_all(const Runtime& runtime, const AttentionDesc& desc, const PerTensor<HostSpan>& host,
                  AttentionTensors& tensors, PerTensor<Buffer>& buffers) {
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(desc)) continue;
    const std::int64_t bytes = bytes_of(row, desc);
    const std::span<const std::byte> given = host[row.range].read;
    if (Status s = check_size(row, given.size(), bytes); !s) return s;
    if (bytes == 0) continue;
    auto buffer = upload(runtime, given.first(static_cast<std::size_t>(bytes)));
    if (!buffer) return buffer.error();
    tensors.*row.range = buffer->range();
    buffers[row.range] = *std::move(buffer);
  }
  return {};
}

}  // namespace

Status run_on_host(const Runtime& runtime, const AttentionPlan& plan, const PerTensor<HostSpan>& host,
                   AttentionTensors tensors) {
  const AttentionDesc& desc = plan.desc();
  PerTensor<Buffer> buffers;
  if (Status s = upload_all(runtime, desc, host, tensors, buffers); !s) return s;
  const auto workspace = runtime.create_workspace(plan);
  if (!workspace) return workspace.error();
  const auto bindings = plan.make_bindings(tensors, workspace->range());
  if (!bindings) return bindings.error();
  if (auto time = runtime.execute(plan, *bindings); !time) return time.error();
  for (const TensorRow& row : tensor_table()) {
    const Buffer& buffer = buffers[row.range];
    if (!row.use.written || buffer.handle() == VK_NULL_HANDLE) continue;
    const auto bytes = static_cast<std::size_t>(bytes_of(row, desc));
    if (Status s = runtime.read(buffer, 0, host[row.range].written.first(bytes)); !s) return s;
  }
  return {};
}

}  // namespace detail

Status Runtime::compute(const AttentionPlan& plan, const HostTensors& host) const {
  return detail::without_exceptions([&]() -> Status {
    if (plan.desc().is_empty()) return {};
    detail::PerTensor<detail::HostSpan> spans;
    for (const detail::TensorRow& row : detail::tensor_table()) spans[row.range] = row.host(host);
    AttentionTensors tensors;
    tensors.dropout_seed = host.dropout_seed;
    tensors.dropout_offset = host.dropout_offset;
    std::vector<Buffer> score_buffers;
    for (std::size_t i = 0; i < host.score_buffers.size(); ++i) {
      if (host.score_buffers[i].bytes().empty()) continue;
      auto buffer = detail::upload(*this, host.score_buffers[i].bytes());
      if (!buffer) return buffer.error();
      tensors.score_buffers[i] = buffer->range();
      tensors.score_buffers[i].size = host.score_buffers[i].bytes().size();
      score_buffers.push_back(*std::move(buffer));
    }
    return detail::run_on_host(*this, plan, spans, tensors);
  });
}

Status Runtime::compute(const AttentionDesc& desc, const HostTensors& host) const {
  return detail::without_exceptions([&]() -> Status {
    auto& kept = state_->kept_plans;
    const AttentionDesc whole = desc.resolved();
    const auto found = std::find_if(kept.begin(), kept.end(),
                                    [&](const AttentionPlan& plan) { return plan.desc() == whole; });
    if (found != kept.end()) {
      std::rotate(found, found + 1, kept.end());  // the last one used stays longest
      return compute(kept.back(), host);
    }
    auto plan = make_plan(desc);
    if (!plan) return plan.error();
    if (kept.size() == detail::kKeptPlans) kept.erase(kept.begin());
    kept.push_back(*plan);
    return compute(*plan, host);
  });
}

}  // namespace vkattn
