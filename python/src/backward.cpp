// Gradients of attention on arrays in host memory, in one call.
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_arrays.hpp"
#include "module.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The names of the gradients that are wanted.
using Wanted = std::set<std::string, std::less<>>;

/// The forward pass's results, and their gradients.
struct Past {
  py::array output;
  py::array lse;
  InputArray grad_output;
  DataType grad_output_type;
  std::optional<py::array> grad_lse;
};

Past past_of(const Problem& problem, const py::array& output, const py::array& lse,
             const py::array& grad_output, const std::optional<py::array>& grad_lse) {
  const std::vector<std::int64_t> shape = problem.output_shape();
  const auto require_shape = [](const py::array& array, const std::vector<std::int64_t>& wanted,
                                const char* name) {
    const std::span given(array.shape(), static_cast<std::size_t>(array.ndim()));
    if (std::equal(given.begin(), given.end(), wanted.begin(), wanted.end())) return;
    fail(std::string(name) + " has the shape " + shape_text(given) + " but the forward pass gives " +
         shape_text(wanted));
  };
  require_shape(output, shape, "output");
  require_shape(lse, problem.lse_shape(), "lse");
  require_shape(grad_output, shape, "grad_output");
  Past past{without_gaps(output), without_gaps(lse), InputArray(grad_output, "grad_output"),
            element_type(grad_output, "grad_output"), std::nullopt};
  if (grad_lse) {
    require_shape(*grad_lse, problem.lse_shape(), "grad_lse");
    past.grad_lse = without_gaps(*grad_lse);
  }
  return past;
}

BackwardDesc backward_desc(const Problem& problem, const Past& past, const Wanted& wanted) {
  BackwardDesc desc;
  AttentionDesc& attention = desc.attention = problem.desc();
  attention.has_lse = true;
  attention.weights = WeightsStage::kNone;
  desc.has_grad_lse = past.grad_lse.has_value();
  desc.has_grad_query = wanted.contains("query");
  desc.has_grad_key = wanted.contains("key");
  desc.has_grad_value = wanted.contains("value");
  desc.has_grad_mask = wanted.contains("mask");
  for (const ScoreTensor& tensor : score_tensors())
    if (tensor.has_gradient) desc.*tensor.has_gradient = wanted.contains(tensor.name);
  desc.grad_output = TensorDesc{past.grad_output_type, past.grad_output.strides()};
  desc.grad_query = TensorDesc{attention.query.type, dense_strides(problem.query_extents())};
  desc.grad_key = TensorDesc{attention.key.type, dense_strides(problem.key_extents())};
  desc.grad_value = TensorDesc{attention.value.type, dense_strides(problem.value_extents())};
  if (desc.has_grad_mask) {
    const DataType type = attention.mask.type == MaskType::kFloat16 ? DataType::kFloat16 : DataType::kFloat32;
    desc.grad_mask = TensorDesc{type, dense_strides(problem.mask_extents(), problem.mask_repeats())};
  }
  return desc;
}

/// A gradient that is copied from the device.
struct Gradient {
  std::string name;
  BufferRange BackwardTensors::*tensor;
  py::array array;
  std::span<std::byte> bytes;
};

std::vector<Gradient> new_gradients(const Problem& problem, const BackwardDesc& desc) {
  std::vector<Gradient> gradients;
  const auto add = [&](std::string_view name, bool wanted, BufferRange BackwardTensors::*tensor,
                       DataType type, const std::vector<std::int64_t>& shape) {
    if (!wanted) return;
    py::array array = new_array(type, shape);
    const std::span<std::byte> bytes = writable_bytes_of(array);
    gradients.push_back({std::string(name), tensor, std::move(array), bytes});
  };
  const auto shape_of = [](const Extents& e) { return std::vector<std::int64_t>(e.begin(), e.end()); };
  const std::vector<std::int64_t> heads = {desc.attention.query_heads};
  using T = BackwardTensors;
  add("query", desc.has_grad_query, &T::grad_query, desc.grad_query->type, shape_of(problem.query_extents()));
  add("key", desc.has_grad_key, &T::grad_key, desc.grad_key->type, shape_of(problem.key_extents()));
  add("value", desc.has_grad_value, &T::grad_value, desc.grad_value->type, shape_of(problem.value_extents()));
  if (desc.grad_mask)
    add("mask", true, &T::grad_mask, desc.grad_mask->type, shape_of(problem.mask_extents()));
  for (const ScoreTensor& tensor : score_tensors()) {
    if (tensor.has_gradient)
      add(tensor.name, desc.*tensor.has_gradient, tensor.gradient, DataType::kFloat32, heads);
  }
  return gradients;
}

/// What the forward pass has written, and the gradients of that. They belong to arrays.
struct PastBytes {
  std::span<const std::byte> output, lse, grad_output, grad_lse;

  explicit PastBytes(const Past& past)
      : output(bytes_of(past.output)), lse(bytes_of(past.lse)), grad_output(past.grad_output.bytes()) {
    if (past.grad_lse) grad_lse = bytes_of(*past.grad_lse);
  }
};

/// Executes a plan once; `session` keeps the plan.
void execute(const Runtime& runtime, const BackwardPlan& plan, const HostTensors& host, const PastBytes& past,
             const std::vector<Gradient>& gradients) {
  RunMemory memory(runtime);
  BackwardTensors tensors;
  AttentionTensors& forward = tensors.forward;
  forward.dropout_seed = host.dropout_seed;
  forward.query = memory.upload(host.query.bytes());
  forward.key = memory.upload(host.key.bytes());
  forward.value = memory.upload(host.value.bytes());
  forward.output = memory.upload(past.output);
  forward.lse = memory.upload(past.lse);
  for (const ScoreTensor& tensor : score_tensors())
    forward.*tensor.range = memory.upload((host.*tensor.host).bytes());
  tensors.grad_output = memory.upload(past.grad_output);
  tensors.grad_lse = memory.upload(past.grad_lse);
  for (const Gradient& gradient : gradients) tensors.*gradient.tensor = memory.result(gradient.bytes);
  const Buffer workspace = take(runtime.create_workspace(plan));
  const Bindings bindings = take(plan.make_bindings(tensors, workspace.range()));
  take(runtime.execute([&](VkCommandBuffer commands) { plan.record(commands, bindings); }));
  memory.read_results();
}

/// Returns a dictionary of the wanted gradients, each without gaps.
py::dict backward(Session& session, const Problem& problem, const std::string& kernel, std::uint64_t seed,
                  const py::array& output, const py::array& lse, const py::array& grad_output,
                  const std::optional<py::array>& grad_lse, const Wanted& wanted) {
  const Past past = past_of(problem, output, lse, grad_output, grad_lse);
  const BackwardDesc desc = backward_desc(problem, past, wanted);
  take(validate(desc));
  const std::vector<Gradient> gradients = new_gradients(problem, desc);
  HostTensors host = problem.host_tensors();
  host.dropout_seed = seed;
  const PastBytes bytes(past);  // taken here, as the interpreter is unlocked below
  if (desc.attention.batch > 0 && desc.attention.query_heads > 0) {
    session.use([&](const Runtime& runtime) {
      execute(runtime, session.plan(desc, kernel), host, bytes, gradients);
    });
  } else {
    for (const Gradient& gradient : gradients)  // empty sums
      std::fill(gradient.bytes.begin(), gradient.bytes.end(), std::byte{0});
  }
  py::dict all;
  for (const Gradient& gradient : gradients) all[py::str(gradient.name)] = gradient.array;
  return all;
}

}  // namespace

void register_backward(py::module_& module) {
  module.def("backward", &backward, py::arg("session"), py::arg("problem"), py::arg("kernel"),
             py::arg("seed"), py::arg("output"), py::arg("lse"), py::arg("grad_output"), py::arg("grad_lse"),
             py::arg("wanted"));
}

}  // namespace vkattn::python
