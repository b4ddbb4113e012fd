// Draws arguments of calls of the C interface from an input: usually valid ones, sometimes any number.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <vkattn/vkattn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/host_vulkan.hpp"

namespace vkattn::fuzz {

/// Attention is in it twice, so that it is drawn more often.
enum class PlanKind {
  kAttention,
  kAttentionAgain,
  kAppend,
  kMerge,
  kBackward,
  kMatmul,
  kLayer,
  kLayerBackward
};

class CallArguments {
 public:
  CallArguments(const std::uint8_t* data, std::size_t size) : in_(data, size) {}

  [[nodiscard]] bool is_at_end() { return in_.remaining_bytes() == 0; }
  /// A number from 0 to `last`.
  [[nodiscard]] std::uint32_t choice(std::uint32_t last) { return in_.ConsumeIntegralInRange(0U, last); }
  [[nodiscard]] bool flag() { return in_.ConsumeBool(); }
  /// True once in sixteen draws.
  [[nodiscard]] bool rarely() { return choice(15) == 15; }
  [[nodiscard]] std::uint64_t any() { return in_.ConsumeIntegral<std::uint64_t>(); }
  [[nodiscard]] double number() { return in_.ConsumeFloatingPoint<double>(); }
  [[nodiscard]] std::vector<std::byte> bytes(std::size_t most) {
    return in_.ConsumeBytes<std::byte>(in_.ConsumeIntegralInRange<std::size_t>(0, most));
  }

  [[nodiscard]] std::int64_t size();
  [[nodiscard]] std::int64_t size_or(std::int64_t kept) { return flag() ? size() : kept; }
  [[nodiscard]] std::uint32_t enumerator(std::uint32_t last);
  [[nodiscard]] float real();
  /// Stores the value where pointers to it stay valid until the end.
  template <class T>
  [[nodiscard]] T& kept(const T& value) {
    const auto place = std::make_shared<T>(value);
    kept_.push_back(place);
    return *place;
  }

  [[nodiscard]] tests::HostSettings device();
  [[nodiscard]] vkattn_attention_desc attention();
  [[nodiscard]] vkattn_append_desc append();
  [[nodiscard]] vkattn_merge_desc merge();
  [[nodiscard]] vkattn_matmul_desc matmul();
  /// The problems that they point to stay valid until the end.
  /// @{
  [[nodiscard]] vkattn_backward_desc backward();
  [[nodiscard]] vkattn_multi_head_attention_desc layer();
  [[nodiscard]] vkattn_multi_head_attention_backward_desc layer_backward();
  /// @}
  [[nodiscard]] vkattn_parameter parameter();
  [[nodiscard]] PlanKind kind() {
    return static_cast<PlanKind>(choice(static_cast<std::uint32_t>(PlanKind::kLayerBackward)));
  }
  /// Sometimes has options that the kind refuses.
  [[nodiscard]] vkattn_plan_options options(PlanKind kind);
  [[nodiscard]] vkattn_record_options slice();
  /// What the plan needs, unless a wrong number is drawn. It is valid until the next call.
  [[nodiscard]] vkattn_execution execution(const vkattn_plan* plan);

 private:
  template <class Desc, class Structure>
  [[nodiscard]] Structure drawn(Structure start);
  [[nodiscard]] vkattn_binding binding(vkattn_tensor tensor, std::uint64_t range, std::uint64_t offset);
  static void keep_used(vkattn_plan_options& options, PlanKind kind);
  /// Sets another size than the init function does: that of another version, or of uninitialized memory.
  void spoil(std::uint32_t& struct_size);

  FuzzedDataProvider in_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<vkattn_kernel_refusal> refusals_;
  std::vector<vkattn_binding> bindings_;
};

}  // namespace vkattn::fuzz
