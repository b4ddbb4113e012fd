#include "generate/utf8_stream.hpp"

#include <glib.h>

#include <utility>

namespace generate {

std::string Utf8Stream::add(std::string_view bytes) {
  waiting_ += bytes;
  std::string sound;
  while (!waiting_.empty()) {
    const gchar* end = nullptr;
    (void)g_utf8_validate(waiting_.data(), static_cast<gssize>(waiting_.size()), &end);
    sound.append(waiting_, 0, static_cast<std::size_t>(end - waiting_.data()));
    waiting_.erase(0, static_cast<std::size_t>(end - waiting_.data()));
    // A zero byte is a character too, though GLib ends its texts there.
    if (waiting_.empty()) break;
    constexpr auto kUnfinished = static_cast<gunichar>(-2);
    if (waiting_[0] == '\0')
      sound += '\0';
    else if (g_utf8_get_char_validated(waiting_.data(), static_cast<gssize>(waiting_.size())) == kUnfinished)
      break;
    else
      sound += "\xef\xbf\xbd";
    waiting_.erase(0, 1);
  }
  return sound;
}

std::string Utf8Stream::finish() {
  return std::exchange(waiting_, {}).empty() ? "" : "\xef\xbf\xbd";
}

}  // namespace generate
