// Outputs of `vkattn run`: see run_outputs.hpp.
#include "run_outputs.hpp"

#include <algorithm>

#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {
namespace {

using Inputs = const RunInputs&;
using Shape = std::vector<std::int64_t>;
using Paths = OutputPaths;
using Files = RunOutputs;
using Desc = BackwardDesc;
using Tensors = BackwardTensors;

npy::ElementType element_type(DataType type) {
  return type == DataType::kFloat16 ? npy::ElementType::kFloat16 : npy::ElementType::kFloat32;
}
npy::ElementType float32_type(Inputs /*inputs*/) {
  return npy::ElementType::kFloat32;
}
template <TensorDesc AttentionDesc::*tensor>
npy::ElementType as_stored(Inputs inputs) {
  return element_type((inputs.problem.desc.*tensor).type);
}

template <bool of_value>
Shape shape_of_present(Inputs inputs) {
  return present_shape(inputs, of_value);
}
/// The shape of keys or values, including those of the past if there is one.
template <bool of_value>
Shape shape_of_keys(Inputs inputs) {
  if (inputs.past_key) return shape_of_present<of_value>(inputs);
  return (of_value ? inputs.value : inputs.key).reader.header().shape;
}
Shape shape_of_heads(Inputs inputs) {
  return {inputs.problem.desc.query_heads};
}

constexpr OutputRow kOutputRows[] = {
    {{"--output", &Paths::output, "O.npy", "Write the result: float16 for f16, else float32"},
     &Files::output,
     "output",
     "output",
     as_stored<&AttentionDesc::output>,
     [](Inputs in) { return output_shape(in.problem, in.query.rank()); }},
    {{"--lse", &Paths::lse, "L.npy",
      "Write the log-sum-exp of each row's scores, float32 (batch, heads, length)"},
     &Files::lse,
     "lse",
     "lse",
     float32_type,
     [](Inputs in) { return lse_shape(in.problem, in.query.rank()); }},
    {{"--weights", &Paths::weights, "W.npy",
      "Write the attention weights, float32 (batch, heads, query length, key length)"},
     &Files::weights,
     "weights",
     "weights",
     float32_type,
     [](Inputs in) { return weights_shape(in.problem, in.query.rank()); }},
    {{"--present-key", &Paths::present_key, "O.npy", "Write past and new keys as one array"},
     &Files::present_key,
     "present_key",
     "present K",
     as_stored<&AttentionDesc::query>,
     shape_of_present<false>},
    {{"--present-value", &Paths::present_value, "O.npy", "Write past and new values as one array"},
     &Files::present_value,
     "present_value",
     "present V",
     as_stored<&AttentionDesc::query>,
     shape_of_present<true>},
    {{"--grad-query", &Paths::grad_query, "G.npy", "Write the gradient of the queries, of their shape"},
     &Files::grad_query,
     "grad_query",
     "dQ",
     as_stored<&AttentionDesc::query>,
     [](Inputs in) { return in.query.reader.header().shape; },
     {&Tensors::grad_query, &Desc::has_grad_query}},
    {{"--grad-key", &Paths::grad_key, "G.npy", "Write the gradient of the keys"},
     &Files::grad_key,
     "grad_key",
     "dK",
     as_stored<&AttentionDesc::key>,
     shape_of_keys<false>,
     {&Tensors::grad_key, &Desc::has_grad_key}},
    {{"--grad-value", &Paths::grad_value, "G.npy", "Write the gradient of the values"},
     &Files::grad_value,
     "grad_value",
     "dV",
     as_stored<&AttentionDesc::value>,
     shape_of_keys<true>,
     {&Tensors::grad_value, &Desc::has_grad_value}},
    {{"--grad-mask", &Paths::grad_mask, "G.npy",
      "Write the gradient of --mask, an additive one, of its shape"},
     &Files::grad_mask,
     "grad_mask",
     "dmask",
     [](Inputs in) {
       const bool is_half = in.problem.desc.mask.type == MaskType::kFloat16;
       return element_type(is_half ? DataType::kFloat16 : DataType::kFloat32);
     },
     [](Inputs in) { return in.mask->reader.header().shape; },
     {&Tensors::grad_mask, &Desc::has_grad_mask, "--mask"}},
    {{"--grad-alibi-slopes", &Paths::grad_alibi_slopes, "G.npy",
      "Write the gradient of --alibi-slopes, float32 (heads,)"},
     &Files::grad_alibi_slopes,
     "grad_alibi_slopes",
     "dslopes",
     float32_type,
     shape_of_heads,
     {&Tensors::grad_alibi_slopes, &Desc::has_grad_alibi_slopes, "--alibi-slopes"}},
    {{"--grad-sinks", &Paths::grad_sinks, "G.npy", "Write the gradient of --sinks, float32 (heads,)"},
     &Files::grad_sinks,
     "grad_sinks",
     "dsinks",
     float32_type,
     shape_of_heads,
     {&Tensors::grad_sinks, &Desc::has_grad_sinks, "--sinks"}}};

}  // namespace

std::string output_text(const OutputFile& output) {
  return console::printable(output.file.target().string()) + "  " + std::string(npy::name(output.type)) +
         " " + npy::shape_text(output.shape);
}

Json output_json(const OutputFile& output) {
  return Json{
      {"path", output.file.target().string()}, {"type", npy::name(output.type)}, {"shape", output.shape}};
}

std::span<const OutputRow> output_rows() {
  return kOutputRows;
}

bool writes_any(const OutputPaths& paths) {
  return std::ranges::any_of(kOutputRows, [&](const OutputRow& row) { return row.is_given(paths); });
}

bool asks_for_gradients(const OutputPaths& paths) {
  return std::ranges::any_of(kOutputRows,
                             [&](const OutputRow& row) { return row.is_gradient() && row.is_given(paths); });
}

void add_output_options(CLI::App& app, OutputPaths& paths, bool of_gradients) {
  for (const OutputRow& row : kOutputRows) {
    const FileOption<OutputPaths>& option = row.option;
    if (row.is_gradient() == of_gradients)
      add_value(app, option.name, paths.*option.path, option.metavar, option.help);
  }
}

void add_output_files(FileNames& files, const OutputPaths& paths) {
  for (const OutputRow& row : kOutputRows) files.add_output(row.option.name, paths.*row.option.path);
}

RunOutputs open_outputs(const OutputPaths& paths, const RunInputs& inputs) {
  RunOutputs outputs;
  for (const OutputRow& row : kOutputRows) {
    if (!row.is_given(paths)) continue;
    (outputs.*row.file)
        .emplace(OutputFile{take(AtomicFile::create(paths.*row.option.path)), row.type(inputs),
                            row.shape(inputs)});
  }
  return outputs;
}

void commit(RunOutputs& outputs) {
  for (const OutputRow& row : kOutputRows) {
    if (outputs.*row.file) require((outputs.*row.file)->file.commit());
  }
}

}  // namespace vkattn::cli
