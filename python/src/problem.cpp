// Problems: see problem.hpp. Rules of shapes stand here, as a descriptor has one number for what two arrays
// say; all others are validate()'s.
#include "problem.hpp"

#include <pybind11/stl.h>

#include <string_view>

#include "errors.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

void require_equal(const char* what, const char* a_name, std::int64_t a, const char* b_name, std::int64_t b) {
  if (a == b) return;
  fail(std::string(a_name) + " and " + b_name + " differ in " + what + ": " + std::to_string(a) + " and " +
       std::to_string(b));
}

void set_align(AttentionDesc& desc, const std::variant<std::int64_t, std::string>& align) {
  if (const auto* offset = std::get_if<std::int64_t>(&align)) {
    desc.align = Align::kOffset;
    desc.offset = *offset;
    return;
  }
  const std::string& name = std::get<std::string>(align);
  if (name == "bottom-right") {
    desc.align = Align::kBottomRight;
  } else if (name != "top-left") {
    fail("align is '" + name + "' but must be 'top-left', 'bottom-right' or a key position");
  }
}

WeightsStage stage_of(std::string_view name) {
  if (name.empty()) return WeightsStage::kNone;
  if (name == "scores") return WeightsStage::kScores;
  if (name == "softcap") return WeightsStage::kSoftcap;
  if (name == "masked") return WeightsStage::kMasked;
  if (name == "probabilities") return WeightsStage::kProbabilities;
  fail("return_weights is '" + std::string(name) +
       "' but must be 'scores', 'softcap', 'masked' or 'probabilities'");
}

MaskType mask_type(const py::array& mask) {
  const py::dtype type = mask.dtype();
  if (type.kind() == 'f' && type.itemsize() == 2) return MaskType::kFloat16;
  return type.kind() == 'f' ? MaskType::kFloat32 : MaskType::kBytes;
}

}  // namespace

void set_options(AttentionDesc& desc, const Options& options) {
  desc.causal = options.is_causal;
  set_align(desc, options.align);
  if (options.scale) desc.scale = static_cast<float>(*options.scale);
  desc.window = {options.window.first.value_or(kUnlimited), options.window.second.value_or(kUnlimited)};
  desc.softcap = static_cast<float>(options.softcap);
  if (options.standard_alibi) desc.alibi = Alibi::kStandard;
  desc.dropout = static_cast<float>(options.dropout);
  desc.has_lse = options.has_lse;
  desc.weights = stage_of(options.weights);
}

Problem::Problem(const py::array& query, const py::array& key, const py::array& value,
                 const OptionalArray& mask, const OptionalArray& kv_lengths,
                 const OptionalArray& alibi_slopes, const OptionalArray& sinks, const Options& options)
    : query_(query, "query"), key_(key, "key"), value_(value, "value") {
  desc_.query.type = desc_.output.type = element_type(query, "query");
  desc_.key.type = element_type(key, "key");
  desc_.value.type = element_type(value, "value");
  set_sizes();
  set_options(desc_, options);
  if (mask) set_mask(*mask);
  if (kv_lengths) {
    kv_lengths_ = list_of(*kv_lengths, desc_.batch, "kv_lengths", "each batch entry");
    desc_.kv_lengths = Lengths::kPerEntry;
  }
  if (alibi_slopes) {
    alibi_slopes_ = list_of(*alibi_slopes, desc_.query_heads, "alibi", "each query head");
    desc_.alibi = Alibi::kGiven;
  }
  if (sinks) {
    sinks_ = list_of(*sinks, desc_.query_heads, "sinks", "each query head");
    desc_.has_sinks = true;
  }
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

void Problem::set_mask(const py::array& mask) {
  const Extents scores = {desc_.batch, desc_.query_heads, desc_.query_length, desc_.kv_length};
  mask_ = InputArray(mask, "mask");
  desc_.mask.type = mask_type(mask);
  Strides strides = mask_.strides();
  const std::array<std::int64_t*, 4> all = {&strides.batch, &strides.head, &strides.row, &strides.dim};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t size = mask_.extents()[i];
    if (size != 1 && size != scores[i]) {
      fail("mask of shape " + shape_text(mask_.extents()) + " does not broadcast to the scores, " +
           shape_text(scores));
    }
    mask_repeats_[i] = size == 1 && scores[i] != 1;
    if (mask_repeats_[i]) *all[i] = 0;
  }
  desc_.mask.strides = strides;
}

AttentionDesc Problem::dense_desc() const {
  AttentionDesc desc = desc_;
  for (const auto& [tensor, array] :
       {std::pair(&desc.query, &query_), std::pair(&desc.key, &key_), std::pair(&desc.value, &value_)}) {
    const Extents& extents = array->extents();
    const bool repeats_batch = array->strides().batch == 0 && extents[0] > 1;
    tensor->strides = dense_strides(extents, {repeats_batch, false, false, false});
  }
  if (desc.mask.type != MaskType::kNone) desc.mask.strides = dense_strides(mask_.extents(), mask_repeats_);
  return desc;
}

HostTensors Problem::host_tensors() const {
  HostTensors tensors;
  tensors.query = query_.bytes();
  tensors.key = key_.bytes();
  tensors.value = value_.bytes();
  tensors.mask = mask_.bytes();
  if (kv_lengths_) tensors.kv_lengths = bytes_of(*kv_lengths_);
  if (alibi_slopes_) tensors.alibi_slopes = bytes_of(*alibi_slopes_);
  if (sinks_) tensors.sinks = bytes_of(*sinks_);
  return tensors;
}

std::vector<std::int64_t> Problem::output_shape() const {
  return {desc_.batch, desc_.query_heads, desc_.query_length, desc_.value_dim};
}
std::vector<std::int64_t> Problem::lse_shape() const {
  return {desc_.batch, desc_.query_heads, desc_.query_length};
}
std::vector<std::int64_t> Problem::weights_shape() const {
  return {desc_.batch, desc_.query_heads, desc_.query_length, desc_.kv_length};
}

void register_problem(py::module_& module) {
  py::class_<Options>(module, "Options")
      .def(py::init(
               [](bool is_causal, std::variant<std::int64_t, std::string> align, std::optional<double> scale,
                  std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> window, double softcap,
                  bool standard_alibi, double dropout, bool has_lse, std::string weights) {
                 return Options{is_causal,      std::move(align), scale,   std::move(window), softcap,
                                standard_alibi, dropout,          has_lse, std::move(weights)};
               }),
           py::arg("is_causal"), py::arg("align"), py::arg("scale"), py::arg("window"), py::arg("softcap"),
           py::arg("standard_alibi"), py::arg("dropout"), py::arg("has_lse"), py::arg("weights"));
  py::class_<Problem>(module, "Problem")
      .def(py::init<const py::array&, const py::array&, const py::array&, const Problem::OptionalArray&,
                    const Problem::OptionalArray&, const Problem::OptionalArray&,
                    const Problem::OptionalArray&, const Options&>(),
           py::arg("query"), py::arg("key"), py::arg("value"), py::arg("mask").none(true),
           py::arg("kv_lengths").none(true), py::arg("alibi_slopes").none(true), py::arg("sinks").none(true),
           py::arg("options"));
}

}  // namespace vkattn::python
