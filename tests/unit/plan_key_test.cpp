// Keys of descriptors: equal for equal ones, and each member counts.
#include <vkattn/vkattn.h>
#include <vkattn/plan_key.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/initial.hpp"
#include "support/text.hpp"

namespace vkattn {
namespace {

using tests::has;
using tests::initial;

/// Each value of a member that differs from a default, and what it is made of.
class Changes {
 public:
  void of(bool& member, const std::string& name) { change(member, !member, name); }
  void of(float& member, const std::string& name) { change(member, member + 0.5F, name); }
  void of(double& member, const std::string& name) { change(member, member + 0.5, name); }
  template <class Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void of(Number& member, const std::string& name) {
    change(member, static_cast<Number>(static_cast<std::int64_t>(member) + 1), name);
  }
  template <class T>
  void of(std::optional<T>& member, const std::string& name) {
    change(member, std::optional<T>(T{}), name);
    const std::optional<T> before = member;
    member = T{};
    of(*member, name);
    member = before;
  }
  void of(Shared<const ScoreShaders>& member, const std::string& name);
  void of(Strides& s, const std::string& name) { all(name, s.batch, s.head, s.row, s.dim); }
  void of(MatrixStrides& s, const std::string& name) { all(name, s.batch, s.row, s.column); }
  void of(TensorDesc& t, const std::string& name) { all(name, t.type, t.strides, t.alignment_bytes); }
  void of(MatrixDesc& t, const std::string& name) { all(name, t.type, t.strides, t.alignment_bytes); }
  void of(CacheLayout& c, const std::string& name) {
    all(name, c.mapping, c.ring_length, c.page_size, c.page_count, c.page_table_stride);
  }
  void of(MaskDesc& m, const std::string& name) { all(name, m.type, m.strides); }
  void of(SlidingWindow& w, const std::string& name) { all(name, w.left, w.right); }
  void of(RotaryDesc& r, const std::string& name) {
    all(name, r.style, r.dims, r.base, r.position_scale, r.has_frequencies, r.magnitude, r.inverse);
  }
  void of(AttentionDesc& d, const std::string& name) {
    all(name, d.batch, d.query_heads, d.kv_heads, d.query_length, d.kv_length, d.head_dim, d.value_dim,
        d.layout, d.query, d.key, d.value, d.output, d.scale, d.causal, d.align, d.offset, d.query_lengths,
        d.kv_lengths, d.total_query_length, d.total_kv_length, d.cache, d.softcap, d.mask, d.window, d.alibi,
        d.has_sinks, d.dropout, d.score_function, d.has_lse, d.lse_strides, d.weights, d.weights_strides);
  }
  void of(AppendDesc& d, const std::string& name) {
    all(name, d.batch, d.query_heads, d.kv_heads, d.new_length, d.head_dim, d.value_dim, d.layout, d.query,
        d.key, d.value, d.query_output, d.cache_key, d.cache_value, d.cache, d.cache_length, d.has_positions,
        d.position, d.new_lengths, d.total_new_length, d.writes_kv_lengths, d.rotary);
  }
  void of(MergeDesc& d, const std::string& name) {
    all(name, d.rows, d.value_dim, d.parts, d.part_type, d.output_type, d.has_lse);
  }
  void of(BackwardDesc& d, const std::string& name) {
    all(name, d.attention, d.has_grad_query, d.has_grad_key, d.has_grad_value, d.has_grad_mask,
        d.has_grad_alibi_slopes, d.has_grad_sinks, d.grad_output, d.grad_query, d.grad_key, d.grad_value,
        d.grad_mask);
  }
  void of(MatmulDesc& d, const std::string& name) {
    all(name, d.batch, d.rows, d.columns, d.inner, d.a, d.b, d.output, d.has_bias, d.bias_type, d.accumulates,
        d.a_is_ones);
  }
  void of(MultiHeadAttentionDesc& d, const std::string& name) {
    all(name, d.attention, d.d_model, d.inputs, d.key_input_dim, d.value_input_dim, d.packed_weights,
        d.has_input_bias, d.has_output_bias, d.type, d.parameter_type, d.weight_type, d.alignment_bytes,
        d.rotary, d.has_cache, d.has_averaged_weights, d.adds_to_output, d.saves_for_gradients);
  }
  void of(MultiHeadAttentionBackwardDesc& d, const std::string& name) {
    all(name, d.forward, d.has_grad_query, d.has_grad_key, d.has_grad_value, d.has_grad_parameters,
        d.has_grad_mask, d.has_grad_alibi_slopes, d.has_grad_sinks, d.adds_to_inputs, d.adds_to_parameters,
        d.grad_parameter_type, d.grad_mask);
  }

  std::function<void(const std::string& name)> changed;
  int count = 0;

 private:
  template <class Member>
  void change(Member& member, Member value, const std::string& name) {
    std::swap(member, value);
    ++count;
    changed(name);
    std::swap(member, value);
  }
  template <class... Members>
  void all(const std::string& name, Members&... members) {
    int number = 0;
    (of(members, name + "." + std::to_string(number++)), ...);
  }
};

class NoShaders : public ScoreShaders {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "none"; }
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override { return buffers_; }
  [[nodiscard]] bool hides_keys() const noexcept override { return false; }
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(std::string_view) const noexcept override {
    return std::span<const std::uint32_t>();
  }

 private:
  std::vector<ScoreBuffer> buffers_;
};

void Changes::of(Shared<const ScoreShaders>& member, const std::string& name) {
  const Shared<const ScoreShaders> one = std::make_shared<NoShaders>(), other = std::make_shared<NoShaders>();
  change(member, one, name);
  change(member, other, name);
}

/// All keys differ, those of what lies deeper too; and a key is that of an equal descriptor.
template <class Desc>
void expect_every_member_counts(int at_least) {
  Desc desc;
  std::set<std::string> keys{plan_key(desc)};
  EXPECT_EQ(plan_key(desc), plan_key(Desc{}));
  Changes changes;
  std::string last;
  changes.changed = [&](const std::string& name) {
    const Desc copy = desc;
    const std::string key = plan_key(desc);
    EXPECT_EQ(plan_key(copy), key) << name;
    // A member that is optional has one change more, to what its parts change from.
    EXPECT_TRUE(keys.insert(key).second) << "member " << name << ": " << key;
  };
  changes.of(desc, "");
  EXPECT_GE(changes.count, at_least);
  EXPECT_EQ(plan_key(desc), plan_key(Desc{})) << "all was put back";
}

TEST(PlanKey, EveryMemberCounts) {
  expect_every_member_counts<AttentionDesc>(70);
  expect_every_member_counts<AppendDesc>(60);
  expect_every_member_counts<MergeDesc>(6);
  expect_every_member_counts<BackwardDesc>(110);
  expect_every_member_counts<MatmulDesc>(25);
  expect_every_member_counts<MultiHeadAttentionDesc>(90);
  expect_every_member_counts<MultiHeadAttentionBackwardDesc>(110);
}

TEST(PlanKey, EqualDescriptorsHaveOneKey) {
  AttentionDesc zero, minus;
  zero.scale = zero.softcap = 0.0F;
  minus.scale = minus.softcap = -0.0F;
  ASSERT_EQ(zero, minus);
  EXPECT_EQ(plan_key(zero), plan_key(minus));
  AttentionDesc given{.query_length = 4, .kv_length = 6, .head_dim = 8};
  AttentionDesc longer = given;
  longer.kv_heads = 1;
  longer.value_dim = 8;
  EXPECT_NE(plan_key(given), plan_key(longer));
  EXPECT_EQ(plan_key(given.resolved()), plan_key(longer.resolved()));
  EXPECT_NE(plan_key(MergeDesc{}), plan_key(MatmulDesc{}));
  for (const char letter : plan_key(given)) EXPECT_TRUE(letter >= ' ' && letter < 127) << letter;
}

TEST(PlanKey, IsTheSameInC) {
  auto given = initial(vkattn_attention_desc_init);
  given.query_length = 4;
  given.kv_length = 6;
  given.head_dim = 8;
  const std::string expected = plan_key(AttentionDesc{.query_length = 4, .kv_length = 6, .head_dim = 8});
  std::size_t bytes = 0;
  auto error = initial(vkattn_error_init);
  ASSERT_EQ(vkattn_plan_key_attention(&given, nullptr, &bytes, &error), VKATTN_SUCCESS) << error.message;
  EXPECT_EQ(bytes, expected.size() + 1);
  std::vector<char> text(bytes, '#');
  ASSERT_EQ(vkattn_plan_key_attention(&given, text.data(), &bytes, &error), VKATTN_SUCCESS) << error.message;
  EXPECT_EQ(text.data(), expected);
  --bytes;
  EXPECT_EQ(vkattn_plan_key_attention(&given, text.data(), &bytes, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(has(error.message, "the key takes"));
  const auto key_of = [&](auto* write, const auto& desc) {
    std::size_t size = 0;
    EXPECT_EQ(write(&desc, nullptr, &size, &error), VKATTN_SUCCESS) << error.message;
    std::vector<char> key(size);
    EXPECT_EQ(write(&desc, key.data(), &size, &error), VKATTN_SUCCESS) << error.message;
    return std::string(key.data());
  };
  EXPECT_EQ(key_of(vkattn_plan_key_append, initial(vkattn_append_desc_init)), plan_key(AppendDesc{}));
  EXPECT_EQ(key_of(vkattn_plan_key_merge, initial(vkattn_merge_desc_init)), plan_key(MergeDesc{}));
  EXPECT_EQ(key_of(vkattn_plan_key_matmul, initial(vkattn_matmul_desc_init)), plan_key(MatmulDesc{}));
  const auto attention = initial(vkattn_attention_desc_init);
  auto backward = initial(vkattn_backward_desc_init);
  backward.attention = &attention;
  EXPECT_EQ(key_of(vkattn_plan_key_backward, backward), plan_key(BackwardDesc{}));
  auto layer = initial(vkattn_multi_head_attention_desc_init);
  layer.attention = &attention;
  EXPECT_EQ(key_of(vkattn_plan_key_multi_head_attention, layer), plan_key(MultiHeadAttentionDesc{}));
  auto gradients = initial(vkattn_multi_head_attention_backward_desc_init);
  gradients.forward = &layer;
  EXPECT_EQ(key_of(vkattn_plan_key_multi_head_attention_backward, gradients),
            plan_key(MultiHeadAttentionBackwardDesc{}));
}

}  // namespace
}  // namespace vkattn
