// Compiling score functions in C.
#include <vkattn/score_function.hpp>

#include <span>
#include <string>

#include "c/enumerators.hpp"
#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

vkattn_result vkattn_score_function_compile(const vkattn_score_function_desc* desc,
                                            vkattn_score_function** function, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{function, "function"}}); !s) return s;
    *function = nullptr;
    const auto given = c::read(desc, vkattn_score_function_desc_init, "vkattn_score_function_desc");
    if (!given) return given.error();
    if (Result<void> s = c::check_given({{given->source, "vkattn_score_function_desc::source"}}); !s)
      return s;
    if (Result<void> s =
            c::check_list(given->buffers, given->buffer_count, "vkattn_score_function_desc::buffers");
        !s)
      return s;
    vkattn::ScoreFunctionDesc made;
    made.source = given->source;
    if (given->name != nullptr) made.name = given->name;
    for (const vkattn_score_buffer& buffer : std::span(given->buffers, given->buffer_count)) {
      const std::string each = vkattn::detail::message("buffers[", made.buffers.size(), "]");
      if (buffer.name == nullptr) return c::invalid(each, ".name is null");
      const auto type = c::enumerator<vkattn::ScoreBufferType>(buffer.type, each + ".type");
      if (!type) return type.error();
      made.buffers.push_back({buffer.name, *type});
    }
    auto compiled = vkattn::ScoreFunction::create(made);
    if (!compiled) return compiled.error();
    c::give(std::make_unique<vkattn_score_function>(*std::move(compiled)), function);
    return {};
  });
}
