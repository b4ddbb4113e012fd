// Shared by the tests of descriptors: strides as text, and changes that break one rule of validate() each.
#pragma once

#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/message.hpp"
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
  }
}

}  // namespace vkattn::tests
