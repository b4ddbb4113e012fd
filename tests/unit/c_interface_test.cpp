// The C interface without a device: what may never change, defaults, and what is refused.
#include <vkattn/vkattn.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "attention/tensor_table.hpp"
#include "backward/gradient_table.hpp"
#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "cache/append_tensors.hpp"
#include "matmul/matmul_tensors.hpp"
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

// That each tensor of a table has a number, under which it is bound.
template <class Tensors, class Table>
void expect_numbers(const Table& table) {
  Tensors tensors;
  for (const auto& row : table) {
    std::uint32_t count = 0;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      if (c::place(tensors, tensor) == &(tensors.*row.range)) ++count;
    }
    EXPECT_EQ(count, 1U) << row.name;
  }
}

TEST(CInterface, EveryTensorHasItsNumber) {
  expect_numbers<AttentionTensors>(detail::tensor_table());
  expect_numbers<AppendTensors>(detail::append_tensor_table());
  expect_numbers<MergeTensors>(detail::merge_tensor_table());
  expect_numbers<BackwardTensors>(detail::gradient_table());
  MatmulDesc product;
  product.rows = product.columns = product.inner = 4;
  expect_numbers<MatmulTensors>(detail::matmul_tensors(product.resolved()));
}

TEST(CInterface, NoTwoTensorsOfALayerAreOne) {
  const auto places = [](auto tensors) {
    std::set<const BufferRange*> all;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const BufferRange* const range = c::place(tensors, tensor);
      if (range == nullptr) continue;
      EXPECT_TRUE(all.insert(range).second) << tensor;
    }
    return all.size();
  };
  // 10 of its own, 7 parameters, and of attention all but query, key, value, output and lse.
  EXPECT_EQ(places(MultiHeadAttentionTensors{}), 29U);
  EXPECT_EQ(places(MultiHeadAttentionBackwardTensors{}), 43U) << "7 more, and 7 gradients of parameters";
  MultiHeadAttentionTensors layer;
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_QUERY), &layer.query);
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_MASK), &layer.attention.mask);
  EXPECT_EQ(c::place(layer, VKATTN_TENSOR_LSE), nullptr);
  BackwardTensors backward;
  EXPECT_EQ(c::place(backward, VKATTN_TENSOR_LSE), &backward.forward.lse);
  for (BufferRange MultiHeadAttentionParameters::*const parameter :
       {&MultiHeadAttentionParameters::in_proj_weight, &MultiHeadAttentionParameters::out_proj_bias}) {
    MultiHeadAttentionBackwardTensors gradients;
    const c::ParameterNumbers numbers = c::numbers_of(parameter);
    EXPECT_EQ(c::place(gradients, numbers.tensor), &(gradients.forward.parameters.*parameter));
    EXPECT_EQ(c::place(gradients, numbers.gradient), &(gradients.grad_parameters.*parameter));
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
  vkattn_append_desc append;
  vkattn_append_desc_init(&append);
  append.rotary_magnitude = 2;
  append.rotary_inverse = 1;
  append.struct_size = 288;  // of the first version
  ASSERT_TRUE(c::append_desc(&append).ok());
  EXPECT_EQ(c::append_desc(&append)->rotary.magnitude, 2.0F);
  EXPECT_FALSE(c::append_desc(&append)->rotary.inverse);
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
  const auto attention = [&] { return c::tensors_of<AttentionPlan>(c::execution(&execution).value()); };
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
  bindings[1].tensor = VKATTN_TENSOR_BIAS;
  EXPECT_EQ(c::tensors_of<BackwardPlan>(execution).error().message,
            "there is no tensor 35 of gradients of attention");
  bindings[1].tensor = VKATTN_TENSOR_LSE;
  EXPECT_EQ(c::tensors_of<MultiHeadAttentionBackwardPlan>(execution).error().message,
            "there is no tensor 4 of gradients of a layer");
  execution.tensors = nullptr;
  EXPECT_FALSE(attention().ok());
}

}  // namespace
}  // namespace vkattn
