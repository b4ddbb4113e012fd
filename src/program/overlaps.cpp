// No written tensor may overlap another one: see check_overlaps() of program.hpp.
#include <algorithm>

#include "common/message.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

namespace {

/// A tensor at its place in a call.
struct Placed {
  const ProgramTensor& tensor;
  const BufferRange& range;

  [[nodiscard]] ByteLayout layout() const {
    if (tensor.is_table) return ByteLayout(tensor.bytes == 0 ? 0 : range.size);
    return tensor.layout.is_empty() ? ByteLayout(tensor.bytes) : tensor.layout;
  }
  [[nodiscard]] bool is_bound() const { return tensor.bytes != 0 && range.buffer != VK_NULL_HANDLE; }
};

std::string place_of(const Placed& placed) {
  const std::uint64_t first = placed.range.offset;
  return message("the ", placed.tensor.name, ", bytes ", first, " to ",
                 first + placed.layout().span_bytes() - 1);
}

Result<void> check_pair(const Placed& written, const Placed& other, bool may_be_in_place) {
  if (written.range.buffer != other.range.buffer || !other.is_bound()) return {};
  if (may_be_in_place && written.range.offset == other.range.offset) return {};
  if (!meet(written.layout(), written.range.offset, other.layout(), other.range.offset)) return {};
  return invalid(place_of(written), " of its buffer, overlaps ", place_of(other),
                 may_be_in_place ? ": what is written may begin where that does, or lie apart"
                                 : ": what is written must lie apart from every other tensor");
}

}  // namespace

Result<void> check_overlaps(std::span<const ProgramTensor> tensors, std::span<const BufferRange> ranges,
                            const ProgramTensor& workspace, const BufferRange& workspace_range) {
  const auto is_in_place = [&](std::size_t i, std::size_t of) { return tensors[i].in_place_of == of; };
  const Placed scratch{workspace, workspace_range};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Placed tensor{tensors[i], ranges[i]};
    if (!tensor.is_bound()) continue;
    if (scratch.is_bound()) {
      if (Result<void> s = check_pair(scratch, tensor, false); !s) return s;
    }
    if (!tensor.tensor.written) continue;
    for (std::size_t j = 0; j < tensors.size(); ++j) {
      // A pair of two written tensors is checked once.
      if (j == i || (tensors[j].written && j < i)) continue;
      const bool may_be_in_place = is_in_place(i, j) || is_in_place(j, i);
      if (Result<void> s = check_pair(tensor, {tensors[j], ranges[j]}, may_be_in_place); !s) return s;
    }
  }
  return {};
}

}  // namespace vkattn::detail
