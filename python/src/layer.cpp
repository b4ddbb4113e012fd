// A layer's parameters: see layer.hpp.
#include "layer.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "module.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

std::size_t bytes_of_parameter(const ParameterShape& parameter, DataType type) {
  return static_cast<std::size_t>(parameter.elements()) * element_bytes(type);
}

/// The bytes of values in their storage type.
std::vector<std::byte> rounded(const std::vector<float>& values, DataType type) {
  std::vector<std::byte> bytes(values.size() * element_bytes(type));
  if (type == DataType::kFloat32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits =
        type == DataType::kFloat16 ? float_to_half(values[i]) : float_to_bfloat16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof bits);
  }
  return bytes;
}

StoredType stored_type(DataType type) {
  if (type == DataType::kFloat16) return StoredType::kFloat16;
  return type == DataType::kBfloat16 ? StoredType::kBfloat16 : StoredType::kFloat32;
}

}  // namespace

std::vector<std::int64_t> dimensions(const ParameterShape& parameter) {
  if (parameter.columns == 0) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

Layer::Layer(std::shared_ptr<Session> session, const MultiHeadAttentionDesc& desc,
             const std::optional<py::array>& frequencies)
    : session_(std::move(session)), desc_(desc) {
  MultiHeadAttentionDesc one = desc;  // a call of one row: only the layer's own rules apply
  one.attention.query_length = one.attention.kv_length = 1;
  if (!desc.packed_weights) one.inputs = LayerInputs::kSeparate;
  take(validate(one));
  shapes_ = parameters(desc);
  InputList list;
  if (frequencies) list = {*frequencies, desc.rotary.dims / 2, "frequencies", "each pair of dims"};
  session_->use([&](const Runtime& runtime) {
    for (const ParameterShape& parameter : shapes_) {
      buffers_[std::string(parameter.name)] =
          device_buffer(runtime, bytes_of_parameter(parameter, parameter_type()));
    }
    frequencies_ = upload(runtime, list.bytes());
  });
}

const ParameterShape& Layer::shape_of(const std::string& name) const {
  const auto found = std::ranges::find(shapes_, name, &ParameterShape::name);
  if (found == shapes_.end()) take(check_parameter(desc_, name, {}));
  return *found;
}

MultiHeadAttentionParameters Layer::ranges() const {
  MultiHeadAttentionParameters all;
  for (const ParameterShape& parameter : shapes_)
    all.*parameter.range = buffers_.find(parameter.name)->second.range();
  return all;
}

void Layer::write_all(const std::map<std::string, std::vector<float>>& values) {
  session_->use([&](const Runtime& runtime) {
    for (const auto& [name, numbers] : values)
      take(runtime.write(buffers_.at(name), 0, rounded(numbers, parameter_type())));
  });
}

void Layer::initialise(std::uint64_t seed) {
  std::map<std::string, std::vector<float>> values;
  for (const ParameterShape& parameter : shapes_)
    values[std::string(parameter.name)] = initial_values(parameter, Initialisation::kXavierUniform, seed);
  write_all(values);
}

void Layer::write(const std::string& name, const py::array& array) {
  const std::span shape(array.shape(), static_cast<std::size_t>(array.ndim()));
  take(check_parameter(desc_, name, std::vector<std::int64_t>(shape.begin(), shape.end())));
  const py::array dense = without_gaps(array);
  const std::span bytes = bytes_of(dense);
  session_->use([&](const Runtime& runtime) { take(runtime.write(buffers_.at(name), 0, bytes)); });
}

py::array Layer::read(const std::string& name) const {
  py::array array = new_array(parameter_type(), dimensions(shape_of(name)));
  const std::span bytes = writable_bytes_of(array);
  session_->use([&](const Runtime& runtime) { take(runtime.read(buffers_.at(name), 0, bytes)); });
  return array;
}

void Layer::load(const std::filesystem::path& path, const std::string& prefix) {
  std::map<std::string, std::vector<float>> values;
  {
    const InterpreterUnlocked unlocked;
    SafetensorsFile file = take(SafetensorsFile::open(path));
    for (const StoredTensor& tensor : file.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      take(check_parameter(desc_, tensor.name.substr(prefix.size()), tensor.shape));
    }
    for (const ParameterShape& parameter : shapes_) {
      values[std::string(parameter.name)] =
          take(file.read_floats(prefix + std::string(parameter.name), dimensions(parameter)));
    }
  }
  write_all(values);
}

void Layer::save(const std::filesystem::path& path, const std::string& prefix) const {
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorToStore> tensors;
  session_->use([&](const Runtime& runtime) {
    for (const ParameterShape& parameter : shapes_) {
      std::vector<std::byte> bytes(bytes_of_parameter(parameter, parameter_type()));
      take(runtime.read(buffers_.find(parameter.name)->second, 0, bytes));
      contents.push_back(std::move(bytes));
      tensors.push_back({prefix + std::string(parameter.name), stored_type(parameter_type()),
                         dimensions(parameter), contents.back()});
    }
    take(write_safetensors(path, tensors));
  });
}

namespace {

MultiHeadAttentionDesc layer_desc(std::int64_t d_model, std::int64_t query_heads,
                                  std::optional<std::int64_t> kv_heads, std::optional<std::int64_t> head_dim,
                                  std::optional<std::int64_t> value_dim, std::int64_t key_input_dim,
                                  std::int64_t value_input_dim, bool has_bias,
                                  const py::dtype& parameter_type, const std::optional<RotaryDesc>& rotary) {
  MultiHeadAttentionDesc desc;
  desc.d_model = d_model;
  desc.attention.query_heads = query_heads;
  desc.attention.kv_heads = kv_heads.value_or(kUnset);
  desc.attention.head_dim = head_dim.value_or(kUnset);
  desc.attention.value_dim = value_dim.value_or(kUnset);
  desc.key_input_dim = key_input_dim;
  desc.value_input_dim = value_input_dim;
  desc.packed_weights = key_input_dim == d_model && value_input_dim == d_model;
  desc.has_input_bias = desc.has_output_bias = has_bias;
  desc.parameter_type = element_type(py::array(parameter_type, std::vector<py::ssize_t>{0}), "dtype");
  if (rotary) desc.rotary = *rotary;
  return desc;
}

}  // namespace

void register_layer(py::module_& module) {
  py::class_<SavedCall, std::shared_ptr<SavedCall>>(module, "SavedCall");
  py::class_<Layer, std::shared_ptr<Layer>>(module, "Layer")
      .def(py::init([](std::shared_ptr<Session> session, std::int64_t d_model, std::int64_t query_heads,
                       std::optional<std::int64_t> kv_heads, std::optional<std::int64_t> head_dim,
                       std::optional<std::int64_t> value_dim, std::int64_t key_input_dim,
                       std::int64_t value_input_dim, bool has_bias, const py::dtype& parameter_type,
                       const std::optional<RotaryDesc>& rotary, const std::optional<py::array>& frequencies) {
             return make_of_process<Layer>(
                 std::move(session),
                 layer_desc(d_model, query_heads, kv_heads, head_dim, value_dim, key_input_dim,
                            value_input_dim, has_bias, parameter_type, rotary),
                 frequencies);
           }),
           py::arg("session"), py::arg("d_model"), py::arg("query_heads"), py::arg("kv_heads"),
           py::arg("head_dim"), py::arg("value_dim"), py::arg("key_input_dim"), py::arg("value_input_dim"),
           py::arg("has_bias"), py::arg("parameter_type"), py::arg("rotary"), py::arg("frequencies"))
      .def_property_readonly("head_sizes",
                             [](const Layer& layer) {
                               const AttentionDesc heads = layer.desc().resolved().attention;
                               return py::make_tuple(heads.kv_heads, heads.head_dim, heads.value_dim);
                             })
      .def("names",
           [](const Layer& layer) {
             std::vector<std::string> names;
             for (const ParameterShape& parameter : layer.shapes()) names.emplace_back(parameter.name);
             return names;
           })
      .def("check",
           [](const Layer& layer, const std::string& name, const std::vector<std::int64_t>& shape) {
             take(check_parameter(layer.desc(), name, shape));
           })
      .def("initialise", &Layer::initialise)
      .def("write", &Layer::write)
      .def("read", &Layer::read)
      .def("load", &Layer::load)
      .def("save", &Layer::save)
      .def("forward",
           [](const Layer& layer, const py::array& query, const LayerArrays::OptionalArray& key,
              const LayerArrays::OptionalArray& value, const LayerArrays::OptionalArray& counts,
              const LayerOptions& options) {
             return layer.forward({query, key, value, counts}, options);
           })
      .def("backward", &Layer::backward);
  py::class_<LayerOptions>(module, "LayerOptions")
      .def(py::init([](const ScoreOptions& scores, bool has_averaged_weights, bool saves, std::uint64_t seed,
                       std::shared_ptr<Cache> cache, std::int64_t kv_length) {
             return LayerOptions{scores, has_averaged_weights, saves, seed, std::move(cache), kv_length};
           }),
           py::arg("scores"), py::arg("has_averaged_weights"), py::arg("saves"), py::arg("seed"),
           py::arg("cache").none(true), py::arg("kv_length"));
}

}  // namespace vkattn::python
