// Score functions in C, but for compiling them.
#include <span>
#include <string>
#include <vector>

#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

vkattn_result vkattn_score_function_save(const vkattn_score_function* function, const char* const* shaders,
                                         uint32_t shader_count, void* blob, size_t* bytes,
                                         vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{function, "function"}, {bytes, "bytes"}}); !s) return s;
    if (Result<void> s = c::check_list(shaders, shader_count, "shaders"); !s) return s;
    std::vector<std::string> names;
    for (const char* const name : std::span(shaders, shader_count)) {
      if (name == nullptr) return c::invalid("shaders[", names.size(), "] is null");
      names.emplace_back(name);
    }
    const auto saved = vkattn::save_score_shaders(*function->shaders, names);
    if (!saved) return saved.error();
    return c::copy_blob(*saved, "the score function", blob, bytes);
  });
}

vkattn_result vkattn_score_function_load(const void* blob, size_t bytes, vkattn_score_function** function,
                                         vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{blob, "blob"}, {function, "function"}}); !s) return s;
    *function = nullptr;
    auto loaded = vkattn::load_score_shaders({static_cast<const std::byte*>(blob), bytes});
    if (!loaded) return loaded.error();
    c::give(std::make_unique<vkattn_score_function>(*std::move(loaded)), function);
    return {};
  });
}

vkattn_result vkattn_score_function_retain(vkattn_score_function* function) {
  return c::retain(function);
}

vkattn_result vkattn_score_function_release(vkattn_score_function* function) {
  return c::release(function);
}
