#include "window/heads.hpp"

#include <vkattn/initialisation.hpp>
#include <vkattn/safetensors.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <functional>

namespace window {

namespace {

vkattn::Error about(const std::filesystem::path& path, const std::string& what) {
  return {vkattn::ErrorCode::kInvalidArgument, 0, path.string() + ": " + what};
}

int number(const vkattn::SafetensorsFile& file, const char* name) {
  const auto found = file.metadata().find(name);
  int value = 0;
  if (found == file.metadata().end()) return 0;
  const std::string& text = found->second;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  return end == text.data() + text.size() ? value : 0;
}

// Each character, whose further bytes begin with the bits 10.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) ++end;
    characters.push_back(text.substr(at, end - at));
    at = end;
  }
  return characters;
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string shown_label(std::string_view character) {
  if (character == " ") return "\xc2\xb7";
  if (character == "\n") return "\\n";
  return std::string(character);
}

// y = W x for the rows of W from `first` on.
void project(std::span<const float> x, std::span<const float> weights, std::size_t first,
             std::span<float> y) {
  for (std::size_t row = 0; row < y.size(); ++row) {
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += weights[(first + row) * x.size() + i] * x[i];
    y[row] = sum;
  }
}

// Normal numbers of standard deviation 1 / sqrt(inputs).
std::vector<float> normal_numbers(std::size_t count, std::int64_t inputs, std::uint64_t seed) {
  std::vector<float> all(count);
  vkattn::initialise(all, inputs, inputs, vkattn::Initialisation::kXavierNormal, seed);
  return all;
}

std::uint64_t seed_of(std::string_view word) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char each : word) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3U;
  return hash;
}

}  // namespace

vkattn::Result<TrainedHeads> TrainedHeads::read(const std::filesystem::path& path) {
  auto file = vkattn::SafetensorsFile::open(path);
  if (!file) return file.error();
  const auto vocabulary = file->metadata().find("vocabulary");
  const int width = number(*file, "width"), heads = number(*file, "heads"),
            context = number(*file, "context");
  if (vocabulary == file->metadata().end() || width < 1 || heads < 1 || context < 1 || width % heads != 0 ||
      width / heads > kMostDims)
    return about(path, "its metadata have no vocabulary, width, heads (of at most " +
                           std::to_string(kMostDims) +
                           " numbers) and context, as files of examples/train_text do");
  auto characters = train_text::Vocabulary::of(vocabulary->second);
  if (!characters) return about(path, characters.error().message);
  TrainedHeads made(std::move(*characters));
  made.width_ = width;
  made.heads_ = heads;
  made.context_ = std::min(context, kMostTokens);
  const std::int64_t wide = width;
  const auto read = [&](const char* name, std::int64_t rows, std::vector<float>& values) {
    const std::array<std::int64_t, 2> shape = {rows, wide};
    auto all = file->read_floats(name, shape);
    if (!all) return vkattn::Result<void>(all.error());
    values = std::move(*all);
    return vkattn::Result<void>();
  };
  if (auto status = read("token_embedding.weight", static_cast<std::int64_t>(made.vocabulary_.size()),
                         made.token_embedding_);
      !status)
    return status.error();
  if (auto status = read("position_embedding.weight", context, made.position_embedding_); !status)
    return status.error();
  if (auto status = read("blocks.0.attention.in_proj_weight", 3 * wide, made.in_proj_weight_); !status)
    return status.error();
  return made;
}

std::vector<float> TrainedHeads::input(std::uint32_t token, std::size_t position) const {
  const auto width = static_cast<std::size_t>(width_);
  std::vector<float> x(width);
  float sum = 0;
  for (std::size_t i = 0; i < width; ++i) {
    x[i] = token_embedding_[token * width + i] + position_embedding_[position * width + i];
    sum += x[i] * x[i];
  }
  for (float& each : x) each /= std::sqrt(sum / static_cast<float>(width) + 1e-6F);
  return x;
}

Rows TrainedHeads::rows(std::string_view text, int heads, int dims) const {
  Rows rows;
  std::vector<std::uint32_t> tokens;
  const auto context = static_cast<std::size_t>(context_);
  std::size_t unknown = 0, known = 0;
  for (const std::string_view character : characters_of(text)) {
    const auto token = vocabulary_.tokens(character);
    if (!token) {
      ++unknown;
    } else if (known++ < context) {
      tokens.push_back(token->front());
      rows.labels.push_back(shown_label(character));
    }
  }
  if (known > context)
    rows.note = "The first " + std::to_string(context) + " of " + counted(known, "character") +
                " are shown: these heads have learned " + std::to_string(context) + " places. ";
  if (unknown > 0)
    rows.note += counted(unknown, "character") + " left out: these heads have never seen " +
                 (unknown == 1 ? "it. " : "them. ");
  const auto count = tokens.size(), width = static_cast<std::size_t>(width_);
  const auto size = static_cast<std::size_t>(dims), own = width / static_cast<std::size_t>(heads_);
  rows.query.resize(static_cast<std::size_t>(heads) * count * size);
  rows.key.resize(rows.query.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<float> x = input(tokens[i], i);
    for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head) {
      const std::size_t first = (head * count + i) * size;
      project(x, in_proj_weight_, head * own, std::span(rows.query).subspan(first, size));
      project(x, in_proj_weight_, width + head * own, std::span(rows.key).subspan(first, size));
    }
  }
  return rows;
}

Rows seeded_rows(std::string_view text, int heads, int dims) {
  constexpr std::size_t kWidth = 64;
  Rows rows;
  std::vector<std::string_view> words = words_of(text);
  if (words.size() > kMostTokens) {
    rows.note = "The first " + std::to_string(kMostTokens) + " of " + counted(words.size(), "word") +
                " are shown: a map has at most that many rows. ";
    words.resize(kMostTokens);
  }
  const auto size = static_cast<std::size_t>(dims);
  std::vector<std::vector<float>> x;
  for (const std::string_view word : words) {
    rows.labels.emplace_back(word);
    x.push_back(normal_numbers(kWidth, 1, seed_of(word)));
  }
  for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head) {
    const std::vector<float> of_query = normal_numbers(size * kWidth, kWidth, 1000 + head);
    const std::vector<float> of_key =
        head % 2 == 0 ? of_query : normal_numbers(size * kWidth, kWidth, 2000 + head);
    for (const std::vector<float>& each : x) {
      std::vector<float> row(size);
      project(each, of_query, 0, row);
      rows.query.insert(rows.query.end(), row.begin(), row.end());
      project(each, of_key, 0, row);
      rows.key.insert(rows.key.end(), row.begin(), row.end());
    }
  }
  return rows;
}

}  // namespace window
