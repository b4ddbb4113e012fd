// Reads JSON for the core, which links no library. Values go where the caller wants them; no tree is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::detail {

/// Goes through a text of JSON, value by value. After a function has returned false, nothing more can be
/// read.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  /// Reads the next value. False: it is of another kind, or no JSON.
  /// @{
  [[nodiscard]] bool read(std::string& value);
  [[nodiscard]] bool read(bool& value);
  [[nodiscard]] bool read(std::uint64_t& value);
  /// @}
  /// Reads an object. `each(name)` reads the value of each member, and says whether it could.
  template <class Each>
  [[nodiscard]] bool object(Each&& each) {
    return list('{', '}', [&] {
      std::string name;
      return read(name) && take(':') && each(std::string_view(name));
    });
  }
  /// Reads an array. `each()` reads each element, and says whether it could.
  template <class Each>
  [[nodiscard]] bool array(Each&& each) {
    return list('[', ']', each);
  }
  /// Passes over a value of any kind. False: it is no JSON, or nested deeper than kMostDepth.
  [[nodiscard]] bool skip();
  /// Whether only blanks are left.
  [[nodiscard]] bool is_at_end();
  /// The byte at which reading stopped.
  [[nodiscard]] std::size_t byte() const { return at_; }

 private:
  static constexpr int kMostDepth = 16;

  void skip_blanks();
  /// Passes over the character if it comes next, after blanks.
  [[nodiscard]] bool take(char character);
  [[nodiscard]] bool take_word(std::string_view word);
  [[nodiscard]] bool take_number();
  /// Passes over digits. False: there is none.
  [[nodiscard]] bool take_digits();
  [[nodiscard]] bool read_escape(std::string& value);
  [[nodiscard]] bool read_hex(std::uint32_t& value);

  template <class Each>
  [[nodiscard]] bool list(char begin, char end, Each&& each) {
    if (!take(begin) || ++depth_ > kMostDepth) return false;
    if (!take(end)) {
      do {
        if (!each()) return false;
      } while (take(','));
      if (!take(end)) return false;
    }
    --depth_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace vkattn::detail
