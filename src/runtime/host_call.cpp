// Attention on arrays in host memory: see Runtime::compute().
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn {

namespace {

using namespace detail;

/// Rounds up to whole words, as AttentionPlan::range_bytes() does.
VkDeviceSize whole_words(std::size_t bytes) {
  return round_up(bytes, std::size_t{4});
}

Result<Buffer> upload(const Runtime& runtime, std::span<const std::byte> bytes) {
  auto buffer = runtime.create_buffer(whole_words(bytes.size()));
  if (!buffer) return buffer.error();
  if (Result<void> s = runtime.write(*buffer, 0, bytes); !s) return s.error();
  return buffer;
}

Result<void> check_size(const TensorRow& row, std::size_t given, std::uint64_t needed) {
  if (given >= needed) return {};
  return invalid("the array of ", row.name, " has ", given, " bytes but the problem's tensor has ", needed,
                 given == 0 ? "; give HostTensors::" : "; give all of HostTensors::", row.name);
}

/// An input of the call.
struct HostTensor {
  const TensorRow* row = nullptr;
  std::span<const std::byte> bytes;
};

/// The memory of one or several inputs, and the device's copy of it.
struct HostPiece {
  std::span<const std::byte> bytes;
  std::vector<HostTensor> tensors;
  Buffer buffer;
  ImportedMemory imported;  ///< in place of a copy
};

std::uintptr_t address_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

/// What the place of a tensor's first element must be a multiple of.
std::uint32_t alignment_of(const HostTensor& tensor, const AttentionDesc& desc) {
  const TensorDesc storage = tensor.row->storage(desc);
  return std::max(element_bytes(storage.type), storage.alignment_bytes);
}

/// The tensor's memory, if the device can use it where it lies.
ImportedMemory import_array(const Runtime& runtime, std::span<const std::byte> bytes,
                            const std::vector<HostTensor>& tensors, const AttentionDesc& desc) {
  const bool is_aligned = std::all_of(tensors.begin(), tensors.end(), [&](const HostTensor& tensor) {
    return address_of(tensor.bytes) % alignment_of(tensor, desc) == 0;
  });
  return is_aligned ? import_memory(RuntimeState::of(runtime), bytes) : ImportedMemory{};
}

BufferRange range_of(const ImportedMemory& memory, VkDeviceSize offset) {
  const VkDeviceSize first = memory.offset + offset;
  return {memory.buffer->buffer, first, memory.buffer->size - first};
}

/// Whether an input that begins in a piece can be bound as a part of its copy.
bool can_share(const HostPiece& piece, const HostTensor& tensor, const AttentionDesc& desc,
               const Capabilities& capabilities) {
  const std::uintptr_t behind = address_of(tensor.bytes) - address_of(piece.bytes);
  if (behind >= piece.bytes.size()) return false;
  if (behind % alignment_of(tensor, desc) != 0) return false;
  const std::uint64_t most = std::min(capabilities.max_buffer_size, capabilities.max_memory_allocation_bytes);
  return std::max<std::uint64_t>(piece.bytes.size(), behind + tensor.bytes.size()) <= most;
}

std::vector<HostPiece> pieces_of(std::vector<HostTensor> inputs, const AttentionDesc& desc,
                                 const Capabilities& capabilities) {
  // Sorted by address; of inputs at one address the longest comes first.
  std::sort(inputs.begin(), inputs.end(), [](const HostTensor& x, const HostTensor& y) {
    const std::uintptr_t at_x = address_of(x.bytes), at_y = address_of(y.bytes);
    return at_x != at_y ? at_x < at_y : x.bytes.size() > y.bytes.size();
  });
  std::vector<HostPiece> pieces;
  for (const HostTensor& tensor : inputs) {
    if (pieces.empty() || !can_share(pieces.back(), tensor, desc, capabilities)) {
      pieces.push_back({tensor.bytes, {}, {}, {}});
    }
    HostPiece& piece = pieces.back();
    const std::size_t end = address_of(tensor.bytes) - address_of(piece.bytes) + tensor.bytes.size();
    if (end > piece.bytes.size()) piece.bytes = {piece.bytes.data(), end};
    piece.tensors.push_back(tensor);
  }
  return pieces;
}

/// Whether the problem leaves some bytes of an output unwritten, which must come back as they were.
bool keeps_some(const TensorRow& row, const AttentionDesc& desc) {
  return desc.query_lengths != Lengths::kUniform || !row.layout(desc).is_one_run();
}

/// The tensors of a call on the device.
struct DeviceTensors {
  AttentionTensors ranges;
  std::vector<HostPiece> inputs;
  PerTensor<Buffer> outputs;
  std::vector<ImportedMemory> imported_outputs;
};

Result<void> make_output(const Runtime& runtime, const AttentionDesc& desc, const HostTensor& tensor,
                         DeviceTensors& device) {
  if (ImportedMemory memory = import_array(runtime, tensor.bytes, {tensor}, desc); memory.buffer) {
    device.ranges.*tensor.row->range = range_of(memory, 0);
    device.imported_outputs.push_back(std::move(memory));
    return {};
  }
  auto buffer = keeps_some(*tensor.row, desc) ? upload(runtime, tensor.bytes)
                                              : runtime.create_buffer(whole_words(tensor.bytes.size()));
  if (!buffer) return buffer.error();
  device.ranges.*tensor.row->range = buffer->range();
  device.outputs[tensor.row->range] = *std::move(buffer);
  return {};
}

Result<void> upload_all(const Runtime& runtime, const AttentionDesc& desc, const HostTensors& host,
                        DeviceTensors& device) {
  std::vector<HostTensor> inputs;
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(desc)) continue;
    const std::uint64_t bytes = row.bytes(desc);
    const std::span<const std::byte> given = host_bytes(host, row);
    if (Result<void> s = check_size(row, given.size(), bytes); !s) return s;
    if (bytes == 0) continue;
    const HostTensor tensor{&row, given.first(static_cast<std::size_t>(bytes))};
    if (!row.use.written) {
      inputs.push_back(tensor);
    } else if (Result<void> s = make_output(runtime, desc, tensor, device); !s) {
      return s;
    }
  }
  device.inputs = pieces_of(std::move(inputs), desc, runtime.device().capabilities());
  for (HostPiece& piece : device.inputs) {
    piece.imported = import_array(runtime, piece.bytes, piece.tensors, desc);
    if (!piece.imported.buffer) {
      auto buffer = upload(runtime, piece.bytes);
      if (!buffer) return buffer.error();
      piece.buffer = *std::move(buffer);
    }
    for (const HostTensor& tensor : piece.tensors) {
      const VkDeviceSize offset = address_of(tensor.bytes) - address_of(piece.bytes);
      device.ranges.*tensor.row->range =
          piece.imported.buffer ? range_of(piece.imported, offset) : piece.buffer.range(offset);
    }
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
    if (Result<void> s = runtime.read(buffer, 0, bytes.first(static_cast<std::size_t>(row.bytes(desc)))); !s)
      return s;
  }
  return {};
}

}  // namespace

Result<void> Runtime::compute(const AttentionPlan& plan, const HostTensors& host) const {
  return detail::without_exceptions([&]() -> Result<void> {
    const AttentionDesc& desc = plan.desc();
    if (desc.is_empty()) return {};
    DeviceTensors device;
    AttentionTensors& tensors = device.ranges;
    tensors.dropout_seed = host.dropout_seed;
    tensors.dropout_offset = host.dropout_offset;
    std::vector<Buffer> score_buffers;
    if (Result<void> s = upload_all(*this, desc, host, device); !s) return s;
    if (Result<void> s = upload_score_buffers(*this, host, tensors, score_buffers); !s) return s;
    const auto workspace = create_workspace(plan);
    if (!workspace) return workspace.error();
    const auto bindings = plan.make_bindings(tensors, workspace->range());
    if (!bindings) return bindings.error();
    if (auto time = execute(plan, *bindings); !time) return time.error();
    return download_all(*this, desc, device.outputs, host);
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
    if (state_->most_kept_plans == 0) return compute(*plan, host);
    if (kept.size() >= state_->most_kept_plans) kept.erase(kept.begin());
    kept.push_back(*plan);
    return compute(*plan, host);
  });
}

}  // namespace vkattn
