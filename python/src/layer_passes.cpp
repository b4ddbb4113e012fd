// The two passes of a layer: see layer.hpp.
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "layer.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// Rows that a pass reads: an array of three dimensions, without gaps.
class Rows {
 public:
  Rows() = default;
  Rows(const py::array& array, const char* name, DataType type, const std::vector<std::int64_t>& shape)
      : array_(without_gaps(array)), bytes_(bytes_of(array_)) {
    const std::span given(array.shape(), static_cast<std::size_t>(array.ndim()));
    if (!std::equal(given.begin(), given.end(), shape.begin(), shape.end())) {
      fail(std::string(name) + " has the shape " + shape_text(given) + " but the layer takes " +
           shape_text(shape));
    }
    if (element_type(array, name) != type) {
      throw py::type_error(std::string(name) + " must be of the query's type, " +
                           std::string(vkattn::name(type)));
    }
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  py::array array_;
  std::span<const std::byte> bytes_;
};

std::vector<std::int64_t> query_shape(const MultiHeadAttentionDesc& desc) {
  return {desc.attention.batch, desc.attention.query_length, desc.d_model};
}
std::vector<std::int64_t> key_shape(const MultiHeadAttentionDesc& desc) {
  return {desc.attention.batch, desc.attention.kv_length, desc.key_input_dim};
}
std::vector<std::int64_t> value_shape(const MultiHeadAttentionDesc& desc) {
  return {desc.attention.batch, desc.attention.kv_length, desc.value_input_dim};
}

/// The results of a pass: Python's arrays, and their bytes for the device.
class Results {
 public:
  struct Result {
    std::string name;
    py::array array;
    std::span<std::byte> bytes;
  };

  void add(std::string name, DataType type, const std::vector<std::int64_t>& shape) {
    py::array array = new_array(type, shape);
    const std::span bytes = writable_bytes_of(array);
    all_.push_back({std::move(name), std::move(array), bytes});
  }
  /// Called without the interpreter's lock. A null range if there is no result of the name.
  [[nodiscard]] BufferRange bind(std::string_view name, RunMemory& memory) const {
    const auto found = std::ranges::find(all_, name, &Result::name);
    return found == all_.end() ? BufferRange{} : memory.result(found->bytes);
  }
  /// For empty sums.
  void fill_with_zeros() const {
    for (const Result& result : all_) std::ranges::fill(result.bytes, std::byte{0});
  }
  [[nodiscard]] py::dict arrays() const {
    py::dict all;
    for (const Result& result : all_) all[py::str(result.name)] = result.array;
    return all;
  }

 private:
  std::vector<Result> all_;
};

Results forward_results(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& heads = desc.attention;
  Results results;
  results.add("output", desc.type, query_shape(desc));
  if (desc.has_averaged_weights) {
    results.add("weights", DataType::kFloat32, {heads.batch, heads.query_length, heads.kv_length});
  } else if (heads.weights != WeightsStage::kNone) {
    results.add("weights", DataType::kFloat32,
                {heads.batch, heads.query_heads, heads.query_length, heads.kv_length});
  }
  return results;
}

Results backward_results(const MultiHeadAttentionDesc& desc, const std::vector<ParameterShape>& parameters) {
  Results results;
  results.add("query", desc.type, query_shape(desc));
  if (desc.inputs != LayerInputs::kSelf) results.add("key", desc.type, key_shape(desc));
  if (desc.inputs == LayerInputs::kSeparate) results.add("value", desc.type, value_shape(desc));
  for (const ParameterShape& each : parameters)
    results.add(std::string(each.name), *desc.parameter_type, dimensions(each));
  return results;
}

void bind_forward_results(const Results& results, const MultiHeadAttentionDesc& desc, RunMemory& memory,
                          MultiHeadAttentionTensors& tensors) {
  tensors.output = results.bind("output", memory);
  if (!desc.has_averaged_weights) {
    tensors.attention.weights = results.bind("weights", memory);
    return;
  }
  const AttentionDesc& heads = desc.attention;
  const std::int64_t weights = heads.batch * heads.query_heads * heads.query_length * heads.kv_length;
  tensors.attention.weights = memory.create(static_cast<std::size_t>(weights) * sizeof(float));
  tensors.averaged_weights = results.bind("weights", memory);
}

template <class Plan, class Tensors>
void execute_layer(const Runtime& runtime, const Plan& plan, const Tensors& tensors) {
  const Buffer workspace = take(runtime.create_workspace(plan));
  const Bindings bindings = take(plan.make_bindings(tensors, workspace.range()));
  take(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
}

}  // namespace

MultiHeadAttentionDesc Layer::call_desc(const LayerArrays& arrays, const LayerOptions& options) const {
  if (arrays.query.ndim() != 3) fail("query must be (batch, length, elements of a row)");
  MultiHeadAttentionDesc desc = desc_;
  AttentionDesc& heads = desc.attention;
  desc.type = element_type(arrays.query, "query");
  heads.batch = arrays.query.shape(0);
  heads.query_length = heads.kv_length = arrays.query.shape(1);
  if (options.cache) {
    desc.has_cache = true;
    options.cache->describe_keys(heads, options.kv_length);
  } else if (arrays.key) {
    desc.inputs = arrays.value ? LayerInputs::kSeparate : LayerInputs::kCross;
    heads.kv_length = arrays.key->ndim() == 3 ? arrays.key->shape(1) : 0;
  }
  if (arrays.counts) heads.query_lengths = Lengths::kPerEntry;
  desc.saves_for_gradients = options.saves;
  desc.has_averaged_weights = options.has_averaged_weights;
  return desc;
}

py::tuple Layer::forward(const LayerArrays& arrays, const LayerOptions& options) const {
  if (options.cache) session_->require_own(options.cache->session(), "the cache", "the layer");
  MultiHeadAttentionDesc desc = call_desc(arrays, options);
  const ScoreInputs scores(options.scores, desc.attention);
  take(validate(desc));
  desc = desc.resolved();
  const Rows query(arrays.query, "query", desc.type, query_shape(desc));
  const Rows key = arrays.key ? Rows(*arrays.key, "key", desc.type, key_shape(desc)) : Rows();
  const Rows value = arrays.value ? Rows(*arrays.value, "value", desc.type, value_shape(desc)) : Rows();
  const std::span counts = arrays.counts ? bytes_of(*arrays.counts) : std::span<const std::byte>();
  const Results results = forward_results(desc);
  const auto saved = make_of_process<SavedCall>();
  saved->session = session_;
  saved->desc = desc;
  session_->use([&](const Runtime& runtime) {
    if (desc.attention.is_empty()) return;
    const MultiHeadAttentionPlan& plan = session_->plan(desc);
    RunMemory memory(runtime);
    MultiHeadAttentionTensors& tensors = saved->tensors;
    tensors.attention.dropout_seed = options.seed;
    tensors.parameters = ranges();
    tensors.query = memory.upload(query.bytes());
    tensors.key = memory.upload(key.bytes());
    tensors.value = memory.upload(value.bytes());
    tensors.frequencies = frequencies_.range();
    upload_score_inputs(scores, memory, tensors.attention);
    tensors.attention.query_lengths = memory.upload(counts);
    if (options.cache) options.cache->add_to(tensors);
    bind_forward_results(results, desc, memory, tensors);
    if (desc.saves_for_gradients) tensors.saved = memory.create(plan.saved_bytes());
    execute_layer(runtime, plan, tensors);
    if (options.cache) options.cache->grow(desc.attention.query_length, counts);
    memory.read_results();
    if (desc.saves_for_gradients) saved->buffers = memory.take_buffers();
  });
  return py::make_tuple(results.arrays(), options.saves ? py::cast(saved) : py::none());
}

py::dict Layer::backward(const SavedCall& saved, const py::array& grad_output) const {
  session_->require_own(*saved.session, "what the call saved", "the layer");
  const MultiHeadAttentionDesc& desc = saved.desc;
  const Rows grad(grad_output, "grad_output", desc.type, query_shape(desc));
  MultiHeadAttentionBackwardDesc backward;
  backward.forward = desc;
  const Results results = backward_results(desc, shapes_);
  if (desc.attention.is_empty()) {
    results.fill_with_zeros();
    return results.arrays();
  }
  session_->use([&](const Runtime& runtime) {
    const MultiHeadAttentionBackwardPlan& plan = session_->plan(backward);
    RunMemory memory(runtime);
    MultiHeadAttentionBackwardTensors tensors;
    tensors.forward = saved.tensors;
    tensors.grad_output = memory.upload(grad.bytes());
    tensors.grad_query = results.bind("query", memory);
    tensors.grad_key = results.bind("key", memory);
    tensors.grad_value = results.bind("value", memory);
    for (const ParameterShape& each : shapes_)
      tensors.grad_parameters.*each.range = results.bind(each.name, memory);
    execute_layer(runtime, plan, tensors);
    memory.read_results();
  });
  return results.arrays();
}

}  // namespace vkattn::python
