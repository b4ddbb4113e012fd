// What the tests of descriptors share: their strides as text, and rules of validate() that each test breaks.
#pragma once

#include <vkattn/attention.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/message.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

/// The strides of one tensor after the other, as in "40 8 1 1, 20 4 1 1".
[[nodiscard]] inline std::string strides_text(const std::vector<TensorDesc>& tensors) {
  std::string text;
  for (const TensorDesc& tensor : tensors) {
    const Strides& s = *tensor.strides;
    text += detail::message(text.empty() ? "" : ", ", s.batch, " ", s.head, " ", s.row, " ", s.dim);
  }
  return text;
}

/// A way to break a rule of a descriptor: AttentionDesc, AppendDesc.
template <class Desc>
struct Rule {
  const char* words;  ///< in the message, each by itself: the field, its value, its limit
  std::function<void(Desc&)> break_it;
};

/// Breaks each rule in a descriptor that is valid but for it.
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
