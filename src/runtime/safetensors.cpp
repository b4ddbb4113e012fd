// Files of named tensors: see safetensors.hpp.
#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <vkattn/data_type.hpp>

#include "common/json_reader.hpp"
#include "common/message.hpp"
#include "common/path_text.hpp"
#include "runtime/files.hpp"
#include "runtime/input_file.hpp"
#include "runtime/safetensors_header.hpp"

namespace vkattn {

namespace {

constexpr std::uint64_t kLengthBytes = 8;

Error about_file(const std::filesystem::path& path, ErrorCode code, const std::string& what) {
  return {code, 0, detail::message(detail::path_text(path), ": ", what)};
}

Error unreadable(const std::filesystem::path& path, std::string_view why) {
  return about_file(path, ErrorCode::kIo, detail::message("cannot be read: ", why));
}

constexpr std::string_view kCut = "the file became shorter";

std::uint64_t length_of(const std::array<char, kLengthBytes>& bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8U | static_cast<unsigned char>(bytes[i]);
  return length;
}

// The header's text, and how many bytes of data follow it.
struct HeaderText {
  std::string text;
  std::uint64_t data_bytes = 0;
};

Result<HeaderText> read_header_text(const std::filesystem::path& path, std::ifstream& stream,
                                    std::uintmax_t file_bytes) {
  const auto refuse = [&](const std::string& what) {
    return about_file(path, ErrorCode::kInvalidArgument, what);
  };
  if (file_bytes < kLengthBytes)
    return refuse(detail::message("has ", file_bytes, " bytes, too few for the length of a header"));
  std::array<char, kLengthBytes> start{};
  if (!stream.read(start.data(), start.size())) return unreadable(path, kCut);
  const std::uint64_t length = length_of(start);
  if (length > kMaxSafetensorsHeaderBytes)
    return refuse(detail::message("its header takes ", length, " bytes, more than the ",
                                  kMaxSafetensorsHeaderBytes,
                                  " that are read; perhaps it is no safetensors file"));
  if (length > file_bytes - kLengthBytes)
    return refuse(detail::message("its header takes ", length, " bytes, but the file has ",
                                  file_bytes - kLengthBytes, " behind the header's length"));
  HeaderText header{std::string(static_cast<std::size_t>(length), '\0'), file_bytes - kLengthBytes - length};
  if (!stream.read(header.text.data(), static_cast<std::streamsize>(length))) return unreadable(path, kCut);
  return header;
}

bool is_float(StoredType type) {
  return type == StoredType::kFloat16 || type == StoredType::kBfloat16 || type == StoredType::kFloat32;
}

float float_at(StoredType type, const std::byte* at) {
  float value = 0;
  std::uint16_t bits = 0;
  if (type == StoredType::kFloat32) return std::memcpy(&value, at, sizeof value), value;
  std::memcpy(&bits, at, sizeof bits);
  return type == StoredType::kFloat16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

// Largest elements first, then by name, as the format's own writer sorts.
std::vector<const TensorToStore*> in_stored_order(std::span<const TensorToStore> tensors) {
  std::vector<const TensorToStore*> sorted;
  for (const TensorToStore& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, [](const TensorToStore* a, const TensorToStore* b) {
    return a->type != b->type ? a->type > b->type : a->name < b->name;
  });
  return sorted;
}

Result<void> check_to_store(const TensorToStore& tensor) {
  if (tensor.name == "__metadata__")
    return detail::invalid("no tensor can have the name '__metadata__', which the format keeps for itself");
  if (static_cast<std::size_t>(tensor.type) > static_cast<std::size_t>(StoredType::kUint64))
    return detail::invalid("tensor ", detail::quoted_name(tensor.name), " has a type that is none");
  const std::optional<std::uint64_t> bytes = detail::stored_bytes(tensor.type, tensor.shape);
  if (bytes != tensor.bytes.size())
    return detail::invalid("tensor ", detail::quoted_name(tensor.name), " of shape ",
                           detail::shape_text(tensor.shape), " and dtype ", name(tensor.type), " takes ",
                           bytes ? detail::message(*bytes) : "no number of", " bytes, and was given ",
                           tensor.bytes.size());
  return {};
}

// Checks that the header is read back as the same. This finds names that occur twice, or are not UTF-8.
Result<void> check_to_write(std::string_view header, const std::vector<StoredTensor>& tensors,
                            const std::map<std::string, std::string>& metadata) {
  if (header.size() > kMaxSafetensorsHeaderBytes)
    return detail::invalid("its header would take ", header.size(), " bytes, and ",
                           kMaxSafetensorsHeaderBytes, " are the most");
  const std::uint64_t data_bytes = tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes;
  const auto again = detail::parse_safetensors_header(header, data_bytes);
  if (!again) return again.error();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (again->tensors[i] != tensors[i])
      return detail::invalid("the name of tensor ", detail::quoted_name(tensors[i].name), " is not UTF-8");
  }
  if (again->metadata != metadata) return detail::invalid("its metadata are not UTF-8");
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  return detail::without_exceptions([&]() -> Result<SafetensorsFile> {
    SafetensorsFile file;
    file.path_ = path;
    auto input = detail::open_input(path);
    if (!input) return unreadable(path, input.error().message);
    file.stream_ = std::move(input->stream);
    Result<HeaderText> text = read_header_text(path, file.stream_, input->bytes);
    if (!text) return text.error();
    file.data_offset_ = kLengthBytes + text->text.size();
    auto header = detail::parse_safetensors_header(text->text, text->data_bytes);
    if (!header) return about_file(path, header.error().code, header.error().message);
    file.tensors_ = std::move(header->tensors);
    file.metadata_ = std::move(header->metadata);
    return file;
  });
}

namespace {

// The shards that the text of an index names. Errors have no path.
Result<std::set<std::filesystem::path>> shards_of(std::string_view index) {
  std::set<std::filesystem::path> shards;
  std::optional<std::string> unnamed;  // the tensor of a shard that is none
  detail::JsonReader json(index);
  const auto read_shard = [&](std::string_view tensor) {
    std::string name;
    if (!json.read(name)) return false;
    const std::filesystem::path shard(std::u8string(name.begin(), name.end()));
    // No path that leads out of the folder.
    if (!shard.has_filename() || shard.filename() != shard || shard == "." || shard == "..") unnamed = tensor;
    shards.insert(shard);
    return !unnamed;
  };
  const bool is_read = json.object([&](std::string_view member) {
    return member == "weight_map" ? json.object(read_shard) : json.skip();
  });
  if (unnamed) return detail::invalid("names no file for the tensor ", detail::quoted_name(*unnamed));
  if (!is_read || !json.is_at_end())
    return detail::invalid("is no index of shards: it is wrong at byte ", json.byte());
  if (shards.empty()) return detail::invalid("has no weight_map that names shards");
  return shards;
}

// Refuses a tensor that two files have, as readers take the first of a name.
Result<void> check_names(const std::vector<SafetensorsFile>& files) {
  std::map<std::string_view, const SafetensorsFile*> found;
  for (const SafetensorsFile& file : files) {
    for (const StoredTensor& tensor : file.tensors()) {
      const auto [first, is_new] = found.try_emplace(tensor.name, &file);
      if (!is_new)
        return about_file(file.path(), ErrorCode::kInvalidArgument,
                          detail::message("has the tensor ", detail::quoted_name(tensor.name), ", which ",
                                          detail::path_text(first->second->path().filename()), " has too"));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<SafetensorsFile>> SafetensorsFile::open_folder(const std::filesystem::path& folder) {
  return detail::without_exceptions([&]() -> Result<std::vector<SafetensorsFile>> {
    std::set<std::filesystem::path> names = {"model.safetensors"};
    const std::filesystem::path index = folder / "model.safetensors.index.json";
    std::error_code error;
    // A link that leads nowhere is there: open() says that it cannot be read.
    if (!std::filesystem::exists(std::filesystem::symlink_status(folder / *names.begin(), error))) {
      const auto text = detail::read_input(index, kMaxSafetensorsHeaderBytes);
      if (!text && text.error().code == ErrorCode::kNotFound)
        return about_file(folder, ErrorCode::kNotFound,
                          "has no model.safetensors and no model.safetensors.index.json");
      if (!text) return unreadable(index, text.error().message);
      auto shards = shards_of(*text);
      if (!shards) return about_file(index, shards.error().code, shards.error().message);
      names = *std::move(shards);
    }
    std::vector<SafetensorsFile> files;
    for (const std::filesystem::path& name : names) {
      auto file = open(folder / name);
      if (!file) return file.error();
      files.push_back(*std::move(file));
    }
    if (Result<void> s = check_names(files); !s) return s.error();
    return files;
  });
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  return found != tensors_.end() ? &*found : nullptr;
}

Result<void> SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> bytes) {
  return detail::without_exceptions([&]() -> Result<void> {
    if (bytes.size() != tensor.bytes)
      return about_file(path_, ErrorCode::kInvalidArgument,
                        detail::message("tensor ", detail::quoted_name(tensor.name), " takes ", tensor.bytes,
                                        " bytes, and there is room for ", bytes.size()));
    return read_part(tensor, 0, bytes);
  });
}

Result<void> SafetensorsFile::read_part(const StoredTensor& tensor, std::uint64_t first,
                                        std::span<std::byte> bytes) {
  return detail::without_exceptions([&]() -> Result<void> {
    if (first > tensor.bytes || bytes.size() > tensor.bytes - first)
      return about_file(
          path_, ErrorCode::kInvalidArgument,
          detail::message("tensor ", detail::quoted_name(tensor.name), " takes ", tensor.bytes,
                          " bytes, and ", bytes.size(), " from byte ", first, " on were asked for"));
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(data_offset_ + tensor.offset + first));
    stream_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!stream_) return unreadable(path_, kCut);
    return {};
  });
}

Result<std::vector<float>> SafetensorsFile::read_floats(std::string_view name,
                                                        std::optional<std::span<const std::int64_t>> shape) {
  return detail::without_exceptions([&]() -> Result<std::vector<float>> {
    const auto refuse = [&](const auto&... what) {
      return about_file(path_, ErrorCode::kInvalidArgument, detail::message(what...));
    };
    const StoredTensor* const tensor = find(name);
    if (tensor == nullptr) return refuse("has no tensor ", detail::quoted_name(name));
    if (shape && !std::ranges::equal(*shape, tensor->shape))
      return refuse("tensor ", detail::quoted_name(name), " has the shape ",
                    detail::shape_text(tensor->shape), ", not ", detail::shape_text(*shape));
    if (!is_float(tensor->type))
      return refuse("tensor ", detail::quoted_name(name), " has the dtype ", vkattn::name(tensor->type),
                    "; floats are F16, BF16 and F32");
    std::vector<std::byte> stored(static_cast<std::size_t>(tensor->bytes));
    if (Result<void> status = read(*tensor, stored); !status) return status.error();
    const std::size_t size = element_bytes(tensor->type);
    std::vector<float> values(stored.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = float_at(tensor->type, stored.data() + i * size);
    return values;
  });
}

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const TensorToStore> tensors,
                               const std::map<std::string, std::string>& metadata) {
  return detail::without_exceptions([&]() -> Result<void> {
    std::vector<StoredTensor> stored;
    std::vector<std::string_view> pieces(2);
    std::uint64_t end = 0;
    for (const TensorToStore* const tensor : in_stored_order(tensors)) {
      if (Result<void> status = check_to_store(*tensor); !status)
        return about_file(path, status.error().code, status.error().message);
      stored.push_back({tensor->name, tensor->type, tensor->shape, end, tensor->bytes.size()});
      pieces.emplace_back(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
      end += tensor->bytes.size();
    }
    const std::string header = detail::safetensors_header_text(stored, metadata);
    if (Result<void> status = check_to_write(header, stored, metadata); !status)
      return about_file(path, status.error().code, status.error().message);
    std::array<char, kLengthBytes> length{};
    for (std::size_t i = 0; i < length.size(); ++i)
      length[i] = static_cast<char>(static_cast<unsigned char>(header.size() >> 8U * i));
    pieces[0] = {length.data(), length.size()};
    pieces[1] = header;
    return detail::replace_file(path, pieces);
  });
}

}  // namespace vkattn
