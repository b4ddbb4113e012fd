// Makes the C structures that equal descriptors of C++, and names the functions of C for each operation.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/operations.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "c/fields.hpp"
#include "support/initial.hpp"
#include "support/small_problems.hpp"

namespace vkattn::tests {

/// The C structure that equals a descriptor, and the function of C that makes its plans.
template <class Desc>
struct InC;
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)       \
  template <>                                                    \
  struct InC<DESC> {                                             \
    using Structure = vkattn_##NAME##_desc;                      \
    static constexpr const char* kName = #NAME;                  \
    static constexpr auto* kInit = &vkattn_##NAME##_desc_init;   \
    static constexpr auto* kCreate = &vkattn_plan_create_##NAME; \
  };
#include "common/operations.def"

/// A descriptor as a structure of C, and everything that the structure points to. A score function stays
/// null.
template <class Desc>
class CProblem {
 public:
  using Structure = typename InC<Desc>::Structure;

  explicit CProblem(const Desc& desc) { write(desc, structure); }
  CProblem(const CProblem&) = delete;
  CProblem& operator=(const CProblem&) = delete;

  Structure structure = initial(InC<Desc>::kInit);

 private:
  template <class From, class To>
  void write(const From& from, To& to) {
    c::write_fields(from, to);
    c::each_field(to, from,
                  [this](const char*, auto& member, const auto& value) { this->point(value, member); });
  }
  template <class T>
  T& keep(T value) {
    auto kept = std::make_shared<T>(value);
    kept_.push_back(kept);
    return *kept;
  }

  template <class Value, class Given>
  void point(const std::optional<Value>& value, const Given*& member) {
    if (!value) return;
    Given& given = keep(Given{});
    member = &given;
    if constexpr (std::is_class_v<Given>) {
      write(*value, given);
    } else {
      given = static_cast<Given>(*value);
    }
  }
  void point(const AttentionDesc& value, const vkattn_attention_desc*& member) {
    vkattn_attention_desc& given = keep(initial(vkattn_attention_desc_init));
    write(value, given);
    member = &given;
  }
  void point(const MultiHeadAttentionDesc& value, const vkattn_multi_head_attention_desc*& member) {
    vkattn_multi_head_attention_desc& given = keep(initial(vkattn_multi_head_attention_desc_init));
    write(value, given);
    member = &given;
  }
  template <class Value, class Member>
  void point(const Value& value, Member& member) {
    if constexpr (std::is_class_v<Member>) write(value, member);
  }

  std::vector<std::shared_ptr<void>> kept_;
};

/// The options of tiles_in_parts() as a structure of C.
template <class Desc>
[[nodiscard]] vkattn_plan_options tiles_in_parts_of_c() {
  vkattn_plan_options c_options = initial(vkattn_plan_options_init);
  const auto options = tiles_in_parts<Desc>();
  if constexpr (requires { options.matmul; }) {
    c_options.kernel = c_options.matmul_kernel = c_options.backward_kernel = "tile";
  } else {
    if (!options.kernel.empty()) c_options.kernel = "tile";
    c_options.kv_splits = options.kv_splits;
    c_options.chunk_keys = options.chunk_keys;
    c_options.inner_splits = options.inner_splits;
  }
  return c_options;
}

}  // namespace vkattn::tests
