// Reading the report that make_report() writes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"

namespace vkattn::cli {

/// A member that is text; empty where there is none.
[[nodiscard]] std::string text_of(const Json& json, const char* name);
/// A member that is a number; 0 where there is none.
[[nodiscard]] double number_of(const Json& json, const char* name);
/// The steps of a section, in their order.
[[nodiscard]] std::vector<const Json*> steps_of(const Json& report, std::string_view section);
/// Rows of `vkattn bench --json`; none where a step has none.
[[nodiscard]] const Json& rows_of(const Json& step);
/// The one row of a check that was compared with the reference; null where it was not.
[[nodiscard]] const Json* checked_row(const Json& step);
/// Whether a step with that status went wrong.
[[nodiscard]] bool is_bad(std::string_view status);
/// How many steps have one of these statuses.
[[nodiscard]] std::size_t count_of(const Json& report, std::initializer_list<std::string_view> statuses);
/// How many steps went wrong.
[[nodiscard]] std::size_t count_of_bad(const Json& report);
/// "0.49 of its tolerance"
[[nodiscard]] std::string share_text(const Json& checked);

/// A report in one sentence: whether what was checked is right, which kernel is the fastest, and what did not
/// fit the time.
[[nodiscard]] std::string verdict(const Json& report);
/// "2 cores, a load of 0.1 at the beginning and of 2.2 at the end", and what that means for times. Empty
/// where the report does not say.
[[nodiscard]] std::string machine_text(const Json& report);
/// How many steps of which sections the time did not suffice for; empty where there are none.
[[nodiscard]] std::string left_out_text(const Json& report);

}  // namespace vkattn::cli
