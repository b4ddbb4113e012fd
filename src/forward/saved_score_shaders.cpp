// Score functions as bytes: a header of ours, then what ScoreShaders gives, each text and binary after its
// size.
#include <vkattn/score_shaders.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "common/checksum.hpp"
#include "common/message.hpp"
#include "vkattn_core_shaders.hpp"
#include "vkattn_shader_sources.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::array<char, 8> kMagic{'v', 'k', 'a', 't', 't', 'n', 'S', '1'};

struct BlobHeader {
  std::array<char, 8> magic = kMagic;
  std::array<char, 32> sources{};  ///< hash of the shaders' sources that the binaries were made of
  std::uint64_t data_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(BlobHeader) == 56);

BlobHeader header_for(std::span<const std::byte> data) {
  BlobHeader header;
  static_assert(kShaderSourcesHash.size() >= header.sources.size());
  std::copy_n(kShaderSourcesHash.begin(), header.sources.size(), header.sources.begin());
  header.data_bytes = data.size();
  header.checksum = checksum(data);
  return header;
}

class Writer {
 public:
  void add(std::uint32_t number) { add_bytes(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    add_bytes(std::as_bytes(std::span(text)));
  }
  void add(std::span<const std::uint32_t> words) {
    add(static_cast<std::uint32_t>(words.size()));
    add_bytes(std::as_bytes(words));
  }
  [[nodiscard]] std::vector<std::byte> blob() const {
    const BlobHeader header = header_for(bytes_);
    const auto head = std::as_bytes(std::span(&header, 1));
    std::vector<std::byte> all(head.begin(), head.end());
    all.insert(all.end(), bytes_.begin(), bytes_.end());
    return all;
  }

 private:
  void add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> bytes_;
};

/// Reads zeros beyond the end, and notices that.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint32_t number() {
    std::uint32_t value = 0;
    const auto bytes = take(sizeof(value));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  [[nodiscard]] std::string text() {
    const auto bytes = take(number());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::vector<std::uint32_t> words() {
    const auto bytes = take(std::size_t{number()} * sizeof(std::uint32_t));
    std::vector<std::uint32_t> all(bytes.size() / sizeof(std::uint32_t));
    if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  /// Whether the bytes held everything that was read, and no more.
  [[nodiscard]] bool is_whole() const { return !failed_ && bytes_.empty(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

class SavedScoreShaders final : public ScoreShaders {
 public:
  [[nodiscard]] bool read(Reader& reader) {
    name_ = reader.text();
    hides_keys_ = reader.number() != 0;
    buffers_.resize(std::min<std::size_t>(reader.number(), kMaxScoreBuffers));
    for (ScoreBuffer& buffer : buffers_) {
      buffer.name = reader.text();
      const std::uint32_t type = reader.number();
      if (type > static_cast<std::uint32_t>(ScoreBufferType::kUint)) return false;
      buffer.type = static_cast<ScoreBufferType>(type);
    }
    for (std::uint32_t left = reader.number(); left > 0 && !reader.failed(); --left) {
      std::string shader = reader.text();
      binaries_[std::move(shader)] = reader.words();
    }
    return reader.is_whole();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override { return buffers_; }
  [[nodiscard]] bool hides_keys() const noexcept override { return hides_keys_; }
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(
      std::string_view shader) const noexcept override {
    if (const auto found = binaries_.find(shader); found != binaries_.end()) {
      return std::span<const std::uint32_t>(found->second);
    }
    return without_exceptions([&]() -> Result<std::span<const std::uint32_t>> {
      return unsupported("the score function ", name_, " was saved without the shader ", shader);
    });
  }

 private:
  std::string name_;
  std::vector<ScoreBuffer> buffers_;
  bool hides_keys_ = false;
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> binaries_;
};

Error not_usable(const char* why) {
  return invalid("these bytes are no score function for this library: ", why,
                 "; make them again with save_score_shaders()");
}

// Binaries that score functions are part of.
std::vector<std::string> shaders_with_scores() {
  std::vector<std::string> names;
  for (const ShaderBinary& binary : shader_binaries()) {
    if (binary.is_built() && binary.name.ends_with("_features")) names.emplace_back(binary.name);
  }
  return names;
}

Result<std::vector<std::byte>> save(const ScoreShaders& function, std::vector<std::string> shaders) {
  const bool all = shaders.empty();
  if (all) shaders = shaders_with_scores();
  std::vector<std::pair<std::string_view, std::span<const std::uint32_t>>> made;
  Result<std::span<const std::uint32_t>> last = std::span<const std::uint32_t>();
  for (const std::string& shader : shaders) {
    last = function.binary(shader);
    // If all are asked for, shaders that do not compile are left out; lack of memory is an error.
    if (!last && (!all || last.error().code == ErrorCode::kOutOfMemory)) return last.error();
    if (last) made.emplace_back(shader, *last);
  }
  if (made.empty()) return last.error();
  Writer writer;
  writer.add(function.name());
  writer.add(std::uint32_t{function.hides_keys()});
  writer.add(static_cast<std::uint32_t>(function.buffers().size()));
  for (const ScoreBuffer& buffer : function.buffers()) {
    writer.add(std::string_view(buffer.name));
    writer.add(static_cast<std::uint32_t>(buffer.type));
  }
  writer.add(static_cast<std::uint32_t>(made.size()));
  for (const auto& [shader, words] : made) {
    writer.add(shader);
    writer.add(words);
  }
  return writer.blob();
}

Result<Shared<const ScoreShaders>> load(std::span<const std::byte> saved) {
  BlobHeader header;
  if (saved.size() < sizeof(header)) return not_usable("they are too few");
  std::memcpy(&header, saved.data(), sizeof(header));
  const std::span<const std::byte> data = saved.subspan(sizeof(header));
  const BlobHeader expected = header_for(data);
  if (header.magic != expected.magic) return not_usable("they begin with something else");
  if (header.data_bytes != expected.data_bytes) return not_usable("they are cut off");
  if (header.checksum != expected.checksum) return not_usable("their checksum is wrong");
  if (header.sources != expected.sources) return not_usable("they were made with other shaders");
  auto function = std::make_shared<SavedScoreShaders>();
  Reader reader(data);
  if (!function->read(reader)) return not_usable("they hold something else");
  return Shared<const ScoreShaders>(std::move(function));
}

}  // namespace

}  // namespace detail

Result<std::vector<std::byte>> save_score_shaders(const ScoreShaders& function,
                                                  std::span<const std::string> shaders) {
  return detail::without_exceptions([&]() -> Result<std::vector<std::byte>> {
    return detail::save(function, {shaders.begin(), shaders.end()});
  });
}

Result<Shared<const ScoreShaders>> load_score_shaders(std::span<const std::byte> saved) {
  return detail::without_exceptions([&] { return detail::load(saved); });
}

}  // namespace vkattn
