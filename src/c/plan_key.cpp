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

vkattn_result vkattn_plan_key_attention(const vkattn_attention_desc* desc, char* text, size_t* bytes,
                                        vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::attention_desc);
}

vkattn_result vkattn_plan_key_append(const vkattn_append_desc* desc, char* text, size_t* bytes,
                                     vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::append_desc);
}

vkattn_result vkattn_plan_key_merge(const vkattn_merge_desc* desc, char* text, size_t* bytes,
                                    vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::merge_desc);
}

vkattn_result vkattn_plan_key_backward(const vkattn_backward_desc* desc, char* text, size_t* bytes,
                                       vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::backward_desc);
}

vkattn_result vkattn_plan_key_matmul(const vkattn_matmul_desc* desc, char* text, size_t* bytes,
                                     vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::matmul_desc);
}

vkattn_result vkattn_plan_key_multi_head_attention(const vkattn_multi_head_attention_desc* desc, char* text,
                                                   size_t* bytes, vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::multi_head_attention_desc);
}

vkattn_result vkattn_plan_key_multi_head_attention_backward(
    const vkattn_multi_head_attention_backward_desc* desc, char* text, size_t* bytes, vkattn_error* error) {
  return write_key(desc, text, bytes, error, c::multi_head_attention_backward_desc);
}
