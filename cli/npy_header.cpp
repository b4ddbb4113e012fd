// Reads the header of a .npy file, a Python dictionary literal with three known keys, with a small strict
// parser.
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "console.hpp"
#include "npy.hpp"

namespace vkattn::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxRank = 32;  // NumPy's own limit before version 2

enum class Kind : char { kBool = 'b', kFloat = 'f', kInteger = 'i', kUnsigned = 'u' };

struct TypeRow {
  ElementType type;
  Kind kind;
  std::uint32_t bytes;
  std::string_view name;
};
/// In the order of the enumerators.
constexpr std::array<TypeRow, 12> kTypes = {{{ElementType::kBool, Kind::kBool, 1, "bool"},
                                             {ElementType::kFloat16, Kind::kFloat, 2, "float16"},
                                             {ElementType::kFloat32, Kind::kFloat, 4, "float32"},
                                             {ElementType::kFloat64, Kind::kFloat, 8, "float64"},
                                             {ElementType::kInt8, Kind::kInteger, 1, "int8"},
                                             {ElementType::kInt16, Kind::kInteger, 2, "int16"},
                                             {ElementType::kInt32, Kind::kInteger, 4, "int32"},
                                             {ElementType::kInt64, Kind::kInteger, 8, "int64"},
                                             {ElementType::kUint8, Kind::kUnsigned, 1, "uint8"},
                                             {ElementType::kUint16, Kind::kUnsigned, 2, "uint16"},
                                             {ElementType::kUint32, Kind::kUnsigned, 4, "uint32"},
                                             {ElementType::kUint64, Kind::kUnsigned, 8, "uint64"}}};

const TypeRow& row_of(ElementType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

/// The type as a header has it after the byte order, such as "f4".
std::string code_of(const TypeRow& row) {
  return static_cast<char>(row.kind) + std::to_string(row.bytes);
}

Error format_error(const std::string& what) {
  return Error{ErrorCode::kIo, {}, what};
}

/// Walks over the text of the dictionary. Every step either takes what it names or reports the text that
/// stands there.
class DictionaryParser {
 public:
  explicit DictionaryParser(std::string_view text) : text_(text) {}

  Result<Header> parse();

 private:
  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }
  bool take(char expected) {
    skip_spaces();
    if (position_ >= text_.size() || text_[position_] != expected) return false;
    ++position_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }
  Error expected(std::string_view what) const {
    const std::string found =
        position_ < text_.size() ? "'" + console::printable(text_.substr(position_, 12)) + "'" : "its end";
    return format_error("the .npy header is malformed at character " + std::to_string(position_) +
                        ": expected " + std::string(what) + ", found " + found);
  }

  std::optional<std::string_view> take_string();
  Result<void> take_value(std::string_view key);
  Result<void> take_shape();
  Result<void> take_descr();
  Result<std::int64_t> take_integer();

  std::string_view text_;
  std::size_t position_ = 0;
  Header header_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

std::optional<std::string_view> DictionaryParser::take_string() {
  skip_spaces();
  if (position_ >= text_.size()) return std::nullopt;
  const char quote = text_[position_];
  if (quote != '\'' && quote != '"') return std::nullopt;
  const std::size_t end = text_.find(quote, position_ + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view content = text_.substr(position_ + 1, end - position_ - 1);
  if (content.find('\\') != std::string_view::npos) return std::nullopt;  // no key or type has an escape
  position_ = end + 1;
  return content;
}

Result<std::int64_t> DictionaryParser::take_integer() {
  skip_spaces();
  if (position_ >= text_.size() || text_[position_] < '0' || text_[position_] > '9') {
    return expected("a size in the shape");
  }
  std::int64_t value = 0;
  for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
    const int digit = text_[position_] - '0';
    if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) {
      return format_error("the .npy header gives a size in the shape that does not fit 63 bits");
    }
    value = value * 10 + digit;
  }
  if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2 writes it after a number
  return value;
}

Result<void> DictionaryParser::take_shape() {
  if (!take('(')) return expected("a shape such as (2, 3)");
  while (!take(')')) {
    Result<std::int64_t> size = take_integer();
    if (!size.ok()) return size.error();
    header_.shape.push_back(*size);
    if (header_.shape.size() > kMaxRank) {
      return format_error("the .npy header gives a shape of more than " + std::to_string(kMaxRank) +
                          " dimensions");
    }
    if (take(',')) continue;
    // "(5)" is a number in Python, not a shape.
    if (header_.shape.size() == 1 || !take(')')) return expected("',' in the shape");
    break;
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : header_.shape) {
    // A zero makes the product zero, but the other factors must still be valid.
    const std::int64_t factor = elements == 0 ? 1 : elements;
    if (size != 0 && factor > std::numeric_limits<std::int64_t>::max() / 16 / size) {
      return format_error("the shape " + shape_text(header_.shape) +
                          " has more elements than 59 bits can count");
    }
    elements *= size;
  }
  header_.elements = elements;
  return {};
}

Result<void> DictionaryParser::take_descr() {
  if (take('[')) {
    return format_error(
        "the array has a structured type with named fields; a plain float or integer array is needed");
  }
  const std::optional<std::string_view> descr = take_string();
  if (!descr) return expected("a type such as '<f4'");
  const std::string_view orders = "<>=|";
  if (!descr->empty() && orders.find((*descr)[0]) != std::string_view::npos) {
    for (const TypeRow& known : kTypes) {
      if (descr->substr(1) != code_of(known)) continue;
      header_.type = known.type;
      const bool native_is_big = std::endian::native == std::endian::big;
      header_.big_endian = (*descr)[0] == '>' || ((*descr)[0] != '<' && native_is_big);
      return {};
    }
  }
  return format_error("the element type '" + console::printable(descr->substr(0, 32)) +
                      "' is not one of bool, float16, float32, float64, int8 to int64 and uint8 to uint64");
}

Result<void> DictionaryParser::take_value(std::string_view key) {
  const auto once = [&](bool& seen) -> Result<void> {
    if (seen) return format_error("the .npy header gives '" + std::string(key) + "' twice");
    seen = true;
    return {};
  };
  if (key == "descr") {
    const Result<void> status = once(has_descr_);
    return status.ok() ? take_descr() : status;
  }
  if (key == "shape") {
    const Result<void> status = once(has_shape_);
    return status.ok() ? take_shape() : status;
  }
  if (key == "fortran_order") {
    const Result<void> status = once(has_order_);
    if (!status.ok()) return status;
    header_.fortran_order = take_word("True");
    if (!header_.fortran_order && !take_word("False")) return expected("True or False");
    return {};
  }
  return format_error("the .npy header has an unknown key '" + console::printable(key.substr(0, 32)) + "'");
}

Result<Header> DictionaryParser::parse() {
  if (!take('{')) return expected("'{'");
  while (!take('}')) {
    const std::optional<std::string_view> key = take_string();
    if (!key) return expected("a key in quotes");
    if (!take(':')) return expected("':'");
    const Result<void> status = take_value(*key);
    if (!status.ok()) return status.error();
    if (take(',')) continue;
    if (!take('}')) return expected("',' or '}'");
    break;
  }
  skip_spaces();
  if (position_ < text_.size() && text_[position_] == '\n') ++position_;
  if (position_ != text_.size()) return expected("a line break and nothing more");
  if (!has_descr_) return format_error("the .npy header has no 'descr'");
  if (!has_order_) return format_error("the .npy header has no 'fortran_order'");
  if (!has_shape_) return format_error("the .npy header has no 'shape'");
  return header_;
}

}  // namespace

Result<Header> parse_header(std::string_view start) {
  if (start.empty()) return format_error("the file is empty");
  if (start.substr(0, kMagic.size()) != kMagic) {
    return format_error(start.size() < kMagic.size() && kMagic.substr(0, start.size()) == start
                            ? "the file ends after " + console::count(start.size(), "byte") +
                                  ", inside the .npy magic"
                            : "this is not a .npy file: it does not start with \\x93NUMPY");
  }
  const auto byte = [&](std::size_t index) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(start[index]));
  };
  if (start.size() < 8) return format_error("the file ends before the .npy version");
  const std::uint32_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    return format_error(".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                        " is unknown; versions 1.0, 2.0 and 3.0 are read");
  }
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (start.size() < prefix) return format_error("the file ends before the length of the .npy header");
  std::uint32_t length = byte(8) | byte(9) << 8U;
  if (major > 1) length |= byte(10) << 16U | byte(11) << 24U;
  if (length > kMaxHeaderBytes) {
    return format_error("the .npy header claims a length of " + std::to_string(length) + " bytes; up to " +
                        std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (start.size() - prefix < length) {
    return format_error("the .npy header claims a length of " + std::to_string(length) + " bytes, but only " +
                        std::to_string(start.size() - prefix) + " follow");
  }
  Result<Header> header = DictionaryParser(start.substr(prefix, length)).parse();
  if (header.ok()) header->data_offset = prefix + length;
  return header;
}

std::uint32_t element_bytes(ElementType type) {
  return row_of(type).bytes;
}

std::string_view name(ElementType type) {
  return row_of(type).name;
}

bool is_float(ElementType type) {
  return row_of(type).kind == Kind::kFloat;
}

bool is_unsigned(ElementType type) {
  return row_of(type).kind == Kind::kUnsigned;
}

bool is_integer(ElementType type) {
  return row_of(type).kind == Kind::kInteger || is_unsigned(type);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string make_header(ElementType type, std::span<const std::int64_t> shape) {
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  const bool one_byte = element_bytes(type) == 1;
  const std::string order = one_byte ? "|" : std::endian::native == std::endian::big ? ">" : "<";
  const std::string code = code_of(row_of(type));
  std::string text =
      "{'descr': '" + order + code + "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
  const std::size_t end = kPrefix + text.size() + 1;
  text.append((kAlignment - end % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\0', static_cast<char>(text.size() & 0xffU), static_cast<char>(text.size() >> 8U)};
  return header + text;
}

}  // namespace vkattn::npy
