// NumPy .npy files: the one reader and writer of this project. Format: NumPy's documentation of
// numpy.lib.format, versions 1.0, 2.0 and 3.0. Arrays are read in pieces, so that no file has to fit into
// memory.
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
/// NumPy's own name: float16, int32, bool and so on.
[[nodiscard]] std::string_view name(ElementType type);
[[nodiscard]] bool is_float(ElementType type);
[[nodiscard]] bool is_unsigned(ElementType type);
/// Of either sign; bool is none.
[[nodiscard]] bool is_integer(ElementType type);

struct Header {
  ElementType type = ElementType::kFloat32;
  bool big_endian = false;
  bool fortran_order = false;  ///< the first index runs fastest
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;      ///< the product of the shape
  std::uint64_t data_offset = 0;  ///< where the elements start in the file

  [[nodiscard]] std::uint64_t data_bytes() const {
    return static_cast<std::uint64_t>(elements) * element_bytes(type);
  }
};

/// Longest header that is read. NumPy writes 118 bytes for most arrays and reads 10,000 at most by default.
inline constexpr std::uint32_t kMaxHeaderBytes = 65536;

/// Reads magic, version and dictionary from the first bytes of a file: `start` has to reach to the end of the
/// header. Every other reading of the format than NumPy's own is an error.
[[nodiscard]] Result<Header> parse_header(std::string_view start);

/// (2, 8, 512, 64), as Python prints it.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// An open file whose header is sound and whose size is what the header promises. Messages start with the
/// path.
class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::filesystem::path& path);

  [[nodiscard]] const Header& header() const { return header_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The next elements as stored; `raw` holds a whole number of them.
  [[nodiscard]] Result<void> read(std::span<std::byte> raw);
  /// Back to the first element.
  void rewind();

 private:
  Reader() = default;
  std::filesystem::path path_;
  std::ifstream stream_;
  Header header_;
};

/// What a finite value becomes that a storage type has no room for.
enum class Beyond {
  kInfinity,  ///< of elements
  kLargest,   ///< the largest finite number: of what scores meet, where minus infinity hides a key
};

/// Floats from a file to the storage type of a tensor, rounded once, to nearest even. Gives the number of
/// finite values that became infinite. `stored` has room for as many elements as `raw` holds.
std::uint64_t convert(const Header& header, std::span<const std::byte> raw, DataType type,
                      std::span<std::byte> stored, Beyond beyond = Beyond::kInfinity);

/// All values of a file of floats of up to `max_elements`.
[[nodiscard]] Result<std::vector<float>> read_floats(Reader& reader, std::int64_t max_elements,
                                                     Beyond beyond = Beyond::kInfinity);

/// One byte for each element of bools or integers: 1 where it is not 0.
void convert_to_bools(ElementType type, std::span<const std::byte> raw, std::vector<std::byte>& bools);

/// All values of a file of integers of up to `max_elements`; one beyond 63 bits is an error that names it.
[[nodiscard]] Result<std::vector<std::int64_t>> read_integers(Reader& reader, std::int64_t max_elements);

/// The first bytes of a version 1.0 file in C order and this machine's byte order.
[[nodiscard]] std::string make_header(ElementType type, std::span<const std::int64_t> shape);

}  // namespace vkattn::npy
