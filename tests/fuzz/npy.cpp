// .npy files: whatever its bytes are, a file is read as its header says, or is refused.
#include <array>
#include <span>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "npy.hpp"
#include "npy_lengths.hpp"

namespace {

using namespace vkattn;
using fuzz::require;

void check_header(const npy::Header& header, std::size_t file_bytes) {
  require(header.data_offset <= file_bytes, "the data begin in the file");
  std::int64_t elements = 1;
  for (const std::int64_t size : header.shape) {
    require(size >= 0 && !__builtin_mul_overflow(elements, size, &elements), "the shape has a product");
  }
  require(header.elements == elements, "elements are the product of the shape");
  if (header.big_endian || header.fortran_order) return;
  const auto again = npy::parse_header(npy::make_header(header.type, header.shape));
  require(again.ok() && again->type == header.type && again->shape == header.shape,
          "a header that was written is read as the same");
}

void read_values(npy::Reader& reader) {
  const npy::Header header = reader.header();
  std::vector<std::byte> raw(header.data_bytes());
  require(reader.read(raw).ok(), "a file of the right size can be read");
  if (npy::is_float(header.type)) {
    std::vector<std::byte> stored(static_cast<std::size_t>(header.elements) * 4);
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      require(npy::convert(header, raw, type, stored) <= static_cast<std::uint64_t>(header.elements),
              "no more values overflow than there are");
      require(npy::convert(header, raw, type, stored, npy::Beyond::kLargest) == 0, "none has to");
    }
  }
  reader.rewind();
  const auto floats = npy::read_floats(reader, header.elements);
  require(floats.ok() == npy::is_float(header.type), "floats are read, and nothing else as such");
  reader.rewind();
  const auto integers = npy::read_integers(reader, header.elements);
  require(!integers.ok() || integers->size() == static_cast<std::size_t>(header.elements),
          "as many integers are read as there are");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  static const std::filesystem::path path = folder.path() / "array.npy";
  const std::string_view bytes = fuzz::text_of(data, size);
  if (const auto header = npy::parse_header(bytes); header.ok()) check_header(*header, size);
  fuzz::write_file(path, bytes);
  auto reader = npy::Reader::open(path);
  if (!reader.ok()) return 0;
  read_values(*reader);
  (void)npy::read_lengths(path, "--kv-lengths", reader->header().elements, 100, "keys");
  const auto cumulative = npy::read_cumulative_lengths(path, "--cumulative-kv-lengths");
  if (!cumulative.ok()) return 0;
  for (const std::int32_t length : npy::lengths_of(*cumulative))
    require(length >= 0, "no length is negative");
  return 0;
}
