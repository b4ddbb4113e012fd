// Text that is printed as it comes.
#pragma once

#include <string>
#include <string_view>

namespace generate {

// Whole characters, with U+FFFD for bytes that are none.
class Utf8Stream {
 public:
  // What can be printed of everything so far.
  [[nodiscard]] std::string add(std::string_view bytes);
  // The rest.
  [[nodiscard]] std::string finish();

 private:
  std::string waiting_;
};

}  // namespace generate
