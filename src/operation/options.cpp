// Which options an operation uses: see options.hpp.
#include "operation/options.hpp"

#include "common/message.hpp"

namespace vkattn::detail {

namespace {

// Whether a value differs from the default of its type.
template <class T>
bool is_set(const T& value) {
  if constexpr (requires { value.has_value(); }) {
    return value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return !value.empty();
  } else {
    return value != T{};
  }
}
static_assert(DataType{} == DataType::kFloat32);

struct OptionRow {
  Option option;
  std::string_view name;
  std::string_view unset;
  bool (*is_set)(const PlanOptions&);
};
#define VKATTN_ROW(NAME, MEMBER, UNSET) \
  {Option::NAME, #MEMBER, UNSET, [](const PlanOptions& options) { return is_set(options.MEMBER); }},
constexpr OptionRow kRows[] = {VKATTN_OPTIONS_OF_SOME(VKATTN_ROW)};
#undef VKATTN_ROW

}  // namespace

Result<void> check_used(const PlanOptions& options, OptionSet used, std::string_view operation) {
  for (const OptionRow& row : kRows) {
    if (used.has(row.option) || !row.is_set(options)) continue;
    return invalid("the option ", row.name, " is set, but is not used by ", operation, ": leave it ",
                   row.unset);
  }
  return {};
}

}  // namespace vkattn::detail
