// Words and their differences: see spirv_deltas.hpp.
#include "spirv/spirv_deltas.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "spirv/spirv.hpp"

namespace vkattn::detail {

namespace {

/// The earlier operands, which both ends know. Opcodes that share a row, and operands behind the last place,
/// only make differences greater.
class Operands {
 public:
  /// The number that stands for an operand.
  [[nodiscard]] std::uint64_t number(std::uint32_t opcode, std::size_t place, std::uint32_t operand) {
    std::uint32_t& last = last_of(opcode, place);
    const std::uint32_t difference = operand - last;
    last = operand;
    if (operand == greatest_id_ + 1) {
      greatest_id_ = operand;
      return 0;
    }
    return 1 + std::uint64_t{difference << 1U ^ (0U - (difference >> 31U))};
  }

  /// The operand that a number stands for.
  [[nodiscard]] std::uint32_t operand(std::uint32_t opcode, std::size_t place, std::uint64_t number) {
    std::uint32_t& last = last_of(opcode, place);
    if (number == 0) return last = ++greatest_id_;
    const auto zigzag = static_cast<std::uint32_t>(number - 1);
    return last += zigzag >> 1U ^ (0U - (zigzag & 1U));
  }

 private:
  static constexpr std::size_t kRows = 512;
  static constexpr std::size_t kPlaces = 6;

  std::uint32_t& last_of(std::uint32_t opcode, std::size_t place) {
    return last_[opcode % kRows][std::min(place, kPlaces - 1)];
  }

  std::array<std::array<std::uint32_t, kPlaces>, kRows> last_{};
  std::uint32_t greatest_id_ = 0;
};

void put(std::vector<std::uint8_t>& bytes, std::uint64_t number) {
  for (; number >= 128; number >>= 7U) bytes.push_back(static_cast<std::uint8_t>(number | 128U));
  bytes.push_back(static_cast<std::uint8_t>(number));
}

/// Takes numbers; where there is none, 0 and failed() from then on.
class Numbers {
 public:
  explicit Numbers(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t take() {
    std::uint64_t number = 0;
    for (std::uint32_t shift = 0; shift < 35 && !bytes_.empty(); shift += 7) {
      const std::uint8_t byte = bytes_.front();
      bytes_ = bytes_.subspan(1);
      number |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return number;
    }
    failed_ = true;
    return 0;
  }
  [[nodiscard]] std::uint32_t take_word() { return static_cast<std::uint32_t>(take()); }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  bool failed_ = false;
};

}  // namespace

std::vector<std::uint32_t> little_endian_words(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < 4 * words.size(); ++i) words[i / 4] |= std::uint32_t{bytes[i]} << 8U * (i % 4);
  return words;
}

std::optional<std::vector<std::uint8_t>> spirv_deltas(std::span<const std::uint32_t> module) {
  if (module.size() < kSpirvHeaderWords) return std::nullopt;
  std::vector<std::uint8_t> bytes;
  put(bytes, module.size());
  for (const std::uint32_t word : module.first(kSpirvHeaderWords)) put(bytes, word);
  Operands operands;
  std::size_t end = kSpirvHeaderWords;
  for (const auto& instruction : instructions_of(module)) {
    put(bytes, instruction.opcode());
    put(bytes, instruction.words.size());
    for (std::size_t i = 1; i < instruction.words.size(); ++i)
      put(bytes, operands.number(instruction.opcode(), i - 1, instruction.words[i]));
    end = instruction.end();
  }
  if (end != module.size()) return std::nullopt;
  return bytes;
}

std::optional<std::vector<std::uint32_t>> spirv_of_deltas(std::span<const std::uint8_t> bytes) {
  Numbers numbers(bytes);
  const std::uint64_t count = numbers.take();
  if (count < kSpirvHeaderWords || count > bytes.size()) return std::nullopt;
  std::vector<std::uint32_t> words;
  words.reserve(count);
  while (words.size() < kSpirvHeaderWords) words.push_back(numbers.take_word());
  Operands operands;
  while (words.size() < count && !numbers.failed()) {
    const std::uint32_t opcode = numbers.take_word();
    const std::uint64_t length = numbers.take();
    if (opcode > 0xffffU || length == 0 || length > 0xffffU || length > count - words.size())
      return std::nullopt;
    words.push_back(static_cast<std::uint32_t>(length) << 16U | opcode);
    for (std::size_t i = 1; i < length; ++i) words.push_back(operands.operand(opcode, i - 1, numbers.take()));
  }
  if (numbers.failed() || numbers.left() > 0) return std::nullopt;
  return words;
}

}  // namespace vkattn::detail
