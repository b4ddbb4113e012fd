// Problems: see problem.hpp. Only rules of shapes are here, as one number of a descriptor stands for two
// arrays; validate() has all others.
#include "problem.hpp"

#include <utility>

#include "errors.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

void require_equal(const char* what, const char* a_name, std::int64_t a, const char* b_name, std::int64_t b) {
  if (a == b) return;
  fail(std::string(a_name) + " and " + b_name + " differ in " + what + ": " + std::to_string(a) + " and " +
       std::to_string(b));
}

}  // namespace

Problem::Problem(const py::array& query, const py::array& key, const py::array& value,
                 const ScoreOptions& options)
    : query_(query, "query"), key_(key, "key"), value_(value, "value") {
  desc_.query.type = desc_.output.type = element_type(query, "query");
  desc_.key.type = element_type(key, "key");
  desc_.value.type = element_type(value, "value");
  set_sizes();
  if (options.cumulative_query_lengths) set_packed(options);
  inputs_ = ScoreInputs(options, desc_);
  take(validate(desc_));
}

void Problem::set_sizes() {
  const Extents& q = query_.extents();
  const Extents& k = key_.extents();
  const Extents& v = value_.extents();
  require_equal("batch size", "query", q[0], "key", k[0]);
  require_equal("batch size", "query", q[0], "value", v[0]);
  require_equal("heads", "key", k[1], "value", v[1]);
  require_equal("length", "key", k[2], "value", v[2]);
  require_equal("head dimension", "query", q[3], "key", k[3]);
  desc_.batch = q[0];
  desc_.query_heads = q[1];
  desc_.kv_heads = k[1];
  desc_.query_length = q[2];
  desc_.kv_length = k[2];
  desc_.head_dim = q[3];
  desc_.value_dim = v[3];
  desc_.query.strides = query_.strides();
  desc_.key.strides = key_.strides();
  desc_.value.strides = value_.strides();
}

void Problem::set_packed(const ScoreOptions& options) {
  desc_.query_lengths = desc_.kv_lengths = Lengths::kPacked;
  desc_.batch = options.cumulative_query_lengths->size() - 1;
  desc_.total_query_length = desc_.query_length;
  desc_.total_kv_length = desc_.kv_length;
  desc_.query_length = options.longest_query;
  desc_.kv_length = options.longest_kv;
}

AttentionDesc Problem::dense_desc() const {
  AttentionDesc desc = desc_;
  for (const auto& [tensor, array] :
       {std::pair(&desc.query, &query_), std::pair(&desc.key, &key_), std::pair(&desc.value, &value_)}) {
    const Extents& extents = array->extents();
    const bool repeats_batch = array->strides().batch == 0 && extents[0] > 1;
    tensor->strides = dense_strides(extents, {repeats_batch, false, false, false});
  }
  if (desc.mask.type != MaskType::kNone) desc.mask.strides = dense_strides(mask_extents(), mask_repeats());
  return desc;
}

HostTensors Problem::host_tensors() const {
  HostTensors tensors;
  tensors.query = query_.bytes();
  tensors.key = key_.bytes();
  tensors.value = value_.bytes();
  inputs_.add_to(tensors);
  return tensors;
}

std::vector<std::int64_t> Problem::output_shape() const {
  return {query_.extents()[0], desc_.query_heads, query_.extents()[2], desc_.value_dim};
}
std::vector<std::int64_t> Problem::lse_shape() const {
  return {query_.extents()[0], desc_.query_heads, query_.extents()[2]};
}
std::vector<std::int64_t> Problem::weights_shape() const {
  return {desc_.batch, desc_.query_heads, desc_.query_length, desc_.kv_length};
}

void register_problem(py::module_& module) {
  py::class_<Problem>(module, "Problem")
      .def(py::init<const py::array&, const py::array&, const py::array&, const ScoreOptions&>(),
           py::arg("query"), py::arg("key"), py::arg("value"), py::arg("options"));
}

}  // namespace vkattn::python
