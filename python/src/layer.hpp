// Multi-head attention as a layer, with its parameters on the device.
#pragma once

#include <pybind11/numpy.h>

#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache.hpp"
#include "device_arrays.hpp"
#include "score_inputs.hpp"
#include "session.hpp"

namespace vkattn::python {

/// The arrays of one call of a layer.
struct LayerArrays {
  using OptionalArray = std::optional<pybind11::array>;
  pybind11::array query;  ///< (batch, query_length, d_model)
  OptionalArray key;      ///< not given: LayerInputs::kSelf
  OptionalArray value;    ///< only key given: LayerInputs::kCross
  OptionalArray counts;   ///< int32, with a cache: new rows of each batch entry
};

/// The options of one call of a layer.
struct LayerOptions {
  ScoreOptions scores;
  bool has_averaged_weights = false;
  bool saves = false;
  std::uint64_t seed = 0;
  std::shared_ptr<Cache> cache;  ///< null: none
  std::int64_t kv_length = 0;    ///< with a cache: most keys of a batch entry
};

/// The sizes of a parameter's array.
[[nodiscard]] std::vector<std::int64_t> dimensions(const ParameterShape& parameter);

/// The tensors of a call that the backward pass needs, on the device. The layer has the parameters.
struct SavedCall {
  std::shared_ptr<Session> session;  // outlives the buffers
  MultiHeadAttentionDesc desc;
  MultiHeadAttentionTensors tensors;
  std::vector<Buffer> buffers;
};

/// A layer's parameters and its two passes.
class Layer {
 public:
  /// `desc` has the sizes that all calls share.
  Layer(std::shared_ptr<Session> session, const MultiHeadAttentionDesc& desc,
        const std::optional<pybind11::array>& frequencies);

  /// The sizes that all calls share.
  [[nodiscard]] const MultiHeadAttentionDesc& desc() const { return desc_; }
  [[nodiscard]] const std::vector<ParameterShape>& shapes() const { return shapes_; }
  void initialise(std::uint64_t seed);
  /// Both copy an array without gaps, of the parameter's shape and type.
  void write(const std::string& name, const pybind11::array& array);
  [[nodiscard]] pybind11::array read(const std::string& name) const;
  /// All parameters, each by its name behind `prefix`. If one does not fit, load() changes none.
  void load(const std::filesystem::path& path, const std::string& prefix);
  void save(const std::filesystem::path& path, const std::string& prefix) const;

  /// Returns (a dictionary of `output` and, if asked for, `weights`; SavedCall or None).
  [[nodiscard]] pybind11::tuple forward(const LayerArrays& arrays, const LayerOptions& options) const;
  /// Returns a dictionary of gradients: of `query`, of `key` and `value` if the call had them, and of the
  /// parameters by their names.
  [[nodiscard]] pybind11::dict backward(const SavedCall& saved, const pybind11::array& grad_output) const;

 private:
  [[nodiscard]] const ParameterShape& shape_of(const std::string& name) const;
  [[nodiscard]] MultiHeadAttentionDesc call_desc(const LayerArrays& arrays,
                                                 const LayerOptions& options) const;
  void write_all(const std::map<std::string, std::vector<float>>& values);
  [[nodiscard]] MultiHeadAttentionParameters ranges() const;
  [[nodiscard]] DataType parameter_type() const { return *desc_.parameter_type; }

  std::shared_ptr<Session> session_;  // outlives the buffers
  MultiHeadAttentionDesc desc_;
  std::vector<ParameterShape> shapes_;
  std::map<std::string, Buffer, std::less<>> buffers_;
  Buffer frequencies_;
};

}  // namespace vkattn::python
