// Reads and writes NumPy .npy files; the project has no other code for it. Format: NumPy's documentation of
// numpy.lib.format, versions 1.0, 2.0 and 3.0. Arrays are read in pieces, so a file need not fit into memory.
#pragma once

#include <vkattn/data_type.hpp>
#include <vkattn/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atomic_file.hpp"

namespace vkattn::npy {

enum class ElementType {
  kBool,
  kFloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64
};

[[nodiscard]] std::uint32_t element_bytes(ElementType type);
/// NumPy's own name of the type: float16, int32, bool and so on.
[[nodiscard]] std::string_view name(ElementType type);
[[nodiscard]] bool is_float(ElementType type);
[[nodiscard]] bool is_unsigned(ElementType type);
/// Signed and unsigned integers. bool is not an integer.
[[nodiscard]] bool is_integer(ElementType type);

struct Header {
  ElementType type = ElementType::kFloat32;
  bool big_endian = false;
  bool fortran_order = false;  ///< the first index runs fastest
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;      ///< the product of the shape
  std::uint64_t data_offset = 0;  ///< offset of the first element in the file

  [[nodiscard]] std::uint64_t data_bytes() const {
    return static_cast<std::uint64_t>(elements) * element_bytes(type);
  }
};

/// The longest header that is read. NumPy writes 118 bytes for most arrays and by default reads at most
/// 10,000.
inline constexpr std::uint32_t kMaxHeaderBytes = 65536;

/// Reads magic, version and dictionary from the first bytes of a file. `start` must reach to the end of the
/// header. Anything that NumPy would read differently is an error.
[[nodiscard]] Result<Header> parse_header(std::string_view start);

/// A shape as Python prints it, such as (2, 8, 512, 64).
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// An open file. Its header is valid, and its size is the one that the header promises. Messages start with
/// the path.
class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::filesystem::path& path);

  [[nodiscard]] const Header& header() const { return header_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Reads the next elements as stored. `raw` must hold a whole number of elements.
  [[nodiscard]] Result<void> read(std::span<std::byte> raw);
  /// Goes back to the first element.
  void rewind();

 private:
  Reader() = default;
  std::filesystem::path path_;
  std::ifstream stream_;
  Header header_;
};

/// What a finite value becomes that is too large for a storage type.
enum class Beyond {
  kInfinity,  ///< for elements of tensors
  kLargest,   ///< the largest finite number, for numbers added to scores, where minus infinity hides a key
};

/// Converts floats from a file to the storage type of a tensor. Each is rounded once, to nearest even.
/// Returns the number of finite values that became infinite. `stored` must have room for as many elements as
/// `raw` holds.
std::uint64_t convert(const Header& header, std::span<const std::byte> raw, DataType type,
                      std::span<std::byte> stored, Beyond beyond = Beyond::kInfinity);

/// Reads all values of a file of at most `max_elements` floats.
[[nodiscard]] Result<std::vector<float>> read_floats(Reader& reader, std::int64_t max_elements,
                                                     Beyond beyond = Beyond::kInfinity);

/// One byte for each element of a file of bools or integers: 1 if the element is not 0.
void convert_to_bools(ElementType type, std::span<const std::byte> raw, std::vector<std::byte>& bools);

/// Reads all values of a file of at most `max_elements` integers. A value that does not fit 63 bits is an
/// error that names it.
[[nodiscard]] Result<std::vector<std::int64_t>> read_integers(Reader& reader, std::int64_t max_elements);

/// The first bytes of a version 1.0 file in C order and in this machine's byte order.
[[nodiscard]] std::string make_header(ElementType type, std::span<const std::int64_t> shape);

}  // namespace vkattn::npy
