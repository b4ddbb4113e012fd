#include "generate/weights.hpp"

#include <algorithm>
#include <array>

#include "console.hpp"
#include "decoder/text.hpp"

namespace generate {

using decoder::checked;
using decoder::refusal;
using decoder::StoredPart;
using decoder::Tensor;

namespace {

constexpr std::int64_t kPiece = 1 << 21;  // elements that are read and uploaded at a time

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

vkattn::DataType type_of(const StoredPart& part) {
  const vkattn::StoredType type = part.tensor->type;
  if (type == vkattn::StoredType::kFloat16) return vkattn::DataType::kFloat16;
  return type == vkattn::StoredType::kBfloat16 ? vkattn::DataType::kBfloat16 : vkattn::DataType::kFloat32;
}

// Finds a model's tensors in a checkpoint. Throws the error of one that does not fit.
struct Finder {
  const Model& model;
  Checkpoint& checkpoint;
  std::optional<vkattn::DataType> quantised;
  std::string prefix = {};  // of all names, but not of a head that stands beside the model

  // Has no tensor if there is none of this name.
  [[nodiscard]] StoredPart find(const std::string& name) const {
    for (vkattn::SafetensorsFile& file : checkpoint) {
      if (const auto* const tensor = file.find(name); tensor != nullptr) return {&file, tensor};
    }
    return {};
  }
  // Refuses a tensor that is missing, or that has another shape or no floats.
  StoredPart part(const std::string& name, const std::vector<std::int64_t>& shape) {
    const StoredPart found = find(name);
    if (found.tensor == nullptr) throw refusal("the checkpoint has no tensor '" + name + "'");
    const vkattn::StoredTensor& tensor = *found.tensor;
    const std::string begin = found.file->path().string() + ": the tensor '" + name + "' is ";
    if (tensor.shape != shape)
      throw refusal(begin + shape_text(tensor.shape) + ", and config.json makes it " + shape_text(shape));
    if (tensor.type != vkattn::StoredType::kFloat16 && tensor.type != vkattn::StoredType::kBfloat16 &&
        tensor.type != vkattn::StoredType::kFloat32)
      throw refusal(begin + std::string(vkattn::name(tensor.type)) + "; F16, BF16 and F32 are known");
    return found;
  }
  Tensor vector(const std::vector<std::string>& names, const std::vector<std::int64_t>& sizes) {
    Tensor vector;
    for (std::size_t i = 0; i < names.size(); ++i) {
      vector.parts.push_back(part(prefix + names[i], {sizes[i]}));
      vector.outputs += sizes[i];
    }
    return vector;
  }
  void add_norm(const std::string& name, Tensor& gain, Tensor& bias) {
    gain = vector({name + ".weight"}, {model.width});
    gain.added = model.family->is_gemma ? 1 : 0;
    if (model.family->has_means) bias = vector({name + ".bias"}, {model.width});
  }
  Tensor matrix(const std::vector<std::string>& names, const std::vector<std::int64_t>& outputs,
                std::int64_t inputs, bool is_input_first) {
    Tensor matrix{.inputs = inputs, .is_input_first = is_input_first};
    for (std::size_t i = 0; i < names.size(); ++i) {
      matrix.parts.push_back(part(names[i] + ".weight", is_input_first ? std::vector{inputs, outputs[i]}
                                                                       : std::vector{outputs[i], inputs}));
      matrix.outputs += outputs[i];
      matrix.type = type_of(matrix.parts.front());
      if (matrix.type != type_of(matrix.parts.back()))
        throw refusal("the tensors '" + matrix.parts.front().tensor->name + "' and '" +
                      matrix.parts.back().tensor->name + "' have different types");
    }
    return matrix;
  }
  Tensor table(const std::string& name, std::int64_t rows) {
    return matrix({name}, {rows}, model.width, false);
  }
  void quantise(Tensor& matrix) {
    if (!quantised) return;
    matrix.type = *quantised;
    if (matrix.inputs % vkattn::block_elements(matrix.type) != 0)
      throw refusal("--weights " + std::string(vkattn::name(matrix.type)) + " has blocks of 32, and '" +
                    matrix.parts.front().tensor->name + "' has " + std::to_string(matrix.inputs) + " inputs");
  }
  // A matrix of a layer, and its bias if there is one.
  void add_product(const std::string& layer, const std::vector<const char*>& names,
                   const std::vector<std::int64_t>& outputs, std::int64_t inputs, Tensor& weight,
                   Tensor* bias) {
    std::vector<std::string> weights, biases;
    for (const char* const name : names) {
      weights.push_back(prefix + layer + name);
      biases.push_back(layer + name + ".bias");
    }
    weight = matrix(weights, outputs, inputs, model.family->is_input_first);
    quantise(weight);
    if (bias != nullptr) *bias = vector(biases, outputs);
  }
  decoder::Weights::Layer layer(std::int64_t number);
};

decoder::Weights::Layer Finder::layer(std::int64_t number) {
  const Family& family = *model.family;
  const std::string name = family.layer + std::to_string(number) + ".";
  const std::int64_t kv = model.kv_heads * model.head_dim, width = model.width;
  const std::vector<std::int64_t> qkv =
      family.qkv.size() == 1 ? std::vector{model.qkv_width()} : std::vector{model.query_width(), kv, kv};
  const std::vector<std::int64_t> up(family.up.size(), model.hidden);
  const auto if_any = [&](Tensor& bias) { return family.has_all_biases ? &bias : nullptr; };
  decoder::Weights::Layer made;
  Tensor none;
  add_product(name, family.qkv, qkv, width, made.qkv, family.has_qkv_biases ? &made.qkv_bias : nullptr);
  add_product(name, {family.out}, {width}, model.query_width(), made.out, if_any(made.out_bias));
  add_product(name, family.up, up, width, made.up, if_any(made.up_bias));
  add_product(name, {family.down}, {width}, model.hidden, made.down, if_any(made.down_bias));
  add_norm(name + family.attention_norm, made.attention_norm, made.attention_norm_bias);
  add_norm(name + family.mlp_norm, made.mlp_norm, made.mlp_norm_bias);
  if (family.post_attention != nullptr) add_norm(name + family.post_attention, made.post_attention, none);
  if (family.post_mlp != nullptr) add_norm(name + family.post_mlp, made.post_mlp, none);
  return made;
}

}  // namespace

vkattn::Result<Weights> Weights::find(const Model& model, Checkpoint& checkpoint,
                                      std::optional<vkattn::DataType> quantised) try {
  Weights weights;
  const Family& family = *model.family;
  Finder finder{model, checkpoint, quantised};
  // GPT-2 is published with and without a prefix before the names.
  if (family.positions != nullptr && finder.find("wte.weight").tensor == nullptr)
    finder.prefix = "transformer.";
  weights.embedding = finder.table(finder.prefix + family.embedding, model.vocabulary);
  if (family.positions != nullptr)
    weights.positions = finder.table(finder.prefix + family.positions, model.context);
  for (std::int64_t i = 0; i < model.layers; ++i) weights.layers.push_back(finder.layer(i));
  finder.add_norm(family.last_norm, weights.last_norm, weights.last_norm_bias);
  if (!model.is_tied) {
    weights.head = finder.table(family.head, model.vocabulary);
    finder.quantise(weights.head);
  }
  if (family.positions != nullptr && weights.positions.type != weights.embedding.type)
    return refusal("the tables of tokens and of positions have different types");
  const std::vector<Tensor*> all = weights.tensors();
  weights.largest_ = {"the tensor '" + all.front()->parts.front().tensor->name + "'", all.front()->bytes()};
  for (const Tensor* const each : all) weights.bytes_ += each->bytes();
  return weights;
} catch (const vkattn::Error& error) {
  return error;
}

std::vector<Tensor*> Weights::tensors() {
  std::vector<Tensor*> all = {&embedding, &positions, &head, &last_norm, &last_norm_bias};
  for (Layer& layer : layers)
    all.insert(all.end(),
               {&layer.qkv, &layer.out, &layer.up, &layer.down, &layer.qkv_bias, &layer.out_bias,
                &layer.up_bias, &layer.down_bias, &layer.attention_norm, &layer.attention_norm_bias,
                &layer.post_attention, &layer.mlp_norm, &layer.mlp_norm_bias, &layer.post_mlp});
  std::erase_if(all, [](const Tensor* tensor) { return !tensor->exists(); });
  std::ranges::stable_sort(all, std::ranges::greater(), &Tensor::bytes);
  return all;
}

namespace {

// Uploads tensors piece by piece. Blocks are made on the device, from a piece in its stored type.
class Uploader {
 public:
  explicit Uploader(const vkattn::Runtime& runtime) : runtime_(runtime), plans_(runtime) {}

  void upload(const Tensor& tensor, const vkattn::Buffer& buffer) {
    std::int64_t first = 0;  // element of the whole tensor
    for (const StoredPart& part : tensor.parts) {
      const auto size = static_cast<std::int64_t>(vkattn::element_bytes(part.tensor->type));
      const std::int64_t elements = static_cast<std::int64_t>(part.tensor->bytes) / size;
      if (!is_quantised(tensor.type) && (tensor.type != type_of(part) || tensor.added != 0)) {
        std::vector<float> numbers = checked(part.file->read_floats(part.tensor->name));
        for (float& number : numbers) number += tensor.added;
        checked(runtime_.write(buffer, static_cast<std::uint64_t>(first) * sizeof(float),
                               std::as_bytes(std::span(numbers))));
        first += elements;
        continue;
      }
      // Blocks lie along the inputs, so a matrix with the inputs first is turned, a row of blocks at a time.
      const std::int64_t outputs = elements / tensor.inputs;
      const bool turns = tensor.is_input_first && is_quantised(tensor.type);
      const std::int64_t row = turns ? kBlock * outputs : kBlock;
      const std::int64_t most = std::max<std::int64_t>(kPiece / row, 1) * row;
      for (std::int64_t at = 0; at < elements; at += most) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(most, elements - at) * size));
        checked(part.file->read_part(*part.tensor, static_cast<std::uint64_t>(at * size), bytes));
        if (is_quantised(tensor.type))
          quantise(tensor, buffer, first + (turns ? at / outputs : at), bytes, type_of(part),
                   turns ? outputs : 0);
        else
          checked(runtime_.write(buffer, static_cast<std::uint64_t>((first + at) * size), bytes));
      }
      first += elements;
    }
  }

 private:
  // Makes blocks from element `first` on, of a piece of numbers. With outputs it has so many for each input.
  void quantise(const Tensor& tensor, const vkattn::Buffer& buffer, std::int64_t first,
                std::span<const std::byte> piece, vkattn::DataType type, std::int64_t outputs) {
    const auto count = static_cast<std::int64_t>(piece.size()) / vkattn::block_bytes(type);
    vkattn::TensorExtents extents{1, 1, count / kBlock, kBlock};
    vkattn::Strides source{0, 0, kBlock, 1}, target = source;
    if (outputs > 0) {
      extents = {1, count / kBlock / outputs, outputs, kBlock};
      source = {0, kBlock * outputs, 1, outputs};
      target = {0, kBlock, tensor.inputs, 1};
    }
    if (piece_.size() < piece.size()) piece_ = checked(runtime_.create_buffer(piece.size()));
    checked(runtime_.write(piece_, 0, piece));
    vkattn::AppendTensors tensors;
    tensors.key = piece_.range();
    tensors.cache_key =
        buffer.range(static_cast<std::uint64_t>(first / kBlock) * vkattn::block_bytes(tensor.type));
    const decoder::Step step =
        plans_.step(vkattn::quantise_desc(extents, {type, source, 0}, {tensor.type, target, 0}), tensors);
    plans_.compile();
    (void)decoder::execute(runtime_, {step});
  }

  static constexpr std::int64_t kBlock = 32;
  const vkattn::Runtime& runtime_;
  decoder::PlansOf<vkattn::AppendDesc> plans_;
  vkattn::Buffer piece_;
};

}  // namespace

void Weights::allocate(const vkattn::Runtime& runtime) {
  for (Tensor* const tensor : tensors())
    tensor->range = buffers_.emplace_back(checked(runtime.create_buffer(tensor->bytes()))).range();
}

void Weights::upload(const vkattn::Runtime& runtime, const std::function<void(double)>& on_progress) {
  Uploader uploader(runtime);
  std::uint64_t done = 0;
  const std::vector<Tensor*> all = tensors();
  for (std::size_t i = 0; i < all.size(); ++i) {
    on_progress(static_cast<double>(done) / static_cast<double>(bytes_));
    uploader.upload(*all[i], buffers_[i]);
    done += all[i]->bytes();
  }
}

vkattn::Result<void> check_room(const decoder::Room& room, const Model& model, const Weights& weights,
                                const decoder::GraphOptions& options, std::uint64_t workspaces) {
  const decoder::Bytes caches = cache_bytes(model, options), numbers = number_bytes(model, options);
  return room.check(
      {weights.largest(),
       {"a layer's cache of " + std::to_string(options.context) + " keys", caches.largest},
       {"the largest buffer of a pass of " +
            vkattn::console::count(static_cast<std::uint64_t>(options.chunk), "token") + " and " +
            vkattn::console::count(static_cast<std::uint64_t>(options.texts), "prompt"),
        numbers.largest}},
      {"weights, cache, the numbers of a pass and workspaces",
       weights.bytes() + caches.all + numbers.all + workspaces});
}

}  // namespace generate
