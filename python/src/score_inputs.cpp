// Options and arrays of a call: see score_inputs.hpp.
#include "score_inputs.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <utility>

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

void set_window(AttentionDesc& desc, const py::object& given) {
  using Side = std::optional<std::int64_t>;
  const auto [left, right] = given.cast<std::pair<Side, Side>>();
  desc.window = {left.value_or(kUnlimited), right.value_or(kUnlimited)};
}

void set_softcap(AttentionDesc& desc, const py::object& given) {
  desc.softcap = static_cast<float>(given.cast<double>());
}

/// `given` is True, False or an array of slopes.
void set_alibi(AttentionDesc& desc, const py::object& given) {
  if (py::isinstance<py::array>(given)) {
    desc.alibi = Alibi::kGiven;
  } else if (given.cast<bool>()) {
    desc.alibi = Alibi::kStandard;
  }
}

/// Comes after alibi in the table.
void set_alibi_times_mask(AttentionDesc& desc, const py::object& given) {
  if (!given.cast<bool>()) return;
  if (desc.alibi != Alibi::kGiven)
    fail("alibi_times_mask is True but alibi is no array of slopes; give both");
  desc.alibi = Alibi::kTimesMask;
}

void set_sinks(AttentionDesc& desc, const py::object&) {
  desc.has_sinks = true;
}

/// A keyword that changes scores (a row of MODIFIERS in Python), and how it sets a descriptor. A keyword that
/// may be an array has a row of kScoreTensors too.
struct Modifier {
  const char* name;
  void (*set)(AttentionDesc& desc, const py::object& given);
};

constexpr std::array kModifiers = {
    Modifier{"window", &set_window}, Modifier{"softcap", &set_softcap},
    Modifier{"alibi", &set_alibi},   Modifier{"alibi_times_mask", &set_alibi_times_mask},
    Modifier{"sinks", &set_sinks},
};

constexpr std::array kScoreTensors = {
    ScoreTensor{"mask", &AttentionTensors::mask, &HostTensors::mask},
    ScoreTensor{"kv_lengths", &AttentionTensors::kv_lengths, &HostTensors::kv_lengths},
    ScoreTensor{"cumulative_query_lengths", &AttentionTensors::cumulative_query_lengths,
                &HostTensors::cumulative_query_lengths},
    ScoreTensor{"cumulative_kv_lengths", &AttentionTensors::cumulative_kv_lengths,
                &HostTensors::cumulative_kv_lengths},
    ScoreTensor{"alibi", &AttentionTensors::alibi_slopes, &HostTensors::alibi_slopes,
                &BackwardTensors::grad_alibi_slopes, &BackwardDesc::has_grad_alibi_slopes},
    ScoreTensor{"sinks", &AttentionTensors::sinks, &HostTensors::sinks, &BackwardTensors::grad_sinks,
                &BackwardDesc::has_grad_sinks},
};

/// Sets the keywords that are neither arrays nor modifiers.
void set_options(AttentionDesc& desc, const ScoreOptions& options) {
  desc.causal = options.is_causal;
  set_align(desc, options.align);
  if (options.scale) desc.scale = static_cast<float>(*options.scale);
  desc.dropout = static_cast<float>(options.dropout);
  desc.has_lse = options.has_lse;
  desc.weights = stage_of(options.weights);
}

}  // namespace

std::span<const ScoreTensor> score_tensors() {
  return kScoreTensors;
}

ScoreInputs::ScoreInputs(const ScoreOptions& options, AttentionDesc& desc) {
  set_options(desc, options);
  if (options.mask) {
    const Extents scores = {desc.batch, desc.query_heads, desc.query_length, desc.kv_length};
    desc.mask = set_mask(*options.mask, scores, desc.kv_heads);
  }
  if (options.kv_lengths) {
    lists_["kv_lengths"] = {*options.kv_lengths, desc.batch, "kv_lengths", "each batch entry"};
    desc.kv_lengths = Lengths::kPerEntry;
  }
  for (const auto& [name, given] : {std::pair("cumulative_query_lengths", &options.cumulative_query_lengths),
                                    std::pair("cumulative_kv_lengths", &options.cumulative_kv_lengths)})
    if (*given) lists_[name] = {**given, desc.batch + 1, name, "each sequence, and one for the end"};
  for (const auto& [name, given] : options.modifiers)
    set_modifier(name.cast<std::string>(), py::reinterpret_borrow<py::object>(given), desc);
}

void ScoreInputs::set_modifier(const std::string& name, const py::object& given, AttentionDesc& desc) {
  const auto row = std::ranges::find(kModifiers, name, &Modifier::name);
  if (row == kModifiers.end()) fail("the native module has no modifier of scores that is called " + name);
  row->set(desc, given);
  if (py::isinstance<py::array>(given))
    lists_[row->name] = {given.cast<py::array>(), desc.query_heads, row->name, "each query head"};
}

/// Fewer heads are taken in turn, but those of the keys are refused: they stand for groups of query heads.
MaskDesc ScoreInputs::set_mask(const py::array& mask, const Extents& scores, std::int64_t kv_heads) {
  mask_ = InputArray(mask, "mask");
  Strides strides = mask_.strides();
  const std::array<std::int64_t*, 4> all = {&strides.batch, &strides.head, &strides.row, &strides.dim};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t size = mask_.extents()[i];
    const bool are_divisor = i == 1 && size > 0 && scores[i] % size == 0;
    const bool are_heads_in_turn = are_divisor && size != kv_heads;
    if (size != 1 && size != scores[i] && !are_heads_in_turn) {
      fail("mask of shape " + shape_text(mask_.extents()) + " does not broadcast to the scores, " +
           shape_text(scores) +
           (are_divisor
                ? "; a mask may have fewer heads that divide these, but not those of the keys: repeat "
                  "it for each query head"
                : ""));
    }
    mask_repeats_[i] = size == 1 && scores[i] != 1;
    if (mask_repeats_[i]) *all[i] = 0;
  }
  return {mask_type(mask), strides, mask_.extents()[1]};
}

void ScoreInputs::add_to(HostTensors& tensors) const {
  tensors.mask = mask_.bytes();
  for (const ScoreTensor& tensor : score_tensors()) {
    const auto list = lists_.find(tensor.name);
    if (list != lists_.end()) tensors.*tensor.host = list->second.bytes();
  }
}

void register_score_inputs(py::module_& module) {
  using OptionalArray = ScoreOptions::OptionalArray;
  py::class_<ScoreOptions>(module, "ScoreOptions")
      .def(py::init([](bool is_causal, std::variant<std::int64_t, std::string> align,
                       std::optional<double> scale, double dropout, bool has_lse, std::string weights,
                       OptionalArray mask, OptionalArray kv_lengths, OptionalArray cumulative_query_lengths,
                       OptionalArray cumulative_kv_lengths, std::int64_t longest_query,
                       std::int64_t longest_kv, py::dict modifiers) {
             return ScoreOptions{is_causal,
                                 std::move(align),
                                 scale,
                                 dropout,
                                 has_lse,
                                 std::move(weights),
                                 std::move(mask),
                                 std::move(kv_lengths),
                                 std::move(cumulative_query_lengths),
                                 std::move(cumulative_kv_lengths),
                                 longest_query,
                                 longest_kv,
                                 std::move(modifiers)};
           }),
           py::arg("is_causal"), py::arg("align"), py::arg("scale"), py::arg("dropout"), py::arg("has_lse"),
           py::arg("weights"), py::arg("mask"), py::arg("kv_lengths"), py::arg("cumulative_query_lengths"),
           py::arg("cumulative_kv_lengths"), py::arg("longest_query"), py::arg("longest_kv"),
           py::arg("modifiers"));
}

}  // namespace vkattn::python
