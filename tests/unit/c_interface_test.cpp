// The C interface without a device: what may never change, defaults, and what is refused.
#include <vkattn/vkattn.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "attention/tensor_table.hpp"
#include "c/convert.hpp"
#include "c/handles.hpp"
#include "cache/append_tensors.hpp"
#include "merge/merge_program.hpp"

std::uint32_t vkattn_test_cpp17();
extern "C" int vkattn_test_abi(char* text, size_t capacity);

namespace vkattn {
namespace {

std::string file_text(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// vkattn.h with the headers that it is made of in their places.
std::string interface_text(const std::string& folder) {
  const std::string all = file_text((folder + "/vkattn/vkattn.h").c_str());
  std::string text;
  const std::regex part(R"(#include <(vkattn/c/\w+\.h)>)");
  for (std::sregex_iterator i(all.begin(), all.end(), part), end; i != end; ++i) {
    text += file_text((folder + "/" + (*i)[1].str()).c_str());
  }
  return text;
}

// Each enumerator with its number, and each member of a structure in its order.
std::string declarations(const std::string& header) {
  const std::string code = std::regex_replace(header, std::regex(R"(/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)"), "");
  std::string all;
  const std::regex enumerator(R"((VKATTN_\w+) = (-?\d+))");
  for (std::sregex_iterator i(code.begin(), code.end(), enumerator), end; i != end; ++i) {
    all += (*i)[1].str() + " = " + (*i)[2].str() + "\n";
  }
  const std::regex structure(R"(typedef struct (\w+) \{([^}]*)\})");
  const std::regex member(R"(\s*([^;]+);)");
  for (std::sregex_iterator i(code.begin(), code.end(), structure), end; i != end; ++i) {
    const std::string body = (*i)[2].str();
    for (std::sregex_iterator m(body.begin(), body.end(), member); m != end; ++m) {
      all += (*i)[1].str() + ": " + std::regex_replace((*m)[1].str(), std::regex(R"(\s+)"), " ") + "\n";
    }
  }
  return all;
}

// Every line of the list was in a release, or will be in the next: lines are added, and never changed.
TEST(CInterface, StructuresAndNamesAreThoseOfTheList) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the list is that of 64 bits";
  std::string now(16384, ' ');
  ASSERT_NE(vkattn_test_abi(now.data(), now.size()), 0);
  now.resize(now.find('\0'));
  const std::string header = interface_text(VKATTN_TEST_HEADERS);
  now += declarations(header);
  const std::regex function(R"(VKATTN_API[^;(]*\b(vkattn_\w+)\()");
  for (std::sregex_iterator i(header.begin(), header.end(), function), end; i != end; ++i) {
    now += (*i)[1].str() + "()\n";
  }
  EXPECT_EQ(file_text(VKATTN_TEST_LIST), now)
      << "a program that was compiled with an earlier header would break: add to the ends of structures";
}

TEST(CInterface, IsTheSameFromCpp17) {
  EXPECT_EQ(vkattn_test_cpp17(), sizeof(vkattn_attention_desc));
}

TEST(CInterface, DefaultsAreThoseOfCpp) {
  vkattn_attention_desc attention;
  vkattn_attention_desc_init(&attention);
  EXPECT_TRUE(c::attention_desc(&attention).value() == AttentionDesc{});
  vkattn_append_desc append;
  vkattn_append_desc_init(&append);
  EXPECT_TRUE(c::append_desc(&append).value() == AppendDesc{});
  vkattn_merge_desc merge;
  vkattn_merge_desc_init(&merge);
  EXPECT_EQ(c::merge_desc(&merge)->parts, MergeDesc{}.parts);
  EXPECT_EQ(c::merge_desc(&merge)->has_lse, MergeDesc{}.has_lse);
  const PlanOptions options = c::attention_options(c::plan_options(nullptr).value());
  EXPECT_EQ(options.max_dispatch_ns, PlanOptions{}.max_dispatch_ns);
  EXPECT_EQ(options.kernel, "");
  EXPECT_FALSE(options.push_descriptors || options.deferred_compilation || options.strict_nonfinite);
  EXPECT_EQ(c::record_options(nullptr)->dispatch_count, RecordOptions{}.dispatch_count);
}

// Each field is set to something else than its default, so that a conversion that forgets one shows.
TEST(CInterface, EveryFieldOfAProblemArrives) {
  const vkattn_strides strides{1, 2, 3, 4};
  const Strides as_cpp{1, 2, 3, 4};
  vkattn_attention_desc given;
  vkattn_attention_desc_init(&given);
  AttentionDesc expected;
  given.batch = expected.batch = 2;
  given.query_heads = expected.query_heads = 6;
  given.kv_heads = expected.kv_heads = 3;
  given.query_length = expected.query_length = 7;
  given.kv_length = expected.kv_length = 9;
  given.head_dim = expected.head_dim = 16;
  given.value_dim = expected.value_dim = 24;
  given.layout = VKATTN_LAYOUT_BSHD;
  expected.layout = Layout::kBshd;
  given.query = {VKATTN_DATA_TYPE_FLOAT16, 2, &strides};
  expected.query = {DataType::kFloat16, as_cpp, 2};
  given.key = {VKATTN_DATA_TYPE_Q8_0, 4, nullptr};
  expected.key = {DataType::kQ8_0, {}, 4};
  given.value = {VKATTN_DATA_TYPE_Q4_0, 8, nullptr};
  expected.value = {DataType::kQ4_0, {}, 8};
  given.output = {VKATTN_DATA_TYPE_BFLOAT16, 16, &strides};
  expected.output = {DataType::kBfloat16, as_cpp, 16};
  given.scale = 0.5F;
  expected.scale = 0.5F;
  given.causal = 1;
  expected.causal = true;
  given.align = VKATTN_ALIGN_OFFSET;
  expected.align = Align::kOffset;
  given.offset = expected.offset = 5;
  given.query_lengths = VKATTN_LENGTHS_PACKED;
  expected.query_lengths = Lengths::kPacked;
  given.kv_lengths = VKATTN_LENGTHS_PER_ENTRY;
  expected.kv_lengths = Lengths::kPerEntry;
  given.total_query_length = expected.total_query_length = 11;
  given.total_kv_length = expected.total_kv_length = 13;
  given.cache = {VKATTN_KEY_MAPPING_PAGED, 1, 2, 3, 4};
  expected.cache = {KeyMapping::kPaged, 1, 2, 3, 4};
  given.softcap = expected.softcap = 3;
  given.mask = VKATTN_MASK_TYPE_BITS;
  given.mask_strides = &strides;
  expected.mask = {MaskType::kBits, as_cpp};
  given.window_left = expected.window.left = 17;
  given.window_right = expected.window.right = 19;
  given.alibi = VKATTN_ALIBI_SLOPES_GIVEN;
  expected.alibi = Alibi::kGiven;
  given.has_sinks = 1;
  expected.has_sinks = true;
  given.dropout = expected.dropout = 0.25F;
  given.has_lse = 1;
  expected.has_lse = true;
  given.lse_strides = &strides;
  expected.lse_strides = as_cpp;
  given.weights = VKATTN_WEIGHTS_STAGE_MASKED;
  expected.weights = WeightsStage::kMasked;
  given.weights_strides = &strides;
  expected.weights_strides = as_cpp;
  EXPECT_TRUE(c::attention_desc(&given).value() == expected);
}

TEST(CInterface, EveryFieldOfAnAppendArrives) {
  vkattn_append_desc given;
  vkattn_append_desc_init(&given);
  AppendDesc expected;
  given.batch = expected.batch = 2;
  given.query_heads = expected.query_heads = 6;
  given.kv_heads = expected.kv_heads = 3;
  given.new_length = expected.new_length = 7;
  given.head_dim = expected.head_dim = 16;
  given.value_dim = expected.value_dim = 24;
  given.layout = VKATTN_LAYOUT_PACKED_QKV;
  expected.layout = Layout::kPackedQkv;
  const std::array<vkattn_tensor_desc vkattn_append_desc::*, 6> tensors{
      &vkattn_append_desc::query,        &vkattn_append_desc::key,       &vkattn_append_desc::value,
      &vkattn_append_desc::query_output, &vkattn_append_desc::cache_key, &vkattn_append_desc::cache_value};
  const std::array<TensorDesc AppendDesc::*, 6> as_cpp{&AppendDesc::query,     &AppendDesc::key,
                                                       &AppendDesc::value,     &AppendDesc::query_output,
                                                       &AppendDesc::cache_key, &AppendDesc::cache_value};
  for (std::uint32_t i = 0; i < 6; ++i) {
    given.*tensors[i] = {i, 1U << i, nullptr};
    expected.*as_cpp[i] = {static_cast<DataType>(i), {}, 1U << i};
  }
  given.cache = {VKATTN_KEY_MAPPING_RING, 5, 0, 0, 0};
  expected.cache = {KeyMapping::kRing, 5};
  given.cache_length = expected.cache_length = 29;
  given.has_positions = 1;
  expected.has_positions = true;
  given.position = expected.position = 31;
  given.new_lengths = VKATTN_LENGTHS_PER_ENTRY;
  expected.new_lengths = Lengths::kPerEntry;
  given.total_new_length = expected.total_new_length = 37;
  given.writes_kv_lengths = 1;
  expected.writes_kv_lengths = true;
  given.rotary_style = VKATTN_ROTARY_STYLE_HALF_SPLIT;
  given.rotary_dims = 8;
  given.rotary_base = 500;
  given.rotary_position_scale = 0.5;
  given.rotary_has_frequencies = 1;
  given.rotary_magnitude = 1.5F;
  expected.rotary = {RotaryStyle::kHalfSplit, 8, 500, 0.5, true, 1.5F};
  EXPECT_TRUE(c::append_desc(&given).value() == expected);
}

TEST(CInterface, EveryTensorHasItsNumber) {
  const auto members = c::tensor_members();
  for (std::uint32_t i = 0; i < members.size(); ++i) EXPECT_EQ(members[i].tensor, i);
  for (const detail::TensorRow& row : detail::tensor_table()) {
    EXPECT_TRUE(std::any_of(members.begin(), members.end(), [&](auto& m) {
      return m.attention == row.range;
    })) << row.name;
  }
  for (const auto& row : detail::append_tensor_table()) {
    EXPECT_TRUE(std::any_of(members.begin(), members.end(), [&](auto& m) { return m.append == row.range; }))
        << row.name;
  }
  for (const auto& row : detail::merge_tensor_table()) {
    EXPECT_TRUE(std::any_of(members.begin(), members.end(), [&](auto& m) { return m.merge == row.range; }))
        << row.name;
  }
}

vkattn_error cleared() {
  vkattn_error error;
  vkattn_error_init(&error);
  return error;
}

TEST(CInterface, StructuresOfOtherVersions) {
  vkattn_record_options options;
  vkattn_record_options_init(&options);
  options.first_dispatch = 3;
  options.wait_for_earlier = 1;
  // As a version without the last member had it.
  options.struct_size = offsetof(vkattn_record_options, wait_for_earlier);
  ASSERT_TRUE(c::record_options(&options).ok());
  EXPECT_EQ(c::record_options(&options)->first_dispatch, 3U);
  EXPECT_FALSE(c::record_options(&options)->wait_for_earlier);
  for (const std::uint32_t size : {0U, 8U, std::uint32_t{sizeof(options) + 8}, ~0U}) {
    options.struct_size = size;
    const auto refused = c::record_options(&options);
    ASSERT_FALSE(refused.ok()) << size;
    EXPECT_NE(refused.error().message.find("struct_size is " + std::to_string(size)), std::string::npos);
  }
  vkattn_record_options_init(&options);
  options.next = &options;
  EXPECT_NE(c::record_options(&options).error().message.find("next must be null"), std::string::npos);
}

// The caller's header decides how much an init function writes, whatever the library's has.
TEST(CInterface, InitFunctionsKnowTheSizeOfTheCallers) {
  struct Guarded {
    vkattn_plan_options options;
    std::uint64_t guard;
  };
  Guarded all;
  std::memset(static_cast<void*>(&all), 0xa5, sizeof(all));
  constexpr std::size_t kOlder = offsetof(vkattn_plan_options, refusals);
  vkattn_plan_options_init_sized(&all.options, kOlder);
  EXPECT_EQ(all.options.struct_size, kOlder);
  EXPECT_EQ(all.options.deferred_compilation, 0U);
  EXPECT_EQ(all.options.refusal_count, 0xa5a5a5a5U) << "beyond what the caller has";
  EXPECT_TRUE(c::plan_options(&all.options).ok());
  EXPECT_EQ(c::plan_options(&all.options)->refusal_count, 0U);
  // Of a newer header: refused by name, when it is used.
  vkattn_plan_options_init_sized(&all.options, sizeof(all));
  EXPECT_EQ(all.guard, 0U);
  EXPECT_NE(c::plan_options(&all.options).error().message.find("older than the header"), std::string::npos);
}

TEST(CInterface, MistakesAreSentences) {
  vkattn_error error = cleared();
  vkattn_device* device = nullptr;
  EXPECT_EQ(vkattn_device_create(nullptr, &device, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "vkattn_device_desc is null");
  vkattn_device_desc desc;
  vkattn_device_desc_init(&desc);
  EXPECT_EQ(vkattn_device_create(&desc, &device, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("get_instance_proc_addr"), std::string::npos);
  EXPECT_EQ(vkattn_device_create(&desc, &device, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  vkattn_plan* plan = nullptr;
  EXPECT_EQ(vkattn_plan_create_attention(nullptr, nullptr, nullptr, &plan, &error),
            VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device or plan is null");
  EXPECT_EQ(vkattn_plan_compile(nullptr, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_is_compiled(nullptr), 0U);
  EXPECT_EQ(vkattn_plan_tensor_range(nullptr, VKATTN_TENSOR_QUERY, 0), 0U);
  EXPECT_EQ(vkattn_plan_describe(nullptr, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_plan_release(nullptr), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_bindings_destroy(nullptr), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_record(nullptr, nullptr, nullptr, nullptr, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  // An enumerator that there is not.
  vkattn_attention_desc attention;
  vkattn_attention_desc_init(&attention);
  attention.value.type = 77;
  EXPECT_EQ(c::attention_desc(&attention).error().message, "value.type is 77; the largest there is is 5");
  // The message is cut off at the end of the caller's memory.
  vkattn_error small = cleared();
  small.struct_size = offsetof(vkattn_error, message) + 8;
  std::memset(small.message, '#', sizeof(small.message));
  EXPECT_EQ(vkattn_device_create(nullptr, &device, &small), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(small.message, "vkattn_");
  EXPECT_EQ(small.message[8], '#');
}

// As the kernel of a plan that has none: copying from nowhere is undefined behaviour, which the sanitizers
// see.
TEST(CInterface, ATextMayBeNone) {
  std::array<char, 4> text{'#', '#', '#', '#'};
  EXPECT_EQ(c::copy_text({}, text.data(), text.size()), 1U);
  EXPECT_STREQ(text.data(), "");
  std::size_t bytes = text.size();
  EXPECT_TRUE(c::copy_blob({}, "nothing", text.data(), &bytes).ok());
  EXPECT_EQ(bytes, 0U);
}

TEST(CInterface, ExecutionsBindEachTensorOnce) {
  std::array<vkattn_binding, 2> bindings{};
  vkattn_execution execution;
  vkattn_execution_init(&execution);
  execution.tensors = bindings.data();
  execution.tensor_count = 2;
  const auto attention = [&] { return c::attention_tensors(c::execution(&execution).value()); };
  bindings[0] = {VKATTN_TENSOR_KEY, {}, 4, 8};
  bindings[1] = {VKATTN_TENSOR_VALUE, {}, 12, 16};
  ASSERT_TRUE(attention().ok());
  EXPECT_EQ(attention()->key.offset, 4U);
  EXPECT_EQ(attention()->value.size, 16U);
  bindings[1].tensor = VKATTN_TENSOR_KEY;
  EXPECT_EQ(attention().error().message, "tensor 1 is bound twice");
  bindings[1].tensor = VKATTN_TENSOR_CACHE_KEY;
  EXPECT_EQ(attention().error().message, "there is no tensor 18 of attention");
  bindings[1].tensor = 1000;
  EXPECT_EQ(attention().error().message, "there is no tensor 1000 of attention");
  execution.tensors = nullptr;
  EXPECT_FALSE(attention().ok());
}

}  // namespace
}  // namespace vkattn
