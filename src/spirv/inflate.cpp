// Inflate: see inflate.hpp.
#include "spirv/inflate.hpp"

#include <algorithm>
#include <array>

namespace vkattn::detail {

namespace {

constexpr std::size_t kHeaderBytes = 10;
constexpr std::size_t kTrailerBytes = 8;
// A copy of 258 bytes takes two bits at least.
constexpr std::size_t kMostGrowth = 1032;

std::uint32_t little_endian32(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8U | std::uint32_t{bytes[2]} << 16U |
         std::uint32_t{bytes[3]} << 24U;
}

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::uint8_t byte : bytes) crc = (crc >> 8U) ^ kCrcTable[(crc ^ byte) & 0xffU];
  return ~crc;
}

/// Bits of a stream, the lowest of each byte first. Behind its end there are zeros, of which none can be
/// taken.
class BitStream {
 public:
  explicit BitStream(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  /// Whether nothing is left but the rest of a byte.
  [[nodiscard]] bool at_end() const { return next_ == bytes_.size() && held_count_ < 8; }

  /// At least 15 of the next bits.
  [[nodiscard]] std::uint64_t peek() {
    while (held_count_ <= 56 && next_ < bytes_.size()) {
      held_ |= std::uint64_t{bytes_[next_++]} << held_count_;
      held_count_ += 8;
    }
    return held_;
  }

  /// The next `count` bits, at most 16; 0 and failed() where there are fewer.
  std::uint32_t take(std::uint32_t count) {
    const std::uint64_t bits = peek();
    if (count > held_count_) {
      failed_ = true;
      return 0;
    }
    held_ >>= count;
    held_count_ -= count;
    return static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << count) - 1));
  }

  void skip_to_byte() { take(held_count_ % 8); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
  std::uint64_t held_ = 0;
  std::uint32_t held_count_ = 0;
  bool failed_ = false;
};

constexpr std::uint32_t kLongestCode = 15;
constexpr std::uint32_t kNoSymbol = ~std::uint32_t{0};

/// A canonical Huffman code: short codes are looked up, longer ones walked along.
class HuffmanCode {
 public:
  /// By the length of each symbol's code, 0 for none. False where the lengths are those of no code.
  [[nodiscard]] bool assign(std::span<const std::uint8_t> lengths) {
    count_ = {};
    for (const std::uint8_t length : lengths) ++count_[length];
    count_[0] = 0;
    std::array<std::uint32_t, kLongestCode + 1> next_code{};
    std::array<std::uint32_t, kLongestCode + 1> next_index{};
    for (std::uint32_t length = 1; length <= kLongestCode; ++length) {
      first_code_[length] = next_code[length] = (first_code_[length - 1] + count_[length - 1]) << 1U;
      first_index_[length] = next_index[length] = first_index_[length - 1] + count_[length - 1];
      if (first_code_[length] + count_[length] > std::uint32_t{1} << length) return false;
    }
    short_.fill({});
    for (std::uint32_t symbol = 0; symbol < lengths.size(); ++symbol) {
      const std::uint32_t length = lengths[symbol];
      if (length == 0) continue;
      symbols_[next_index[length]++] = static_cast<std::uint16_t>(symbol);
      add_short(next_code[length]++, length, symbol);
    }
    return true;
  }

  /// The next symbol; kNoSymbol where the bits are the code of none.
  [[nodiscard]] std::uint32_t read(BitStream& stream) const {
    const std::uint64_t bits = stream.peek();
    const Short found = short_[bits & (kShortCodes - 1)];
    if (found.length != 0) {
      stream.take(found.length);
      return stream.failed() ? kNoSymbol : found.symbol;
    }
    std::uint32_t code = 0;
    for (std::uint32_t length = 1; length <= kLongestCode; ++length) {
      code = code << 1U | static_cast<std::uint32_t>(bits >> (length - 1) & 1U);
      if (code - first_code_[length] >= count_[length]) continue;  // also where it is below
      stream.take(length);
      return stream.failed() ? kNoSymbol : symbols_[first_index_[length] + code - first_code_[length]];
    }
    return kNoSymbol;
  }

 private:
  static constexpr std::uint32_t kShortBits = 10;
  static constexpr std::size_t kShortCodes = std::size_t{1} << kShortBits;

  struct Short {
    std::uint16_t symbol = 0;
    std::uint16_t length = 0;  ///< 0: not a short code
  };

  // The stream has the first bit of a code lowest. Any bits may follow a short code.
  void add_short(std::uint32_t code, std::uint32_t length, std::uint32_t symbol) {
    if (length > kShortBits) return;
    std::uint32_t reversed = 0;
    for (std::uint32_t bit = 0; bit < length; ++bit) reversed |= (code >> bit & 1U) << (length - 1 - bit);
    for (std::size_t i = reversed; i < kShortCodes; i += std::size_t{1} << length) {
      short_[i] = {static_cast<std::uint16_t>(symbol), static_cast<std::uint16_t>(length)};
    }
  }

  std::array<Short, kShortCodes> short_{};
  std::array<std::uint16_t, 288> symbols_{};             ///< by code
  std::array<std::uint32_t, kLongestCode + 1> count_{};  ///< by length, as the next two
  std::array<std::uint32_t, kLongestCode + 1> first_code_{};
  std::array<std::uint32_t, kLongestCode + 1> first_index_{};
};

/// A value that a symbol and some bits behind it give.
struct Range {
  std::uint16_t base = 0;
  std::uint16_t bits = 0;
};

// RFC 1951, 3.2.5: symbols 257 to 285.
constexpr std::array<Range, 29> kLengths{
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};
constexpr std::array<Range, 30> kDistances{
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},     {9, 2},     {13, 2},
     {17, 3},    {25, 3},    {33, 4},    {49, 4},     {65, 5},     {97, 5},    {129, 6},   {193, 6},
     {257, 7},   {385, 7},   {513, 8},   {769, 8},    {1025, 9},   {1537, 9},  {2049, 10}, {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};

class Inflater {
 public:
  Inflater(std::span<const std::uint8_t> stream, std::span<std::uint8_t> output)
      : stream_(stream), output_(output) {}

  /// All blocks: the output is full then, and the stream at its end.
  [[nodiscard]] bool run() {
    bool is_last = false;
    while (!is_last) {
      is_last = stream_.take(1) != 0;
      if (!block(stream_.take(2)) || stream_.failed()) return false;
    }
    return written_ == output_.size() && stream_.at_end();
  }

 private:
  [[nodiscard]] bool block(std::uint32_t type) {
    if (stream_.failed()) return false;
    if (type == 0) return stored();
    if (type == 1) return fixed_codes() && compressed();
    return type == 2 && dynamic_codes() && compressed();
  }

  [[nodiscard]] bool stored() {
    stream_.skip_to_byte();
    const std::uint32_t length = stream_.take(16);
    if (stream_.take(16) != (length ^ 0xffffU) || length > output_.size() - written_) return false;
    for (std::uint32_t i = 0; i < length; ++i)
      output_[written_++] = static_cast<std::uint8_t>(stream_.take(8));
    return true;
  }

  [[nodiscard]] bool fixed_codes() {
    std::array<std::uint8_t, 288> lengths{};
    std::fill(lengths.begin(), lengths.begin() + 144, std::uint8_t{8});
    std::fill(lengths.begin() + 144, lengths.begin() + 256, std::uint8_t{9});
    std::fill(lengths.begin() + 256, lengths.begin() + 280, std::uint8_t{7});
    std::fill(lengths.begin() + 280, lengths.end(), std::uint8_t{8});
    std::array<std::uint8_t, 30> distance_lengths{};
    distance_lengths.fill(5);
    return literals_.assign(lengths) && distances_.assign(distance_lengths);
  }

  [[nodiscard]] bool dynamic_codes() {
    constexpr std::array<std::uint8_t, 19> kOrder{16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                  11, 4,  12, 3, 13, 2, 14, 1, 15};
    const std::size_t literal_count = stream_.take(5) + 257;
    const std::size_t distance_count = stream_.take(5) + 1;
    const std::size_t order_count = stream_.take(4) + 4;
    if (literal_count > 286 || distance_count > 30) return false;
    std::array<std::uint8_t, kOrder.size()> order_lengths{};
    for (std::size_t i = 0; i < order_count; ++i)
      order_lengths[kOrder[i]] = static_cast<std::uint8_t>(stream_.take(3));
    if (!literals_.assign(order_lengths)) return false;
    std::array<std::uint8_t, 286 + 30> lengths{};
    const std::span<std::uint8_t> used = std::span(lengths).first(literal_count + distance_count);
    if (!read_lengths(used)) return false;
    return literals_.assign(used.first(literal_count)) && distances_.assign(used.subspan(literal_count));
  }

  // Lengths of codes, themselves in the code that literals_ is so far.
  [[nodiscard]] bool read_lengths(std::span<std::uint8_t> lengths) {
    for (std::size_t i = 0; i < lengths.size();) {
      const std::uint32_t symbol = literals_.read(stream_);
      if (symbol < 16) {
        lengths[i++] = static_cast<std::uint8_t>(symbol);
        continue;
      }
      if (symbol > 18 || (symbol == 16 && i == 0)) return false;
      const std::uint8_t repeated = symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
      const std::size_t count = symbol == 16   ? 3 + stream_.take(2)
                                : symbol == 17 ? 3 + stream_.take(3)
                                               : 11 + stream_.take(7);
      if (stream_.failed() || count > lengths.size() - i) return false;
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(i), count, repeated);
      i += count;
    }
    return true;
  }

  [[nodiscard]] bool compressed() {
    constexpr std::uint32_t kEndOfBlock = 256;
    for (;;) {
      const std::uint32_t symbol = literals_.read(stream_);
      if (symbol == kEndOfBlock) return true;
      if (symbol < kEndOfBlock) {
        if (written_ == output_.size()) return false;
        output_[written_++] = static_cast<std::uint8_t>(symbol);
      } else if (!copy(symbol - kEndOfBlock - 1)) {  // kNoSymbol is none of those either
        return false;
      }
    }
  }

  [[nodiscard]] bool copy(std::uint32_t length_symbol) {
    if (length_symbol >= kLengths.size()) return false;
    const std::size_t length = kLengths[length_symbol].base + stream_.take(kLengths[length_symbol].bits);
    const std::uint32_t symbol = distances_.read(stream_);
    if (symbol >= kDistances.size()) return false;
    const std::size_t distance = kDistances[symbol].base + stream_.take(kDistances[symbol].bits);
    if (stream_.failed() || distance > written_ || length > output_.size() - written_) return false;
    // One after the other: what is copied may be part of what is written.
    for (std::size_t i = 0; i < length; ++i, ++written_) output_[written_] = output_[written_ - distance];
    return true;
  }

  BitStream stream_;
  std::span<std::uint8_t> output_;
  std::size_t written_ = 0;
  HuffmanCode literals_, distances_;
};

}  // namespace

std::optional<std::size_t> unpacked_bytes(std::span<const std::uint8_t> gzip) noexcept {
  constexpr std::array<std::uint8_t, 4> kBegin{0x1f, 0x8b, 8, 0};  // deflate, no optional fields
  if (gzip.size() < kHeaderBytes + kTrailerBytes || !std::equal(kBegin.begin(), kBegin.end(), gzip.begin())) {
    return std::nullopt;
  }
  const std::size_t bytes = little_endian32(gzip.last(4));
  if (bytes / kMostGrowth > gzip.size()) return std::nullopt;
  return bytes;
}

bool unpack(std::span<const std::uint8_t> gzip, std::span<std::uint8_t> output) noexcept {
  if (unpacked_bytes(gzip) != output.size()) return false;
  const std::span<const std::uint8_t> stream =
      gzip.subspan(kHeaderBytes, gzip.size() - kHeaderBytes - kTrailerBytes);
  return Inflater(stream, output).run() &&
         crc32(output) == little_endian32(gzip.last(kTrailerBytes).first(4));
}

}  // namespace vkattn::detail
