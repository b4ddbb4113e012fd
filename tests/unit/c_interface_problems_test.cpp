// The structures of the C interface become the descriptors of C++ that say the same.
#include <vkattn/vkattn.h>
#include <vkattn/plan_key.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/text.hpp"
#include "unit/field_changes.hpp"

namespace vkattn {
namespace {

using tests::FieldChanges;
using tests::has;
using tests::initial;
using tests::InitialProblems;
using tests::message_of;
using tests::must;

template <class Desc>
bool are_equal(const Desc& one, const Desc& other) {
  if constexpr (requires { one == other; }) {
    return one == other;
  } else {
    return plan_key(one) == plan_key(other);
  }
}

TEST(CInterface, DefaultsAreThoseOfCpp) {
  InitialProblems().each([]<class Desc>(const auto& given, const Desc& defaults, auto* convert, auto*) {
    EXPECT_TRUE(are_equal(must(convert(&given)), defaults)) << plan_key(defaults);
  });
  const PlanOptions options = must(c::options_for(must(c::plan_options(nullptr)), "attention"));
  EXPECT_EQ(options.max_dispatch_ns, PlanOptions{}.max_dispatch_ns);
  EXPECT_EQ(options.kernel, "");
  EXPECT_FALSE(options.push_descriptors || options.deferred_compilation || options.strict_nonfinite);
  EXPECT_EQ(c::record_options(nullptr)->dispatch_count, RecordOptions{}.dispatch_count);
}

// Changes each field alone, so that a field that arrives in another's place is noticed.
TEST(CInterface, EveryFieldOfAProblemArrives) {
  InitialProblems().each([]<class Desc>(auto& given, Desc expected, auto* convert, auto*) {
    FieldChanges changes;
    changes.changed = [&](const std::string& name) {
      const auto arrived = convert(&given);
      ASSERT_TRUE(arrived.ok()) << name << ": " << arrived.error().message;
      EXPECT_TRUE(are_equal(*arrived, expected)) << name;
      EXPECT_FALSE(are_equal(*arrived, Desc{})) << name;
    };
    changes.each(given, expected);
    EXPECT_TRUE(are_equal(must(convert(&given)), Desc{})) << "all was put back";
  });
}

TEST(CInterface, EnumeratorsThatThereAreNotAreRefused) {
  InitialProblems().each([](auto& given, auto desc, auto* convert, auto*) {
    FieldChanges changes;
    changes.wrong = [&](const std::string& name, std::uint32_t last) {
      EXPECT_EQ(message_of(convert(&given)),
                detail::message(name, " is ", last + 1, "; the largest there is is ", last));
    };
    changes.each(given, desc);
  });
}

// If there are several mistakes, the first in the order of the table is named. A dead handle comes before all
// numbers.
TEST(CInterface, TheFirstMistakeOfAProblemIsNamed) {
  InitialProblems all;
  all.layer.rotary_style = all.layer.inputs = 9;
  EXPECT_EQ(message_of(c::multi_head_attention_desc(&all.layer)), "inputs is 9; the largest there is is 2");
  all.attention.weights = all.attention.value.type = 9;
  EXPECT_EQ(message_of(c::multi_head_attention_backward_desc(&all.layer_backward)),
            "value.type is 9; the largest there is is 5");
  all.attention.score_function = reinterpret_cast<vkattn_score_function*>(&all);
  EXPECT_EQ(message_of(c::backward_desc(&all.backward)), c::not_alive("score_function").message);
  all.backward.attention = nullptr;
  EXPECT_EQ(message_of(c::backward_desc(&all.backward)), "vkattn_attention_desc is null");
  all.layer_backward.forward = nullptr;
  EXPECT_EQ(message_of(c::multi_head_attention_backward_desc(&all.layer_backward)),
            "vkattn_multi_head_attention_desc is null");
  EXPECT_EQ(message_of(c::matmul_desc(nullptr)), "vkattn_matmul_desc is null");
  all.layer.struct_size += 16;
  EXPECT_TRUE(has(message_of(c::multi_head_attention_desc(&all.layer)),
                  "vkattn_multi_head_attention_desc::struct_size"));
}

// In C, window_left is window.left, and a mask is its type. A layer's gradients have the names of attention's
// gradients.
TEST(CInterface, FieldsAreCalledAsInCpp) {
#define VKATTN_VALUE(STRUCTURE, DESC)
#define VKATTN_DESC(STRUCTURE, DESC)
#define VKATTN_FIELD_AS(MEMBER, PATH) {#MEMBER, #PATH},
#define VKATTN_END
  const std::pair<std::string, std::string> rows[] = {
#include "common/fields.def"
  };
  for (const auto& [member, path] : rows) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '.', '_');
    const bool is_of_layer = path == "attention." + member;
    EXPECT_TRUE(member == name || member + "_type" == name || is_of_layer) << member << " and " << path;
  }
}

TEST(CInterface, EachKindOfPlanTakesItsOptions) {
  auto all = initial(vkattn_plan_options_init);
  all.kernel = "tile";
  all.max_dispatch_ns = 7;
  all.deferred_compilation = all.capture_statistics = 1;
  vkattn_plan_options given = all;
  given.chunk_keys = 64;
  const PlanOptions backward = must(c::options_for(given, "a plan"));
  EXPECT_EQ(backward.kernel, "tile");
  EXPECT_EQ(backward.chunk_keys, 64U);
  EXPECT_EQ(backward.max_dispatch_ns, 7U);
  EXPECT_TRUE(backward.deferred_compilation && backward.capture_statistics);
  EXPECT_FALSE(backward.push_descriptors);
  given.push_descriptors = 1;
  EXPECT_TRUE(c::options_for(given, "a plan")->push_descriptors);

  const vkattn_tile_sizes tile{1, 2, 3, 4, 5, 6};
  given = all;
  given.inner_splits = 9;
  given.tile = &tile;
  const PlanOptions product = must(c::matmul_options(given, "a product"));
  EXPECT_EQ(product.kernel, "tile");
  EXPECT_EQ(product.inner_splits, 9U);
  EXPECT_TRUE(product.matmul_tile == (MatmulTile{1, 4, 3, 5, 2, 6}));
  const vkattn_tile_sizes told = c::tile_sizes(*product.matmul_tile);
  EXPECT_EQ(std::memcmp(&told, &tile, sizeof(tile)), 0)
      << "vkattn_plan_get_choice() tells what was asked for";
  EXPECT_EQ(product.max_dispatch_ns, 7U);
  EXPECT_TRUE(product.deferred_compilation && product.capture_statistics);
  given.push_descriptors = 1;
  EXPECT_TRUE(c::matmul_options(given, "a product")->push_descriptors);

  given = all;
  given.matmul_kernel = "lane";
  given.backward_kernel = "other";
  const vkattn_kernel_refusal refusals[] = {{"lane", "is slow"}, {"tile", "is wrong"}};
  given.matmul_refusals = refusals;
  given.matmul_refusal_count = 2;
  given.backward_refusals = refusals + 1;
  given.backward_refusal_count = 1;
  given.kv_splits = 8;
  given.strict_nonfinite = 1;
  given.arithmetic_type = VKATTN_DATA_TYPE_FLOAT16;
  given.tile = &tile;
  const MultiHeadAttentionOptions layer = must(c::layer_options(given, "a layer"));
  EXPECT_EQ(layer.attention.kernel, "tile");
  EXPECT_EQ(layer.attention.kv_splits, 8U);
  EXPECT_EQ(layer.attention.arithmetic_type, DataType::kFloat16);
  EXPECT_TRUE(layer.attention.strict_nonfinite && layer.attention.tile);
  EXPECT_EQ(layer.matmul.kernel, "lane");
  EXPECT_EQ(layer.backward.kernel, "other");
  ASSERT_EQ(layer.matmul.refusals.size(), 2U);
  EXPECT_EQ(layer.matmul.refusals[1].kernel, "tile");
  ASSERT_EQ(layer.backward.refusals.size(), 1U);
  EXPECT_EQ(layer.backward.refusals[0].reason, "is wrong");
  EXPECT_EQ(layer.max_dispatch_ns, 7U);
  EXPECT_TRUE(layer.deferred_compilation);
}

TEST(CInterface, ParametersAreThoseOfCpp) {
  auto error = initial(vkattn_error_init);
  auto attention = initial(vkattn_attention_desc_init);
  attention.query_heads = 4;
  attention.kv_heads = 2;
  attention.query_length = 3;
  auto layer = initial(vkattn_multi_head_attention_desc_init);
  layer.attention = &attention;
  std::uint32_t count = 0;
  EXPECT_EQ(vkattn_query_parameters(&layer, nullptr, &count, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(has(error.message, "d_model"));
  layer.d_model = 32;
  for (const std::uint32_t is_packed : {1U, 0U}) {
    layer.packed_weights = is_packed;
    const auto expected = parameters(must(c::multi_head_attention_desc(&layer)));
    ASSERT_EQ(vkattn_query_parameters(&layer, nullptr, &count, &error), VKATTN_SUCCESS) << error.message;
    ASSERT_EQ(count, expected.size());
    std::vector<vkattn_parameter> all(count);
    ASSERT_EQ(vkattn_query_parameters(&layer, all.data(), &count, &error), VKATTN_SUCCESS) << error.message;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].name, expected[i].name);
      EXPECT_EQ(all[i].rows, expected[i].rows);
      EXPECT_EQ(all[i].columns, expected[i].columns);
      EXPECT_EQ(all[i].tensor, c::numbers_of(expected[i].range).tensor);
      std::vector<float> values(static_cast<std::size_t>(expected[i].elements()), -1);
      ASSERT_EQ(vkattn_initial_values(&all[i], VKATTN_INITIALISATION_HE_NORMAL, 5, values.data(),
                                      values.size(), &error),
                VKATTN_SUCCESS)
          << error.message;
      EXPECT_EQ(values, initial_values(expected[i], Initialisation::kHeNormal, 5));
    }
  }
}

TEST(CInterface, FirstValuesAreOfAParameterThatCanBe) {
  auto error = initial(vkattn_error_init);
  std::array<float, 12> values{};
  vkattn_parameter parameter{"w", VKATTN_TENSOR_OUT_PROJ_WEIGHT, VKATTN_TENSOR_GRAD_OUT_PROJ_WEIGHT, 3, 4};
  const auto refused = [&](std::uint32_t how, std::size_t count, const char* words) {
    EXPECT_EQ(vkattn_initial_values(&parameter, how, 1, values.data(), count, &error),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(has(error.message, words));
  };
  refused(4, values.size(), "how is 4; the largest there is is 3");
  refused(0, 11, "has 12 elements, but count is 11");
  parameter.rows = std::int64_t{1} << 62;
  refused(0, values.size(), "but count is 12");
  refused(0, static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()), "has at least");
  parameter.rows = -3;
  refused(0, values.size(), "cannot have -3 rows");
  EXPECT_EQ(vkattn_initial_values(nullptr, 0, 1, values.data(), 12, &error), VKATTN_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vkattn
