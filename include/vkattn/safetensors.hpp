/// @file
/// Files of named tensors in the format safetensors: what PyTorch and others store weights in. Part of
/// vkattn::runtime.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// Element types of the format. Elements are little-endian; this library computes with the floats of 16 and
/// 32 bits, and carries all others as bytes.
enum class StoredType : std::uint32_t {
  kBool,        ///< BOOL: a byte, 0 or 1
  kUint8,       ///< U8
  kInt8,        ///< I8
  kFloat8E5m2,  ///< F8_E5M2
  kFloat8E4m3,  ///< F8_E4M3
  kInt16,       ///< I16
  kUint16,      ///< U16
  kFloat16,     ///< F16
  kBfloat16,    ///< BF16
  kInt32,       ///< I32
  kUint32,      ///< U32
  kFloat32,     ///< F32
  kFloat64,     ///< F64
  kInt64,       ///< I64
  kUint64,      ///< U64
};

/// The format's own name: F32, BF16 and so on.
[[nodiscard]] std::string_view name(StoredType type);
/// Bytes of an element.
[[nodiscard]] std::uint32_t element_bytes(StoredType type);

/// A tensor of a file. The last dimension runs fastest, without padding.
struct StoredTensor {
  std::string name;                        ///< unique in its file
  StoredType type = StoredType::kFloat32;  ///< of its elements
  std::vector<std::int64_t> shape;         ///< empty: one element
  std::uint64_t offset = 0;                ///< of its first byte, counted from the end of the header
  std::uint64_t bytes = 0;                 ///< elements times their size

  bool operator==(const StoredTensor&) const = default;  ///< equal in every member
};

/// Longest header that is read or written, as in the format's own implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// An open file whose header was checked whole: every name once, known types, sizes that are what shape and
/// type give, and tensors that cover the data without overlap or hole, to the end of the file. Messages start
/// with the path. Tensors are read one by one, so that no file has to fit into memory. Move-only; one thread
/// at a time.
class SafetensorsFile {
 public:
  /// Errors: a file that cannot be read, or is no regular one such as a named pipe (kIo), or one that breaks
  /// a rule of the format (kInvalidArgument).
  [[nodiscard]] static Result<SafetensorsFile> open(const std::filesystem::path& path);
  /// The files of a model in a folder, as model hubs give it: model.safetensors, or without that the shards
  /// that model.safetensors.index.json names, each once, by name. Errors, besides open()'s: the folder has
  /// neither file (kNotFound), or the index is no JSON, names no shard, or gives a tensor a shard that is no
  /// file's name, or two shards have a tensor of one name (kInvalidArgument).
  [[nodiscard]] static Result<std::vector<SafetensorsFile>> open_folder(const std::filesystem::path& folder);

  /// In the order of their bytes.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// What `__metadata__` has: texts by name.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// As given to open().
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Null where there is none of this name.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  /// The tensor's bytes as they are stored; `bytes` has room for exactly these.
  [[nodiscard]] Result<void> read(const StoredTensor& tensor, std::span<std::byte> bytes);
  /// The tensor's bytes from `first` on, as many as `bytes` has room for: a large tensor piece by piece.
  [[nodiscard]] Result<void> read_part(const StoredTensor& tensor, std::uint64_t first,
                                       std::span<std::byte> bytes);
  /// A tensor of floats of 16 or 32 bits, exactly. Where a shape is given the
  /// tensor must have it. Errors: a name that is not there, another shape (both are named), another type.
  [[nodiscard]] Result<std::vector<float>> read_floats(
      std::string_view name, std::optional<std::span<const std::int64_t>> shape = {});

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  std::ifstream stream_;
  std::uint64_t data_offset_ = 0;  ///< of the first byte after the header
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to be stored; `bytes` is read during the call only.
struct TensorToStore {
  std::string name;                        ///< any UTF-8 but `__metadata__`, once in a file
  StoredType type = StoredType::kFloat32;  ///< of its elements
  std::vector<std::int64_t> shape;         ///< empty: one element
  std::span<const std::byte> bytes;        ///< as many as shape and type give
};

/// Writes a file beside the old one, which then takes its place: it is never half there. Largest elements
/// come first and then names in order, as the format's own implementation does it, so that every tensor
/// begins at a multiple of its elements' size. Errors: a tensor that breaks a rule of the format, by name
/// (kInvalidArgument), or a file that cannot be written (kIo).
[[nodiscard]] Result<void> write_safetensors(const std::filesystem::path& path,
                                             std::span<const TensorToStore> tensors,
                                             const std::map<std::string, std::string>& metadata = {});

}  // namespace vkattn
