// Keys of descriptors are equal for equal descriptors, and each member counts.
#include <vkattn/vkattn.h>
#include <vkattn/plan_key.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "support/initial.hpp"
#include "support/text.hpp"
#include "unit/field_changes.hpp"

namespace vkattn {
namespace {

using tests::FieldChanges;
using tests::has;
using tests::initial;
using tests::InitialProblems;

// All keys differ, also for changes inside of nested members. Equal descriptors have the same key.
TEST(PlanKey, EveryMemberCounts) {
  InitialProblems().each([]<class Desc>(auto& given, Desc desc, auto*, auto*) {
    std::set<std::string> keys{plan_key(desc)};
    EXPECT_EQ(plan_key(desc), plan_key(Desc{}));
    FieldChanges changes;
    changes.changed = [&](const std::string& name) {
      const Desc copy = desc;
      const std::string key = plan_key(desc);
      EXPECT_EQ(plan_key(copy), key) << name;
      EXPECT_TRUE(keys.insert(key).second) << name << ": " << key;
    };
    changes.each(given, desc);
    EXPECT_EQ(plan_key(desc), plan_key(Desc{})) << "all was put back";
  });
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
  InitialProblems().each([&](const auto& initial_given, const auto& desc, auto*, auto* write) {
    std::size_t size = 0;
    EXPECT_EQ(write(&initial_given, nullptr, &size, &error), VKATTN_SUCCESS) << error.message;
    std::vector<char> key(size);
    EXPECT_EQ(write(&initial_given, key.data(), &size, &error), VKATTN_SUCCESS) << error.message;
    EXPECT_EQ(key.data(), plan_key(desc));
  });
}

}  // namespace
}  // namespace vkattn
