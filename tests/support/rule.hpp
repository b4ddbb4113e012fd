// What the tests of descriptors share: their strides as text, and rules of validate() that each test breaks,
// in C++ and in C.
#pragma once

#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "common/message.hpp"
#include "support/c_problem.hpp"
#include "support/host_vulkan.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

/// The strides of one tensor after the other, such as "40 8 1 1, 20 4 1 1".
[[nodiscard]] inline std::string strides_text(const std::vector<TensorDesc>& tensors) {
  std::string text;
  for (const TensorDesc& tensor : tensors) {
    const Strides& s = *tensor.strides;
    text += detail::message(text.empty() ? "" : ", ", s.batch, " ", s.head, " ", s.row, " ", s.dim);
  }
  return text;
}

/// A change that breaks a rule of a descriptor.
template <class Desc>
struct Rule {
  const char* words;  ///< words that the message must contain: the field, its value, its limit
  std::function<void(Desc&)> break_it;
};

/// Checks that C refuses the plan with the code and the sentence of C++. The Vulkan is one without a device,
/// as a rule of a descriptor asks nothing of a device.
template <class Desc>
void expect_refused_in_c(const Desc& desc, const Error& error) {
  const HostVulkan vulkan{HostSettings{}};
  const std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device{HostVulkan::borrow(),
                                                                                &vkattn_device_release};
  const CProblem<Desc> problem(desc);
  vkattn_plan* plan = reinterpret_cast<vkattn_plan*>(device.get());
  vkattn_error in_c = initial(vkattn_error_init), expected = in_c;
  EXPECT_EQ(InC<Desc>::kCreate(device.get(), &problem.structure, nullptr, &plan, &in_c),
            c::finish(error, &expected))
      << in_c.message;
  EXPECT_EQ(plan, nullptr);
  // A number that no enumerator of C has is refused before there is a descriptor.
  const std::string_view sentence = in_c.message;
  EXPECT_TRUE(sentence == expected.message || has(sentence, "the largest there is is"))
      << sentence << "\nbut in C++\n"
      << expected.message;
}

/// Breaks each rule alone in a valid descriptor, and checks the error.
template <class Desc>
void expect_refused_by_name(const Desc& valid, const std::vector<Rule<Desc>>& rules) {
  EXPECT_TRUE(validate(valid).ok());
  for (const Rule<Desc>& rule : rules) {
    Desc desc = valid;
    rule.break_it(desc);
    const Result<void> status = validate(desc);
    ASSERT_FALSE(status.ok()) << rule.words;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << rule.words;
    for (const std::string& word : words_of(rule.words)) EXPECT_TRUE(has(status.error().message, word));
    expect_refused_in_c(desc, status.error());
  }
}

}  // namespace vkattn::tests
