// Options and arrays of a call: see score_inputs.hpp.
#include "score_inputs.hpp"

#include <pybind11/stl.h>

#include <string_view>

#include "errors.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

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

/// What they say of a descriptor.
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

}  // namespace

ScoreInputs::ScoreInputs(const ScoreArrays& arrays, const Options& options, AttentionDesc& desc) {
  set_options(desc, options);
  if (arrays.mask) {
    desc.mask = set_mask(*arrays.mask, {desc.batch, desc.query_heads, desc.query_length, desc.kv_length});
  }
  if (arrays.kv_lengths) {
    kv_lengths_ = {*arrays.kv_lengths, desc.batch, "kv_lengths", "each batch entry"};
    desc.kv_lengths = Lengths::kPerEntry;
  }
  if (arrays.alibi_slopes) {
    alibi_slopes_ = {*arrays.alibi_slopes, desc.query_heads, "alibi", "each query head"};
    desc.alibi = Alibi::kGiven;
  }
  if (arrays.sinks) {
    sinks_ = {*arrays.sinks, desc.query_heads, "sinks", "each query head"};
    desc.has_sinks = true;
  }
}

MaskDesc ScoreInputs::set_mask(const py::array& mask, const Extents& scores) {
  mask_ = InputArray(mask, "mask");
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
  return {mask_type(mask), strides};
}

void ScoreInputs::add_to(HostTensors& tensors) const {
  tensors.mask = mask_.bytes();
  tensors.kv_lengths = kv_lengths_.bytes();
  tensors.alibi_slopes = alibi_slopes_.bytes();
  tensors.sinks = sinks_.bytes();
}

void register_score_inputs(py::module_& module) {
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
  py::class_<ScoreArrays>(module, "ScoreArrays")
      .def(py::init([](const ScoreArrays::OptionalArray& mask, const ScoreArrays::OptionalArray& kv_lengths,
                       const ScoreArrays::OptionalArray& alibi_slopes,
                       const ScoreArrays::OptionalArray& sinks) {
             return ScoreArrays{mask, kv_lengths, alibi_slopes, sinks};
           }),
           py::arg("mask").none(true) = py::none(), py::arg("kv_lengths").none(true) = py::none(),
           py::arg("alibi_slopes").none(true) = py::none(), py::arg("sinks").none(true) = py::none());
}

}  // namespace vkattn::python
