// Compiling score functions in C.
#include <vkattn/score_function.hpp>

#include <span>

#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

vkattn_result vkattn_score_function_compile(const vkattn_score_function_desc* desc,
                                            vkattn_score_function** function, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (function == nullptr) return c::invalid("function is null");
    *function = nullptr;
    const auto given = c::read(desc, vkattn_score_function_desc_init, "vkattn_score_function_desc");
    if (!given) return given.error();
    if (given->source == nullptr || (given->buffer_count != 0 && given->buffers == nullptr)) {
      return c::invalid("vkattn_score_function_desc::source or buffers is null");
    }
    vkattn::ScoreFunctionDesc made;
    made.source = given->source;
    if (given->name != nullptr) made.name = given->name;
    for (const vkattn_score_buffer& buffer : std::span(given->buffers, given->buffer_count)) {
      if (buffer.name == nullptr || buffer.type > VKATTN_SCORE_BUFFER_UINT) {
        return c::invalid(
            vkattn::detail::message("buffer ", made.buffers.size(), " of the score function has ",
                                    buffer.name == nullptr ? "no name" : "a type that does not exist"));
      }
      made.buffers.push_back({buffer.name, static_cast<vkattn::ScoreBufferType>(buffer.type)});
    }
    auto compiled = vkattn::ScoreFunction::create(made);
    if (!compiled) return compiled.error();
    c::give(std::make_unique<vkattn_score_function>(*std::move(compiled)), function);
    return {};
  });
}
