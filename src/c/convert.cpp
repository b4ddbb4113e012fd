// Problems from C: see convert.hpp. Their fields are the rows of common/fields.def.
#include "c/convert.hpp"

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "c/enumerators.hpp"
#include "c/fields.hpp"
#include "c/handles.hpp"

namespace vkattn::c {

namespace {

template <class T>
concept Number = std::is_arithmetic_v<T>;
template <class T>
concept Enumeration = std::is_enum_v<T>;
template <class T>
concept Value = std::is_class_v<T>;

/// Reads the fields of a structure, each by the types of its two members. Keeps the first error.
class Reader {
 public:
  template <class Structure, class Desc>
  void read_all(const Structure& from, Desc& to) {
    each_field(from, to,
               [&](const char* name, const auto& field, auto& member) { read(name, field, member); });
  }

  [[nodiscard]] const std::optional<Error>& wrong() const { return wrong_; }

 private:
  template <Number Same>
  void read(const char* /*name*/, const Same& from, Same& to) {
    to = from;
  }
  void read(const char* /*name*/, std::uint32_t from, bool& to) { to = from != 0; }
  void read(const char* /*name*/, float from, std::optional<float>& to) {
    if (!std::isnan(from)) to = from;
  }
  template <Enumeration Enum>
  void read(const char* name, std::uint32_t from, Enum& to) {
    const std::string path = within_ == nullptr ? name : detail::message(within_, ".", name);
    take(enumerator<Enum>(from, path), to);
  }
  template <Value Structure, Value Desc>
  void read(const char* name, const Structure& from, Desc& to) {
    const char* const outer = std::exchange(within_, name);
    read_all(from, to);
    within_ = outer;
  }
  /// Null: not given.
  template <class Given, class Member>
  void read(const char* name, const Given* from, std::optional<Member>& to) {
    if (from != nullptr) read(name, *from, to.emplace());
  }
  void read(const char* /*name*/, const vkattn_attention_desc* from, AttentionDesc& to) {
    take(attention_desc(from), to);
  }
  void read(const char* /*name*/, const vkattn_multi_head_attention_desc* from, MultiHeadAttentionDesc& to) {
    take(multi_head_attention_desc(from), to);
  }
  void read(const char* name, vkattn_score_function* from, Shared<const ScoreShaders>& to) {
    if (from == nullptr) return;
    if (is_alive(from)) {
      to = from->shaders;
    } else {
      wrong_ = not_alive(name);  // before every number
    }
  }

  template <class Member>
  void take(const Result<Member>& made, Member& to) {
    if (made) {
      to = *made;
    } else if (!wrong_) {
      wrong_ = made.error();
    }
  }

  const char* within_ = nullptr;  ///< the field that a plain value is, whose name comes before its fields'
  std::optional<Error> wrong_;
};

template <class Desc, class Structure>
Result<Desc> read_desc(const Structure* given, void (*init)(Structure*), const char* name) {
  const auto copy = read(given, init, name);
  if (!copy) return copy.error();
  Desc desc;
  Reader reader;
  reader.read_all(*copy, desc);
  if (reader.wrong()) return *reader.wrong();
  return desc;
}

}  // namespace

// attention_desc() and the others.
#define VKATTN_VALUE(STRUCTURE, DESC)
#define VKATTN_DESC(STRUCTURE, DESC)                                                \
  Result<DESC> STRUCTURE(const vkattn_##STRUCTURE* given) {                         \
    return read_desc<DESC>(given, vkattn_##STRUCTURE##_init, "vkattn_" #STRUCTURE); \
  }
#define VKATTN_FIELD_AS(MEMBER, PATH)
#define VKATTN_END
#include "common/fields.def"

}  // namespace vkattn::c
