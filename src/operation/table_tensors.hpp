// From the rows of a table (attention/tensor_row.hpp) to a program: its tensors, the words that their offsets
// are added to, and bindings of whole tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/tensor_row.hpp"
#include "common/message.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// A row's tensor of a valid descriptor. It has no bytes if the descriptor does not use it.
template <class Desc, class Tensors>
[[nodiscard]] ProgramTensor program_tensor(const TensorRowOf<Desc, Tensors>& row, const Desc& desc) {
  ProgramTensor tensor;
  if (!row.is_used(desc)) return tensor;
  const TensorDesc storage = row.storage(desc);
  tensor.name = message(row.name, " tensor");
  tensor.bytes = row.bytes(desc);
  tensor.alignment_bytes = std::max(element_bytes(storage.type), storage.alignment_bytes);
  tensor.alignment_name = TensorTable<Tensors>::kAlignmentName;
  tensor.written = row.use.written;
  tensor.layout = row.layout(desc);
  return tensor;
}

/// A tensor that is bound whole, so it must fit one descriptor. `advice` is that of check_tensor_bytes().
template <class Desc, class Tensors>
[[nodiscard]] Result<ProgramTensor> whole_tensor(const TensorRowOf<Desc, Tensors>& row, const Desc& desc,
                                                 const Capabilities& capabilities,
                                                 std::string_view advice = "") {
  ProgramTensor tensor = program_tensor(row, desc);
  if (Result<void> s = check_tensor_bytes(row.name, tensor.bytes, capabilities, advice); !s) return s.error();
  return tensor;
}

/// Adds the word that the offset of the row's binding is added to. Rows that share a binding share the word.
template <class Row>
void add_offset_word(const Row& row, ProgramDesc& program) {
  auto& words =
      row.offset.in_push_constants ? program.layout().push_offsets : program.layout().parameter_offsets;
  const auto is_there = [&](const OffsetWord& word) { return word.binding == row.binding; };
  if (std::ranges::none_of(words, is_there)) words.push_back({row.binding, row.offset.byte});
}

/// Adds tensors and words of all rows. Each tensor is bound whole.
template <class Tensors, class Desc>
[[nodiscard]] Result<void> add_table_tensors(const Desc& desc, const Capabilities& capabilities,
                                             std::string_view advice, ProgramDesc& program) {
  for (const auto& row : tensor_table<Tensors>()) {
    auto tensor = whole_tensor(row, desc, capabilities, advice);
    if (!tensor) return tensor.error();
    program.tensors.push_back(*std::move(tensor));
    add_offset_word(row, program);
  }
  return {};
}

/// Binds all of a row's tensor, number `index` of the program's tensors. A tensor without bytes leaves the
/// stand-in.
template <class Desc, class Tensors>
void bind_whole(const TensorRowOf<Desc, Tensors>& row, const Desc& desc, std::size_t index,
                ProgramBinding& binding) {
  const std::uint64_t bytes = row.bytes(desc);
  if (bytes == 0) return;
  binding.from = ProgramBinding::From::kTensor;
  binding.index = static_cast<std::uint32_t>(index);
  binding.bytes = bytes;
  binding.unit_bytes = element_bytes(row.storage(desc).type);
  binding.to_end = row.use.written;
}

}  // namespace vkattn::detail
