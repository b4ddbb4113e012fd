// safetensors: whatever its bytes are, a file is refused, or its tensors cover its data. If those are written
// again, the same is read. As the index of a model's folder they name no file that is one of its shards.
#include <vkattn/safetensors.hpp>

#include <span>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace {

using namespace vkattn;
using fuzz::require;

bool is_float(StoredType type) {
  return type == StoredType::kFloat16 || type == StoredType::kBfloat16 || type == StoredType::kFloat32;
}

using Contents = std::vector<std::vector<std::byte>>;

/// The bytes of all tensors in their order.
Contents read_all(SafetensorsFile& file, std::uint64_t file_bytes) {
  Contents contents;
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    require(tensor.offset == end, "there is no overlap and no hole");
    end += tensor.bytes;
    require(end <= file_bytes, "tensors lie in the file");
    std::vector<std::byte>& bytes = contents.emplace_back(static_cast<std::size_t>(tensor.bytes));
    require(file.read(tensor, bytes).ok(), "a tensor of a sound file can be read");
    const auto floats = file.read_floats(tensor.name, tensor.shape);
    require(floats.ok() == is_float(tensor.type), "floats are read, and nothing else as such");
    require(!floats.ok() || floats->size() * element_bytes(tensor.type) == tensor.bytes,
            "as many floats are read as there are");
  }
  return contents;
}

void write_again(const SafetensorsFile& file, const Contents& contents, const std::filesystem::path& path) {
  std::vector<TensorToStore> tensors;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const StoredTensor& tensor = file.tensors()[i];
    tensors.push_back({tensor.name, tensor.type, tensor.shape, contents[i]});
  }
  require(write_safetensors(path, tensors, file.metadata()).ok(), "what was read can be written");
  auto again = SafetensorsFile::open(path);
  require(again.ok(), "what was written can be read");
  require(again->metadata() == file.metadata(), "metadata are read as they were written");
  for (const TensorToStore& tensor : tensors) {
    const StoredTensor* const found = again->find(tensor.name);
    require(found != nullptr && found->type == tensor.type && found->shape == tensor.shape,
            "a tensor is read as it was written");
    std::vector<std::byte> bytes(tensor.bytes.size());
    require(again->read(*found, bytes).ok(), "a tensor that was written can be read");
    require(std::equal(bytes.begin(), bytes.end(), tensor.bytes.begin()), "its bytes are the same");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  static const std::filesystem::path path = folder.path() / "model.safetensors";
  static const std::filesystem::path index = folder.path() / "sharded" / "model.safetensors.index.json";
  std::filesystem::create_directories(index.parent_path());
  fuzz::write_file(index, fuzz::text_of(data, size));
  require(!SafetensorsFile::open_folder(index.parent_path()).ok(),
          "no shard lies in the folder, or is read from another");
  fuzz::write_file(path, fuzz::text_of(data, size));
  auto file = SafetensorsFile::open(path);
  if (!file.ok()) return 0;
  const Contents contents = read_all(*file, size);
  write_again(*file, contents, folder.path() / "again.safetensors");
  return 0;
}
