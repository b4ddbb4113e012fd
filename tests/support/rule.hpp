// A rule of validate() for the tests that break each: how, and what the refusal has to name.
#pragma once

#include <vkattn/result.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace vkattn::tests {

/// Of a descriptor: AttentionDesc, AppendDesc.
template <class Desc>
struct Rule {
  const char* name;
  std::function<void(Desc&)> break_it;
  std::vector<std::string> words;  ///< in the message: the field, its value, its limit
};

/// GoogleTest prints a test's parameter by this.
template <class Desc>
void PrintTo(const Rule<Desc>& rule, std::ostream* out) {
  *out << rule.name;
}

template <class Desc>
std::string rule_name(const testing::TestParamInfo<Rule<Desc>>& info) {
  return info.param.name;
}

/// Breaks the rule in a descriptor that is valid but for it.
template <class Desc>
void expect_refused_by_name(const Rule<Desc>& rule, Desc desc) {
  rule.break_it(desc);
  const Status status = validate(desc);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  for (const std::string& word : rule.words) {
    EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
  }
}

}  // namespace vkattn::tests
