// Names of Vulkan results and the Errors made of them.
#include "common/message.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace vkattn::detail {

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
      written =
          std::to_chars(digits.data(), end, real_, std::chars_format::general, std::min<int>(digits_, 17));
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
