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

/// What one call of a layer is given.
struct LayerArrays {
  using OptionalArray = std::optional<pybind11::array>;
  pybind11::array query;  ///< (batch, query_length, d_model)
  OptionalArray key;      ///< not given: LayerInputs::kSelf
  OptionalArray value;    ///< not given, but key: LayerInputs::kCross
  OptionalArray counts;   ///< int32, the new rows of each batch entry, where there is a cache
};

/// And how.
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

/// What the backward pass needs of a call, on the device; the parameters are the layer's.
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

  /// What all calls share.
  [[nodiscard]] const MultiHeadAttentionDesc& desc() const { return desc_; }
  [[nodiscard]] const std::vector<ParameterShape>& shapes() const { return shapes_; }
  void initialise(std::uint64_t seed);
  /// Copies from and to arrays without gaps, of the parameter's shape and type.
  void write(const std::string& name, const pybind11::array& array);
  [[nodiscard]] pybind11::array read(const std::string& name) const;
  /// All parameters, each by its name behind `prefix`. None is changed where one does not fit.
  void load(const std::filesystem::path& path, const std::string& prefix);
  void save(const std::filesystem::path& path, const std::string& prefix) const;

  /// (a dictionary of `output` and, where asked for, `weights`; SavedCall or None).
  [[nodiscard]] pybind11::tuple forward(const LayerArrays& arrays, const LayerOptions& options) const;
  /// A dictionary of the gradients of `query`, of `key` and `value` where the call had them, and of the
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
