#include "generate/weights.hpp"

#include <vkattn/cache.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "decoder/files.hpp"

namespace generate {

using decoder::checked;

namespace {

constexpr std::int64_t kPiece = 1 << 21;  // elements that are read and uploaded at a time

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

vkattn::DataType type_of(vkattn::StoredType type) {
  if (type == vkattn::StoredType::kFloat16) return vkattn::DataType::kFloat16;
  return type == vkattn::StoredType::kBfloat16 ? vkattn::DataType::kBfloat16 : vkattn::DataType::kFloat32;
}

std::uint64_t bytes_of(vkattn::DataType type, std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) / vkattn::block_elements(type) * vkattn::block_bytes(type);
}

// The files that an index names, each once.
vkattn::Result<std::set<std::string>> shards_of(const std::filesystem::path& index) {
  const auto text = decoder::file_text(index);
  if (!text)
    return refusal(index.parent_path().string() + " has no model.safetensors and no " +
                   index.filename().string());
  const auto index_json = nlohmann::json::parse(*text, nullptr, false);
  const auto map = index_json.is_object() ? index_json.find("weight_map") : index_json.end();
  if (!index_json.is_object() || map == index_json.end() || !map->is_object() || map->empty())
    return refusal(index.string() + " has no weight_map");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    // A name, and no path that leads out of the folder.
    if (!file.is_string() ||
        std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>())
      return refusal(index.string() + " names no file for the tensor '" + tensor + "'");
    files.insert(file.get<std::string>());
  }
  return files;
}

}  // namespace

vkattn::Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  std::set<std::string> names = {"model.safetensors"};
  std::error_code error;
  if (!std::filesystem::exists(folder / *names.begin(), error)) {
    auto shards = shards_of(folder / "model.safetensors.index.json");
    if (!shards) return shards.error();
    names = *std::move(shards);
  }
  Checkpoint checkpoint;
  for (const std::string& name : names) {
    auto file = vkattn::SafetensorsFile::open(folder / name);
    if (!file) return file.error();
    for (const vkattn::StoredTensor& tensor : file->tensors())
      checkpoint.files_of_[tensor.name] = checkpoint.files_.size();
    checkpoint.files_.push_back(*std::move(file));
  }
  return checkpoint;
}

vkattn::Result<vkattn::SafetensorsFile*> Checkpoint::find(const std::string& name,
                                                          const std::vector<std::int64_t>& shape) {
  const auto file = files_of_.find(name);
  if (file == files_of_.end()) return refusal("the checkpoint has no tensor '" + name + "'");
  vkattn::SafetensorsFile& found = files_[file->second];
  const vkattn::StoredTensor& tensor = *found.find(name);
  if (tensor.shape != shape)
    return refusal(found.path().string() + ": the tensor '" + name + "' is " + shape_text(tensor.shape) +
                   ", and config.json makes it " + shape_text(shape));
  const vkattn::StoredType type = tensor.type;
  if (type != vkattn::StoredType::kFloat16 && type != vkattn::StoredType::kBfloat16 &&
      type != vkattn::StoredType::kFloat32)
    return refusal(found.path().string() + ": the tensor '" + name + "' is " +
                   std::string(vkattn::name(type)) + "; F16, BF16 and F32 are known");
  return &found;
}

std::int64_t Matrix::all_outputs() const {
  return std::accumulate(outputs.begin(), outputs.end(), std::int64_t{0});
}

std::uint64_t Matrix::bytes() const {
  return (bytes_of(type, all_outputs() * inputs) + 3) / 4 * 4;
}

// Finds a model's tensors in a checkpoint. The first that does not fit is kept as the refusal.
class Weights::Finder {
 public:
  Finder(const Model& model, Checkpoint& checkpoint, std::optional<vkattn::DataType> quantised,
         Weights& weights)
      : model_(model), checkpoint_(checkpoint), quantised_(quantised), weights_(weights) {
    const bool has_prefix = model.family->positions != nullptr && !checkpoint.has("wte.weight");
    prefix_ = has_prefix ? "transformer." : "";
  }

  Matrix matrix(const std::vector<std::string>& names, const std::vector<std::int64_t>& outputs,
                std::int64_t inputs) {
    return matrix(names, outputs, inputs, model_.family->is_input_first, true);
  }
  Matrix table(const char* name, std::int64_t rows, bool may_be_blocks = false) {
    return matrix({name}, {rows}, model_.width, false, may_be_blocks);
  }
  Matrix matrix(const std::vector<std::string>& names, const std::vector<std::int64_t>& outputs,
                std::int64_t inputs, bool is_input_first, bool may_be_blocks) {
    Matrix matrix;
    matrix.outputs = outputs;
    matrix.inputs = inputs;
    matrix.is_input_first = is_input_first;
    for (std::size_t i = 0; i < names.size(); ++i) {
      // A head of its own stands beside the model whose names have the prefix.
      matrix.names.push_back((names[i] == model_.family->head ? "" : prefix_) + names[i] + ".weight");
      const auto shape =
          matrix.is_input_first ? std::vector{inputs, outputs[i]} : std::vector{outputs[i], inputs};
      const auto file = checkpoint_.find(matrix.names.back(), shape);
      if (!file) {
        fail(file.error());
        return matrix;
      }
      const vkattn::DataType stored = type_of((*file)->find(matrix.names.back())->type);
      if (i > 0 && stored != matrix.stored)
        fail(refusal("the tensors '" + matrix.names.front() + "' and '" + matrix.names.back() +
                     "' have different types"));
      matrix.stored = matrix.type = stored;
    }
    if (quantised_ && may_be_blocks) quantise(matrix);
    weights_.bytes_ += matrix.bytes();
    if (matrix.bytes() > weights_.largest_.bytes) weights_.largest_ = {matrix.names.front(), matrix.bytes()};
    return matrix;
  }

  Vector vector(const std::vector<std::string>& names, const std::vector<std::int64_t>& sizes,
                float added = 0) {
    Vector vector{{}, sizes, added, weights_.vector_numbers_};
    for (std::size_t i = 0; i < names.size(); ++i) {
      vector.names.push_back(prefix_ + names[i]);
      const auto file = checkpoint_.find(vector.names.back(), {sizes[i]});
      if (!file) {
        fail(file.error());
        return vector;
      }
    }
    constexpr std::int64_t kAligned = 64;  // 256 bytes, the most that a device asks for
    const auto count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    weights_.vector_numbers_ += (count + kAligned - 1) / kAligned * kAligned;
    weights_.all_vectors_.push_back(vector);
    return vector;
  }
  Vector norm(const std::string& name) {
    return vector({name + ".weight"}, {model_.width}, model_.family->is_gemma ? 1.0F : 0.0F);
  }
  Vector norm_bias(const std::string& name) {
    return model_.family->has_means ? vector({name + ".bias"}, {model_.width}) : Vector{};
  }
  Vector biases(bool has_them, std::vector<std::string> names, const std::vector<std::int64_t>& sizes) {
    for (std::string& name : names) name += ".bias";
    return has_them ? vector(names, sizes) : Vector{};
  }

  LayerWeights layer(std::int64_t number);
  std::optional<vkattn::Error> error;

 private:
  void fail(const vkattn::Error& failed) {
    if (!error) error = failed;
  }
  void quantise(Matrix& matrix) {
    if (matrix.inputs % vkattn::block_elements(*quantised_) == 0)
      matrix.type = *quantised_;
    else
      fail(refusal("--weights " + std::string(vkattn::name(*quantised_)) + " has blocks of 32, and '" +
                   matrix.names.front() + "' has " + std::to_string(matrix.inputs) + " inputs"));
  }

  const Model& model_;
  Checkpoint& checkpoint_;
  std::optional<vkattn::DataType> quantised_;
  Weights& weights_;
  std::string prefix_;
};

LayerWeights Weights::Finder::layer(std::int64_t number) {
  const Family& family = *model_.family;
  const std::string prefix = family.layer + std::to_string(number) + ".";
  const auto named = [&](const std::vector<const char*>& names) {
    std::vector<std::string> all;
    for (const char* const name : names) all.push_back(prefix + name);
    return all;
  };
  const std::int64_t kv = model_.kv_heads * model_.head_dim;
  const std::vector<std::int64_t> qkv =
      family.qkv.size() == 1 ? std::vector{model_.qkv_width()} : std::vector{model_.query_width(), kv, kv};
  const std::vector<std::int64_t> up(family.up.size(), model_.hidden);
  const bool all = family.has_all_biases;
  LayerWeights layer;
  layer.qkv = matrix(named(family.qkv), qkv, model_.width);
  layer.qkv_bias = biases(family.has_qkv_biases, named(family.qkv), qkv);
  layer.out = matrix(named({family.out}), {model_.width}, model_.query_width());
  layer.out_bias = biases(all, named({family.out}), {model_.width});
  layer.up = matrix(named(family.up), up, model_.width);
  layer.up_bias = biases(all, named(family.up), up);
  layer.down = matrix(named({family.down}), {model_.width}, model_.hidden);
  layer.down_bias = biases(all, named({family.down}), {model_.width});
  layer.attention_norm = norm(prefix + family.attention_norm);
  layer.attention_norm_bias = norm_bias(prefix + family.attention_norm);
  layer.mlp_norm = norm(prefix + family.mlp_norm);
  layer.mlp_norm_bias = norm_bias(prefix + family.mlp_norm);
  if (family.post_attention != nullptr) layer.post_attention = norm(prefix + family.post_attention);
  if (family.post_mlp != nullptr) layer.post_mlp = norm(prefix + family.post_mlp);
  return layer;
}

vkattn::Result<Weights> Weights::find(const Model& model, Checkpoint& checkpoint,
                                      std::optional<vkattn::DataType> quantised) {
  Weights weights;
  Finder finder(model, checkpoint, quantised, weights);
  const Family& family = *model.family;
  weights.embedding = finder.table(family.embedding, model.vocabulary);
  if (family.positions != nullptr) weights.positions = finder.table(family.positions, model.context);
  for (std::int64_t i = 0; i < model.layers && !finder.error; ++i) weights.layers.push_back(finder.layer(i));
  weights.last_norm = finder.norm(family.last_norm);
  weights.last_norm_bias = finder.norm_bias(family.last_norm);
  if (!model.is_tied) weights.head_ = finder.table(family.head, model.vocabulary, true);
  if (finder.error) return *finder.error;
  if (family.positions != nullptr && weights.positions.stored != weights.embedding.stored)
    return refusal("the tables of tokens and of positions have different types");
  weights.bytes_ += static_cast<std::uint64_t>(weights.vector_numbers_) * sizeof(float);
  return weights;
}

std::vector<Matrix*> Weights::matrices() {
  std::vector<Matrix*> all = {&embedding, &positions, &head_};
  for (LayerWeights& layer : layers) all.insert(all.end(), {&layer.qkv, &layer.out, &layer.up, &layer.down});
  std::erase_if(all, [](const Matrix* matrix) { return matrix->names.empty(); });
  std::ranges::stable_sort(all, std::ranges::greater(), &Matrix::bytes);
  return all;
}

namespace {

// Uploads matrices piece by piece. Blocks are made on the device, from a piece in its stored type.
class Uploader {
 public:
  Uploader(const vkattn::Runtime& runtime, Checkpoint& checkpoint)
      : runtime_(runtime), checkpoint_(checkpoint), plans_(runtime) {}

  void upload(Matrix& matrix) {
    std::int64_t first = 0;  // element of the whole matrix
    for (std::size_t part = 0; part < matrix.names.size(); ++part) {
      const std::int64_t outputs = matrix.outputs[part], elements = outputs * matrix.inputs;
      const bool turns = matrix.is_input_first && matrix.type != matrix.stored;
      const auto shape =
          matrix.is_input_first ? std::vector{matrix.inputs, outputs} : std::vector{outputs, matrix.inputs};
      vkattn::SafetensorsFile& file = *checked(checkpoint_.find(matrix.names[part], shape));
      if (turns) {
        upload_turned(matrix, file, matrix.names[part]);
      } else {
        const vkattn::StoredTensor& tensor = *file.find(matrix.names[part]);
        const std::size_t size = vkattn::block_bytes(matrix.stored);
        for (std::int64_t at = 0; at < elements; at += kPiece) {
          std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kPiece, elements - at)) * size);
          checked(file.read_part(tensor, static_cast<std::uint64_t>(at) * size, bytes));
          write(matrix, first + at, bytes, matrix.stored);
        }
      }
      first += elements;
    }
  }

 private:
  // Blocks lie along the inputs, so a matrix with the inputs first is turned.
  void upload_turned(const Matrix& matrix, vkattn::SafetensorsFile& file, const std::string& name) {
    const std::vector<float> stored = checked(file.read_floats(name));
    const auto inputs = static_cast<std::size_t>(matrix.inputs), outputs = stored.size() / inputs;
    const std::size_t rows = std::max<std::size_t>(kPiece / inputs, 1);
    std::vector<float> piece;
    for (std::size_t output = 0; output < outputs; ++output) {
      for (std::size_t i = 0; i < inputs; ++i) piece.push_back(stored[i * outputs + output]);
      if ((output + 1) % rows != 0 && output + 1 != outputs) continue;
      const std::size_t first = (output + 1) * inputs - piece.size();
      write(matrix, static_cast<std::int64_t>(first), std::as_bytes(std::span(piece)),
            vkattn::DataType::kFloat32);
      piece.clear();
    }
  }

  void write(const Matrix& matrix, std::int64_t first, std::span<const std::byte> bytes,
             vkattn::DataType type) {
    const std::uint64_t offset = bytes_of(matrix.type, first);
    if (type == matrix.type) return checked(runtime_.write(matrix.buffer, offset, bytes));
    constexpr std::int64_t kBlock = 32;
    const auto rows = static_cast<std::int64_t>(bytes.size()) / vkattn::block_bytes(type) / kBlock;
    if (piece_.size() < bytes.size()) piece_ = checked(runtime_.create_buffer(bytes.size()));
    checked(runtime_.write(piece_, 0, bytes));
    const vkattn::Strides strides{0, 0, kBlock, 1};
    vkattn::AppendTensors tensors;
    tensors.key = piece_.range();
    tensors.cache_key = matrix.buffer.range(offset);
    const decoder::Step step = plans_.step(
        vkattn::quantise_desc({1, 1, rows, kBlock}, {type, strides, 0}, {matrix.type, strides, 0}), tensors);
    plans_.compile();
    (void)checked(runtime_.execute([&](VkCommandBuffer commands) { step.record(commands, {}); }));
  }

  const vkattn::Runtime& runtime_;
  Checkpoint& checkpoint_;
  decoder::PlansOf<vkattn::AppendDesc> plans_;
  vkattn::Buffer piece_;
};

}  // namespace

void Weights::allocate(const vkattn::Runtime& runtime) {
  for (Matrix* const matrix : matrices()) matrix->buffer = checked(runtime.create_buffer(matrix->bytes()));
  vectors_ = checked(runtime.create_buffer(static_cast<std::uint64_t>(vector_numbers_) * sizeof(float)));
}

void Weights::upload(const vkattn::Runtime& runtime, Checkpoint& checkpoint,
                     const std::function<void(double)>& on_progress) {
  std::vector<float> numbers(static_cast<std::size_t>(vector_numbers_));
  for (const Vector& vector : all_vectors_) {
    auto at = numbers.begin() + static_cast<std::ptrdiff_t>(vector.offset);
    for (std::size_t part = 0; part < vector.names.size(); ++part) {
      auto& file = *checked(checkpoint.find(vector.names[part], {vector.sizes[part]}));
      for (const float number : checked(file.read_floats(vector.names[part]))) *at++ = number + vector.added;
    }
  }
  checked(runtime.write(vectors_, 0, std::as_bytes(std::span(numbers))));
  Uploader uploader(runtime, checkpoint);
  std::uint64_t done = 0;
  for (Matrix* const matrix : matrices()) {
    on_progress(static_cast<double>(done) / static_cast<double>(bytes_));
    uploader.upload(*matrix);
    done += matrix->bytes();
  }
}

}  // namespace generate
