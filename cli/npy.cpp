// Reads .npy files in pieces, and rounds their values to storage types.
#include "npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/input_file.hpp"

namespace vkattn::npy {
namespace {

namespace fs = std::filesystem;

Error file_error(const fs::path& path, const std::string& what, ErrorCode code = ErrorCode::kIo) {
  return Error{code, {}, path.string() + ": " + what};
}

/// Narrows to float32 in such a way that a second rounding, to 16 bits, gives the result of a single
/// rounding. It rounds toward zero, and sets the last bit if anything was cut off ("round to odd", Boldo and
/// Melquiond 2008).
float narrow_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

template <class Bits>
Bits swap_bytes(Bits bits) {
  auto octets = std::bit_cast<std::array<std::byte, sizeof(Bits)>>(bits);
  std::reverse(octets.begin(), octets.end());
  return std::bit_cast<Bits>(octets);
}

template <class Bits>
Bits load(const std::byte* from, bool swap) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return swap ? swap_bytes(bits) : bits;
}

/// A value as float32. It is exact for float16 and float32 sources. 16-bit results are rounded from `odd`.
struct Value {
  float nearest;
  float odd;
};

Value widen(std::uint16_t bits) {
  const float value = half_to_float(bits);
  return {value, value};
}
Value widen(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  return {value, value};
}
Value widen(std::uint64_t bits) {
  const auto value = std::bit_cast<double>(bits);
  return {static_cast<float>(value), narrow_to_odd(value)};
}

bool source_is_finite(std::uint16_t bits) {
  return (bits & 0x7c00U) != 0x7c00U;
}
bool source_is_finite(std::uint32_t bits) {
  return (bits & 0x7f800000U) != 0x7f800000U;
}
bool source_is_finite(std::uint64_t bits) {
  return std::isfinite(std::bit_cast<double>(bits));
}

/// Writes the bits of a number. Returns true if it became infinite. The number before infinity is the largest
/// finite one.
template <class Stored>
bool store(Stored bits, Stored infinity, bool is_finite, Beyond beyond, std::byte* to) {
  constexpr auto kWithoutSign = static_cast<Stored>(std::numeric_limits<Stored>::max() >> 1U);
  bool overflowed = is_finite && (bits & kWithoutSign) == infinity;
  if (overflowed && beyond == Beyond::kLargest) {
    --bits;
    overflowed = false;
  }
  std::memcpy(to, &bits, sizeof(bits));
  return overflowed;
}

template <class Bits>
std::uint64_t convert_all(bool swap, std::span<const std::byte> raw, DataType type,
                          std::span<std::byte> stored, Beyond beyond) {
  const std::size_t count = raw.size() / sizeof(Bits);
  std::uint64_t overflowed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bits bits = load<Bits>(raw.data() + i * sizeof(Bits), swap);
    const Value value = widen(bits);
    const bool is_finite = source_is_finite(bits);
    if (type == DataType::kFloat32) {
      constexpr std::uint32_t kInfinity = 0x7f800000U;
      const auto result = std::bit_cast<std::uint32_t>(value.nearest);
      overflowed += store(result, kInfinity, is_finite, beyond, stored.data() + i * 4) ? 1U : 0U;
    } else {
      const bool half = type == DataType::kFloat16;
      const std::uint16_t infinity = half ? 0x7c00U : 0x7f80U;
      const std::uint16_t result = half ? float_to_half(value.odd) : float_to_bfloat16(value.odd);
      overflowed += store(result, infinity, is_finite, beyond, stored.data() + i * 2) ? 1U : 0U;
    }
  }
  return overflowed;
}

}  // namespace

Result<Reader> Reader::open(const fs::path& path) {
  Result<detail::InputFile> input = detail::open_input(path);
  if (!input.ok()) return file_error(path, input.error().message, input.error().code);
  const std::uintmax_t file_bytes = input->bytes;
  Reader reader;
  reader.path_ = path;
  reader.stream_ = std::move(input->stream);

  std::string start(std::min<std::uintmax_t>(file_bytes, kMaxHeaderBytes + 12U), '\0');
  reader.stream_.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (!reader.stream_) return file_error(path, "the file cannot be read");
  Result<Header> header = parse_header(start);
  if (!header.ok()) return file_error(path, header.error().message);
  reader.header_ = std::move(*header);

  const std::uint64_t promised = reader.header_.data_bytes();
  const std::uint64_t held = file_bytes - reader.header_.data_offset;
  if (promised != held) {
    return file_error(path, "shape " + shape_text(reader.header_.shape) + " of " +
                                std::string(name(reader.header_.type)) + " needs " +
                                std::to_string(promised) + " bytes after the header, but the file has " +
                                std::to_string(held) + (held < promised ? " (truncated?)" : ""));
  }
  reader.stream_.seekg(static_cast<std::streamoff>(reader.header_.data_offset));
  return reader;
}

Result<void> Reader::read(std::span<std::byte> raw) {
  stream_.read(reinterpret_cast<char*>(raw.data()), static_cast<std::streamsize>(raw.size()));
  if (!stream_) return file_error(path_, "the file became shorter while it was read");
  return {};
}

void Reader::rewind() {
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(header_.data_offset));
}

std::uint64_t convert(const Header& header, std::span<const std::byte> raw, DataType type,
                      std::span<std::byte> stored, Beyond beyond) {
  const bool swap = header.big_endian != (std::endian::native == std::endian::big);
  switch (header.type) {
    case ElementType::kFloat16:
      return convert_all<std::uint16_t>(swap, raw, type, stored, beyond);
    case ElementType::kFloat32:
      return convert_all<std::uint32_t>(swap, raw, type, stored, beyond);
    case ElementType::kFloat64:
      return convert_all<std::uint64_t>(swap, raw, type, stored, beyond);
    default:
      break;
  }
  return 0;
}

namespace {

/// Reads the file's elements as stored, if there are not too many.
Result<std::vector<std::byte>> read_small(Reader& reader, std::int64_t max_elements) {
  const Header& header = reader.header();
  if (header.elements > max_elements) {
    return file_error(reader.path(), "the array has " + std::to_string(header.elements) +
                                         " elements; at most " + std::to_string(max_elements) +
                                         " are needed");
  }
  std::vector<std::byte> raw(header.data_bytes());
  const Result<void> status = reader.read(raw);
  if (!status.ok()) return status.error();
  return raw;
}

}  // namespace

Result<std::vector<float>> read_floats(Reader& reader, std::int64_t max_elements, Beyond beyond) {
  const Header& header = reader.header();
  if (!is_float(header.type)) {
    return file_error(reader.path(), "the elements are " + std::string(name(header.type)) +
                                         "; float16, float32 or float64 is needed");
  }
  const Result<std::vector<std::byte>> raw = read_small(reader, max_elements);
  if (!raw.ok()) return raw.error();
  std::vector<float> values(static_cast<std::size_t>(header.elements));
  convert(header, *raw, DataType::kFloat32, std::as_writable_bytes(std::span(values)), beyond);
  return values;
}

void convert_to_bools(ElementType type, std::span<const std::byte> raw, std::vector<std::byte>& bools) {
  const std::uint32_t size = element_bytes(type);
  bools.resize(raw.size() / size);
  for (std::size_t i = 0; i < bools.size(); ++i) {
    const auto bytes = raw.subspan(i * size, size);
    const bool is_set = std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{0}; });
    bools[i] = is_set ? std::byte{1} : std::byte{0};
  }
}

namespace {

template <class Stored>
std::uint64_t load_signed(const std::byte* from, bool swap) {
  return static_cast<std::uint64_t>(
      std::int64_t{static_cast<std::make_signed_t<Stored>>(load<Stored>(from, swap))});
}

/// The integer in 64 bits. A signed one is in two's complement.
std::uint64_t load_integer(const std::byte* from, ElementType type, bool swap) {
  switch (type) {
    case ElementType::kInt8:
      return load_signed<std::uint8_t>(from, swap);
    case ElementType::kInt16:
      return load_signed<std::uint16_t>(from, swap);
    case ElementType::kInt32:
      return load_signed<std::uint32_t>(from, swap);
    case ElementType::kUint16:
      return load<std::uint16_t>(from, swap);
    case ElementType::kUint32:
      return load<std::uint32_t>(from, swap);
    case ElementType::kInt64:
    case ElementType::kUint64:
      return load<std::uint64_t>(from, swap);
    default:
      return load<std::uint8_t>(from, swap);
  }
}

}  // namespace

Result<std::vector<std::int64_t>> read_integers(Reader& reader, std::int64_t max_elements) {
  const Header& header = reader.header();
  if (!is_integer(header.type)) {
    return file_error(reader.path(),
                      "the elements are " + std::string(name(header.type)) + "; integers are needed");
  }
  const Result<std::vector<std::byte>> raw = read_small(reader, max_elements);
  if (!raw.ok()) return raw.error();
  const bool swap = header.big_endian != (std::endian::native == std::endian::big);
  const std::uint32_t size = element_bytes(header.type);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < header.elements; ++i) {
    const std::byte* const from = raw->data() + static_cast<std::size_t>(i) * size;
    const std::uint64_t bits = load_integer(from, header.type, swap);
    if (is_unsigned(header.type) && bits >> 63U != 0) {
      return file_error(reader.path(),
                        std::to_string(bits) + " at index " + std::to_string(i) + " does not fit 63 bits");
    }
    values.push_back(static_cast<std::int64_t>(bits));
  }
  return values;
}

}  // namespace vkattn::npy
