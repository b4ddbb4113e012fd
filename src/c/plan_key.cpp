// Keys of descriptors in C.
#include <vkattn/plan_key.hpp>

#include <span>

#include "c/convert.hpp"
#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

/// Of every kind of plan: `to_desc` is its conversion.
template <class Given, class Desc>
vkattn_result write_key(const Given* desc, char* text, size_t* bytes, vkattn_error* error,
                        Result<Desc> (*to_desc)(const Given*)) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{bytes, "bytes"}}); !s) return s;
    const auto problem = to_desc(desc);
    if (!problem) return problem.error();
    const std::string key = vkattn::plan_key(*problem);
    // With the 0 at its end.
    return c::copy_blob(std::as_bytes(std::span(key.c_str(), key.size() + 1)), "the key", text, bytes);
  });
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                                          \
  vkattn_result vkattn_plan_key_##NAME(const vkattn_##NAME##_desc* desc, char* text, size_t* bytes, \
                                       vkattn_error* error) {                                       \
    return write_key(desc, text, bytes, error, c::NAME##_desc);                                     \
  }
#include "common/operations.def"
