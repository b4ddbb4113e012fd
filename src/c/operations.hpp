// The plans of all operations (common/operations.def), as one type.
#pragma once

#include <vkattn/operations.hpp>

#include <variant>

namespace vkattn::c {

/// `Nothing` comes before the first plan, as each row begins with a comma.
template <class Nothing, class... Plans>
struct AnyPlanOf {
  using Type = std::variant<Plans...>;
};
using AnyPlan = AnyPlanOf<void
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) , PLAN
#include "common/operations.def"
                          >::Type;

/// The words of messages for a kind of plan.
template <class Plan>
struct Kind;
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  template <>                                              \
  struct Kind<PLAN> {                                      \
    static constexpr const char* kName = WORDS;            \
  };
#include "common/operations.def"

}  // namespace vkattn::c
