// Building error sentences, and turning failures of the host into Errors.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace vkattn::detail {

template <class Value>
concept MessageText = std::convertible_to<const Value&, std::string_view>;
template <class Value>
concept MessageEnumerator = std::is_enum_v<Value> && std::convertible_to<Value, std::int64_t>;

/// A piece of a sentence: a number, or a reference to text. Enumerators of C and std::uint8_t are numbers.
class MessagePart {
 public:
  template <MessageText Text>
  MessagePart(const Text& text) noexcept : kind_(Kind::kText), text_(text) {}
  MessagePart(char character) noexcept
      : kind_(Kind::kCharacter), unsigned_(static_cast<unsigned char>(character)) {}
  template <std::signed_integral Number>
  MessagePart(Number number) noexcept : kind_(Kind::kSigned), signed_(number) {}
  template <std::unsigned_integral Number>
  MessagePart(Number number) noexcept : kind_(Kind::kUnsigned), unsigned_(number) {}
  template <MessageEnumerator Enumerator>
  MessagePart(Enumerator number) noexcept : kind_(Kind::kSigned), signed_(number) {}
  /// With so many significant digits, 17 at most.
  MessagePart(double number, std::uint8_t digits = 6) noexcept
      : kind_(Kind::kReal), digits_(digits), real_(number) {}

  /// A number in hexadecimal digits.
  [[nodiscard]] static MessagePart hex(std::uint64_t number) noexcept {
    MessagePart part(number);
    part.kind_ = Kind::kHex;
    return part;
  }

  void append_to(std::string& text) const;

  /// The most characters that append_to() adds.
  [[nodiscard]] std::size_t most_characters() const noexcept {
    return kind_ == Kind::kText ? text_.size() : 24;
  }

 private:
  enum class Kind : std::uint8_t { kText, kCharacter, kSigned, kUnsigned, kHex, kReal };

  Kind kind_;
  std::uint8_t digits_ = 0;
  union {
    std::string_view text_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
    double real_;
  };
};

/// Makes the point of a number that snprintf() wrote a '.', whatever bytes the program's locale has for it.
/// Returns the new end.
[[nodiscard]] char* with_point(char* begin, char* end) noexcept;

/// Joins pieces, with numbers as in the C locale. Throws if memory runs out, as half a name is none.
[[nodiscard]] std::string join(std::span<const MessagePart> parts);

/// join() of its arguments.
template <class... Parts>
[[nodiscard]] std::string message(const Parts&... parts) {
  return join(std::array<MessagePart, sizeof...(Parts)>{MessagePart(parts)...});
}

/// Foreign text for messages: at most 60 bytes of it, whole characters of UTF-8, and control characters as
/// '?'.
[[nodiscard]] std::string printable(std::string_view text);
/// The same in quotes.
[[nodiscard]] std::string quoted_name(std::string_view text);

/// The name of a VkResult, or its number.
[[nodiscard]] std::string to_string(VkResult result);

/// The Error for a failed Vulkan call: device loss and lack of memory get their own codes.
[[nodiscard]] Error vulkan_error(VkResult result, const char* call);

/// The Error for an argument that breaks a rule.
template <class... Parts>
[[nodiscard]] Error invalid(const Parts&... parts) {
  return {ErrorCode::kInvalidArgument, VK_SUCCESS, message(parts...)};
}

/// The Error for a valid request that this device or build cannot do.
template <class... Parts>
[[nodiscard]] Error unsupported(const Parts&... parts) {
  return {ErrorCode::kUnsupported, VK_SUCCESS, message(parts...)};
}

/// The Error for a limit of the device, which the sentence names with both numbers.
template <class... Parts>
[[nodiscard]] Error limit_exceeded(const Parts&... parts) {
  return {ErrorCode::kLimitExceeded, VK_SUCCESS, message(parts...)};
}

#ifdef __cpp_exceptions
/// The Error for the exception that is being handled. If not even its sentence can be made, memory has run
/// out.
[[nodiscard]] inline Error handled_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::length_error&) {  // a size that no container can have
      throw std::bad_alloc();
    } catch (const std::exception& failure) {
      return {ErrorCode::kIo, VK_SUCCESS, message("the host failed: ", failure.what())};
    } catch (...) {
      return {ErrorCode::kIo, VK_SUCCESS, "the host failed: an exception of an unknown type"};
    }
  } catch (...) {
    return {ErrorCode::kOutOfMemory, VK_ERROR_OUT_OF_HOST_MEMORY, "out of memory"};  // short: no allocation
  }
}
#endif

/// Calls `body` and turns an exception of the standard library or of a caller's function into an Error, so
/// that none leaves the API. Compiled without exceptions it only calls.
template <class Body>
[[nodiscard]] auto without_exceptions(Body&& body) noexcept -> decltype(body()) {
#ifdef __cpp_exceptions
  try {
    return body();
  } catch (...) {
    return handled_exception();
  }
#else
  return body();
#endif
}

}  // namespace vkattn::detail
