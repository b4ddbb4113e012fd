// Changes fields of problems one at a time, in C and in C++ together: the rows of common/fields.def.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/score_shaders.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/enumerators.hpp"
#include "c/fields.hpp"
#include "c/handles.hpp"
#include "support/initial.hpp"
#include "support/some_function.hpp"

namespace vkattn::tests {

/// The structures of all kinds of problems as their init functions leave them, with everything that they must
/// point to.
struct InitialProblems {
  InitialProblems() {
    backward.attention = layer.attention = &attention;
    layer_backward.forward = &layer;
  }
  InitialProblems(const InitialProblems&) = delete;
  InitialProblems& operator=(const InitialProblems&) = delete;

  /// Calls use(structure, descriptor, conversion, key in C) for each kind.
  template <class Use>
  void each(const Use& use) {
    use(attention, AttentionDesc{}, c::attention_desc, vkattn_plan_key_attention);
    use(append, AppendDesc{}, c::append_desc, vkattn_plan_key_append);
    use(merge, MergeDesc{}, c::merge_desc, vkattn_plan_key_merge);
    use(backward, BackwardDesc{}, c::backward_desc, vkattn_plan_key_backward);
    use(matmul, MatmulDesc{}, c::matmul_desc, vkattn_plan_key_matmul);
    use(layer, MultiHeadAttentionDesc{}, c::multi_head_attention_desc, vkattn_plan_key_multi_head_attention);
    use(layer_backward, MultiHeadAttentionBackwardDesc{}, c::multi_head_attention_backward_desc,
        vkattn_plan_key_multi_head_attention_backward);
  }

  vkattn_attention_desc attention = initial(vkattn_attention_desc_init);
  vkattn_append_desc append = initial(vkattn_append_desc_init);
  vkattn_merge_desc merge = initial(vkattn_merge_desc_init);
  vkattn_backward_desc backward = initial(vkattn_backward_desc_init);
  vkattn_matmul_desc matmul = initial(vkattn_matmul_desc_init);
  vkattn_multi_head_attention_desc layer = initial(vkattn_multi_head_attention_desc_init);
  vkattn_multi_head_attention_backward_desc layer_backward =
      initial(vkattn_multi_head_attention_backward_desc_init);
};

/// Gives each field of a structure, and of what it points to, a value other than its first one, and then puts
/// the first one back.
class FieldChanges {
 public:
  /// Called with the field's name while the field has another value. Enumerators take every value.
  std::function<void(const std::string& name)> changed = [](const std::string&) {};
  /// Called while an enumerator of C has the number after the last one.
  std::function<void(const std::string& name, std::uint32_t last)> wrong = [](const std::string&,
                                                                              std::uint32_t) {};
  int count = 0;

  template <class Structure, class Desc>
  void each(Structure& c, Desc& cpp, const std::string& within = "") {
    c::each_field(c, cpp,
                  [&](const char* name, auto& in_c, auto& in_cpp) { of(in_c, in_cpp, within + name); });
  }

 private:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void of(Number& c, Number& cpp, const std::string& name) {
    const auto other = static_cast<Number>(c + 3);
    change(c, other, cpp, other, name);
  }
  void of(std::uint32_t& c, bool& cpp, const std::string& name) {
    change(c, cpp ? 0U : 3U, cpp, !cpp, name);  // every value other than 0 means true
  }
  void of(float& c, std::optional<float>& cpp, const std::string& name) {
    change(c, 0.5F, cpp, std::optional(0.5F), name);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void of(std::uint32_t& c, Enum& cpp, const std::string& name) {
    constexpr std::uint32_t kLast = c::last_of<Enum>();
    for (std::uint32_t other = 0; other <= kLast; ++other) {
      if (other != c) change(c, other, cpp, static_cast<Enum>(other), name);
    }
    std::uint32_t none = kLast + 1;
    std::swap(c, none);
    wrong(name, kLast);
    std::swap(c, none);
  }
  template <class Structure, class Desc>
  requires std::is_class_v<Structure>
  void of(Structure& c, Desc& cpp, const std::string& name) { each(c, cpp, name + "."); }
  /// First points to a structure with its defaults, and then changes each of its parts.
  template <class Given, class Value>
  void of(const Given*& c, std::optional<Value>& cpp, const std::string& name) {
    Given given{};
    if constexpr (std::is_class_v<Given>) c::write_fields(Value{}, given);
    change(c, static_cast<const Given*>(&given), cpp, std::optional(Value{}), name);
    c = &given;
    of(given, cpp.emplace(), name);
    c = nullptr;
    cpp.reset();
  }
  void of(const vkattn_attention_desc*& c, AttentionDesc& cpp, const std::string&) {
    each(const_cast<vkattn_attention_desc&>(*c), cpp);
  }
  void of(const vkattn_multi_head_attention_desc*& c, MultiHeadAttentionDesc& cpp, const std::string&) {
    each(const_cast<vkattn_multi_head_attention_desc&>(*c), cpp);
  }
  /// Two equal functions count as two different ones.
  void of(vkattn_score_function*& c, Shared<const ScoreShaders>& cpp, const std::string& name) {
    std::vector<std::unique_ptr<vkattn_score_function>> both;
    for (int i = 0; i < 2; ++i) {
      const Shared<const ScoreShaders> shaders = std::make_shared<SomeFunction>();
      vkattn_score_function* handle =
          both.emplace_back(std::make_unique<vkattn_score_function>(shaders)).get();
      c::live_handles().add(handle);
      change(c, handle, cpp, shaders, name);
      EXPECT_TRUE(c::live_handles().remove(handle));
    }
  }

  template <class InC, class InCpp>
  void change(InC& c, InC other, InCpp& cpp, InCpp as_cpp, const std::string& name) {
    std::swap(c, other);
    std::swap(cpp, as_cpp);
    ++count;
    changed(name);
    std::swap(c, other);
    std::swap(cpp, as_cpp);
  }
};

}  // namespace vkattn::tests
