// See plot_format.hpp.
#include "plot_format.hpp"

#include "console.hpp"
#include "json.hpp"

namespace vkattn::bench {

std::optional<PlotFormat> plot_format(std::string_view file_name) {
  constexpr std::size_t kEndingLength = 4;
  if (file_name.size() <= kEndingLength) return std::nullopt;
  std::string ending(file_name.substr(file_name.size() - kEndingLength));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (ending == ".png") return PlotFormat::kPng;
  if (ending == ".svg") return PlotFormat::kSvg;
  return std::nullopt;
}

std::string drawable(const std::string& text) {
  const std::string quoted =
      Json(console::printable(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace vkattn::bench
