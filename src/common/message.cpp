// Names of Vulkan results and the Errors made of them.
#include "common/message.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <span>
#include <utility>

namespace vkattn::detail {

char* with_point(char* begin, char* end) noexcept {
  const auto is_of_number = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.';
  };
  char* const point = std::find_if_not(begin, end, is_of_number);
  if (point == end) return end;
  *point = '.';
  return std::move(std::find_if(point + 1, end, is_of_number), end, point + 1);
}

namespace {

/// Writes a number with so many significant digits, and returns its end. Not by std::to_chars(): Apple's
/// library has none for real numbers before macOS 13.3 and iOS 16.3.
char* write_real(std::span<char> target, double number, int digits) noexcept {
  const int characters = std::snprintf(target.data(), target.size(), "%.*g", digits, number);
  const int most = static_cast<int>(target.size()) - 1;
  return with_point(target.data(), target.data() + std::clamp(characters, 0, most));
}

}  // namespace

void MessagePart::append_to(std::string& text) const {
  std::array<char, 32> digits;  // an integer has 20; a real number 17, sign, point and exponent
  char* const end = digits.data() + digits.size();
  std::to_chars_result written{digits.data(), {}};
  switch (kind_) {
    case Kind::kText:
      text += text_;
      return;
    case Kind::kCharacter:
      text += static_cast<char>(unsigned_);
      return;
    case Kind::kSigned:
      written = std::to_chars(digits.data(), end, signed_);
      break;
    case Kind::kUnsigned:
      written = std::to_chars(digits.data(), end, unsigned_);
      break;
    case Kind::kHex:
      written = std::to_chars(digits.data(), end, unsigned_, 16);
      break;
    case Kind::kReal:
      written.ptr = write_real(digits, real_, std::min<int>(digits_, 17));
      break;
  }
  text.append(digits.data(), written.ptr);
}

std::string join(std::span<const MessagePart> parts) {
  std::size_t characters = 0;
  for (const MessagePart& part : parts) characters += part.most_characters();
  std::string text;
  text.reserve(characters);
  for (const MessagePart& part : parts) part.append_to(text);
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::size_t end = std::min(text.size(), kMost);
  const auto is_inside_character = [&] { return (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U; };
  while (end < text.size() && end + 3 > kMost && is_inside_character()) --end;
  std::string shown(text.substr(0, end));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7f) c = '?';
  }
  return end < text.size() ? shown + "…" : shown;
}

std::string quoted_name(std::string_view text) {
  return "'" + printable(text) + "'";
}

std::string to_string(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_NOT_READY:
      return "VK_NOT_READY";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL:
      return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_FRAGMENTATION:
      return "VK_ERROR_FRAGMENTATION";
    case VK_ERROR_INVALID_SHADER_NV:
      return "VK_ERROR_INVALID_SHADER_NV";
    case VK_ERROR_UNKNOWN:
      return "VK_ERROR_UNKNOWN";
    default:
      return message("VkResult ", static_cast<int>(result));
  }
}

Error vulkan_error(VkResult result, const char* call) {
  ErrorCode code = ErrorCode::kVulkan;
  if (result == VK_ERROR_DEVICE_LOST) code = ErrorCode::kDeviceLost;
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY) {
    code = ErrorCode::kOutOfMemory;
  }
  return {code, result, message(call, " failed with ", to_string(result))};
}

}  // namespace vkattn::detail
