// Attention on arrays in host memory: see Runtime::compute().
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "attention/tensor_table.hpp"
#include "common/message.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn {

namespace {

using namespace detail;

/// Plans that compute(desc, …) keeps.
constexpr std::size_t kKeptPlans = 8;

std::int64_t bytes_of(const TensorRow& row, const AttentionDesc& desc) {
  const TensorExtents e = tensor_extents(row, desc);
  return tensor_bytes(row.storage(desc), e.batch, e.heads, e.rows, e.dims).value();  // validated
}

Result<Buffer> upload(const Runtime& runtime, std::span<const std::byte> bytes) {
  // Whole words, as AttentionPlan::range_bytes() has them.
  auto buffer = runtime.create_buffer((bytes.size() + 3) / 4 * 4);
  if (!buffer) return buffer.error();
  if (Result<void> s = runtime.write(*buffer, 0, bytes); !s) return s.error();
  return buffer;
}

Result<void> check_size(const TensorRow& row, std::size_t given, std::int64_t needed) {
  if (std::cmp_greater_equal(given, needed)) return {};
  return Error{
      ErrorCode::kInvalidArgument, VK_SUCCESS,
      message("the array of ", row.name, " has ", given, " bytes but the problem's tensor has ", needed,
              given == 0 ? "; give HostTensors::" : "; give all of HostTensors::", row.name)};
}

/// Outputs are uploaded too: what the problem does not write of them must come back as it was.
Result<void> upload_all(const Runtime& runtime, const AttentionDesc& desc, const HostTensors& host,
                        AttentionTensors& tensors, PerTensor<Buffer>& buffers) {
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(desc)) continue;
    const std::int64_t bytes = bytes_of(row, desc);
    const std::span<const std::byte> given = host_bytes(host, row);
    if (Result<void> s = check_size(row, given.size(), bytes); !s) return s;
    if (bytes == 0) continue;
    auto buffer = upload(runtime, given.first(static_cast<std::size_t>(bytes)));
    if (!buffer) return buffer.error();
    tensors.*row.range = buffer->range();
    buffers[row.range] = *std::move(buffer);
  }
  return {};
}

/// Uploads the tables of a score function.
Result<void> upload_score_buffers(const Runtime& runtime, const HostTensors& host, AttentionTensors& tensors,
                                  std::vector<Buffer>& buffers) {
  for (std::size_t i = 0; i < host.score_buffers.size(); ++i) {
    const std::span<const std::byte> bytes = host.score_buffers[i].bytes();
    if (bytes.empty()) continue;
    auto buffer = upload(runtime, bytes);
    if (!buffer) return buffer.error();
    tensors.score_buffers[i] = {buffer->handle(), 0, bytes.size()};
    buffers.push_back(*std::move(buffer));
  }
  return {};
}

Result<void> download_all(const Runtime& runtime, const AttentionDesc& desc, const PerTensor<Buffer>& buffers,
                          const HostTensors& host) {
  for (const TensorRow& row : tensor_table()) {
    const auto* const member = std::get_if<HostOutput HostTensors::*>(&row.host);
    const Buffer& buffer = buffers[row.range];
    if (member == nullptr || buffer.handle() == VK_NULL_HANDLE) continue;
    const std::span<std::byte> bytes = (host.**member).bytes();
    if (Result<void> s = runtime.read(buffer, 0, bytes.first(static_cast<std::size_t>(bytes_of(row, desc))));
        !s) {
      return s;
    }
  }
  return {};
}

}  // namespace

Result<void> Runtime::compute(const AttentionPlan& plan, const HostTensors& host) const {
  return detail::without_exceptions([&]() -> Result<void> {
    const AttentionDesc& desc = plan.desc();
    if (desc.is_empty()) return {};
    AttentionTensors tensors;
    tensors.dropout_seed = host.dropout_seed;
    tensors.dropout_offset = host.dropout_offset;
    PerTensor<Buffer> buffers;
    std::vector<Buffer> score_buffers;
    if (Result<void> s = upload_all(*this, desc, host, tensors, buffers); !s) return s;
    if (Result<void> s = upload_score_buffers(*this, host, tensors, score_buffers); !s) return s;
    const auto workspace = create_workspace(plan);
    if (!workspace) return workspace.error();
    const auto bindings = plan.make_bindings(tensors, workspace->range());
    if (!bindings) return bindings.error();
    if (auto time = execute(plan, *bindings); !time) return time.error();
    return download_all(*this, desc, buffers, host);
  });
}

Result<void> Runtime::compute(const AttentionDesc& desc, const HostTensors& host) const {
  return detail::without_exceptions([&]() -> Result<void> {
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
    if (kept.size() == kKeptPlans) kept.erase(kept.begin());
    kept.push_back(*plan);
    return compute(*plan, host);
  });
}

}  // namespace vkattn
