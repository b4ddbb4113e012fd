// Parameters of a layer in C.
#include <limits>
#include <string_view>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "common/checked.hpp"

using vkattn::Result;
namespace c = vkattn::c;

vkattn_result vkattn_query_parameters(const vkattn_multi_head_attention_desc* desc,
                                      vkattn_parameter* parameters, uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{count, "count"}}); !s) return s;
    const auto layer = c::multi_head_attention_desc(desc);
    if (!layer) return layer.error();
    if (Result<void> s = vkattn::validate(*layer); !s) return s;
    c::copy_list(vkattn::parameters(*layer), parameters, count, [](const vkattn::ParameterShape& shape) {
      const c::ParameterNumbers numbers = c::numbers_of(shape.range);
      // The names are literals, which end in a 0.
      return vkattn_parameter{shape.name.data(), numbers.tensor, numbers.gradient, shape.rows, shape.columns};
    });
    return {};
  });
}

vkattn_result vkattn_initial_values(const vkattn_parameter* parameter, vkattn_initialisation how,
                                    uint64_t seed, float* values, size_t count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{parameter, "parameter"}}); !s) return s;
    if (Result<void> s = c::check_list(values, count, "values"); !s) return s;
    constexpr auto kLast = vkattn::Initialisation::kHeNormal;
    if (how > static_cast<vkattn_initialisation>(kLast)) {
      return c::invalid(vkattn::detail::message("how is ", how, "; the largest there is is ",
                                                static_cast<vkattn_initialisation>(kLast)));
    }
    const std::int64_t rows = parameter->rows, columns = parameter->columns;
    if (rows < 0 || columns < 0) {
      return c::invalid(
          vkattn::detail::message("a parameter cannot have ", rows, " rows and ", columns, " columns"));
    }
    const std::int64_t elements = columns == 0 ? rows : vkattn::detail::saturating_multiply(rows, columns);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (elements == kMost || static_cast<std::uint64_t>(elements) != count) {
      return c::invalid(vkattn::detail::message("the parameter has ", elements == kMost ? "at least " : "",
                                                elements, " elements, but count is ", count,
                                                ": give rows * columns, or rows where columns is 0"));
    }
    const std::string_view parameter_name = parameter->name == nullptr ? "" : parameter->name;
    vkattn::initial_values({parameter_name, nullptr, rows, columns}, static_cast<vkattn::Initialisation>(how),
                           seed, {values, count});
    return {};
  });
}
