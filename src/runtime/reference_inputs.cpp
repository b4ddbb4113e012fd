// Inputs of the reference: see reference_inputs.hpp.
#include "runtime/reference_inputs.hpp"

namespace vkattn::detail {

namespace {

// Buffers and vectors are aligned to numbers of 4 bytes.
template <class T>
std::span<const T> numbers(std::span<const std::byte> bytes) {
  const void* const first = bytes.data();
  return {static_cast<const T*>(first), bytes.size() / sizeof(T)};
}

}  // namespace

reference::Inputs reference_inputs(const TensorBytes& bytes_of) {
  using Tensors = AttentionTensors;
  reference::Inputs inputs;
  inputs.query = bytes_of(&Tensors::query).data();
  inputs.key = bytes_of(&Tensors::key).data();
  inputs.value = bytes_of(&Tensors::value).data();
  inputs.mask = bytes_of(&Tensors::mask).data();
  inputs.kv_lengths = numbers<std::int32_t>(bytes_of(&Tensors::kv_lengths));
  inputs.query_lengths = numbers<std::int32_t>(bytes_of(&Tensors::query_lengths));
  inputs.cumulative_query_lengths = numbers<std::int32_t>(bytes_of(&Tensors::cumulative_query_lengths));
  inputs.cumulative_kv_lengths = numbers<std::int32_t>(bytes_of(&Tensors::cumulative_kv_lengths));
  inputs.page_table = numbers<std::int32_t>(bytes_of(&Tensors::page_table));
  inputs.key_scales = numbers<float>(bytes_of(&Tensors::key_scales));
  inputs.value_scales = numbers<float>(bytes_of(&Tensors::value_scales));
  inputs.alibi_slopes = numbers<float>(bytes_of(&Tensors::alibi_slopes));
  inputs.sinks = numbers<float>(bytes_of(&Tensors::sinks));
  return inputs;
}

}  // namespace vkattn::detail
