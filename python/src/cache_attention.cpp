// Attention over the keys of a cache: see cache.hpp.
#include <utility>

#include "cache.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The results of a call, in host memory.
class CacheResults {
 public:
  CacheResults(const AttentionDesc& desc)
      : output_(
            new_array(desc.output.type, {desc.batch, desc.query_heads, desc.query_length, desc.value_dim})),
        output_bytes_(writable_bytes_of(output_)) {
    const std::vector<std::int64_t> rows = {desc.batch, desc.query_heads, desc.query_length};
    if (desc.has_lse) lse_bytes_ = new_float_array(lse_, rows);
    if (desc.weights != WeightsStage::kNone) {
      weights_bytes_ =
          new_float_array(weights_, {desc.batch, desc.query_heads, desc.query_length, desc.kv_length});
    }
  }

  /// Called without the interpreter's lock.
  void bind(RunMemory& memory, AttentionTensors& tensors) const {
    tensors.output = memory.result(output_bytes_);
    tensors.lse = memory.result(lse_bytes_);
    tensors.weights = memory.result(weights_bytes_);
  }

  [[nodiscard]] py::tuple arrays() const { return py::make_tuple(output_, lse_, weights_); }

 private:
  py::array output_;
  py::object lse_ = py::none();
  py::object weights_ = py::none();
  std::span<std::byte> output_bytes_;
  std::span<std::byte> lse_bytes_;
  std::span<std::byte> weights_bytes_;
};

}  // namespace

AttentionDesc Cache::attention_desc(const CacheQueries& queries, const InputArray& query) const {
  const Extents& extents = query.extents();
  AttentionDesc desc;
  desc.query_heads = extents[1];
  desc.query_length = extents[2];
  desc.head_dim = options_.head_dim;
  describe_keys(desc, queries.kv_length);
  desc.query = {element_type(queries.query, "query"), query.strides()};
  desc.output.type = desc.query.type;
  if (queries.counts) desc.query_lengths = Lengths::kPerEntry;
  return desc;
}

BufferRange Cache::prepare_queries(const Runtime& runtime, const AttentionDesc& desc, const InputArray& query,
                                   std::span<const std::byte> positions, RunMemory& memory) {
  const BufferRange range = memory.upload(query.bytes());
  if (options_.rotary.style == RotaryStyle::kNone) return range;
  AppendDesc turn;
  turn.batch = desc.batch;
  turn.query_heads = desc.query_heads;
  turn.kv_heads = 0;
  turn.new_length = desc.query_length;
  turn.head_dim = desc.head_dim;
  turn.query = turn.query_output = desc.query;
  turn.has_positions = true;
  turn.rotary = options_.rotary;
  AppendTensors tensors;
  tensors.query = tensors.query_output = range;
  tensors.positions = memory.upload(positions);
  tensors.frequencies = frequencies_.range();
  execute_append(runtime, turn, tensors);
  return range;
}

py::tuple Cache::attention(const CacheQueries& queries, const ScoreOptions& options) {
  const bool is_turned = options_.rotary.style != RotaryStyle::kNone;
  // Queries are rotated in place, so no two elements may share memory.
  const InputArray query(is_turned ? without_gaps(queries.query) : queries.query, "query");
  AttentionDesc desc = attention_desc(queries, query);
  const ScoreInputs inputs(options, desc);
  take(validate(desc));
  const CacheResults results(desc);
  std::span<const std::byte> counts;
  if (queries.counts) counts = bytes_of(*queries.counts);
  const std::span positions = bytes_of(queries.positions);
  session_->use([&](const Runtime& runtime) {
    if (desc.is_empty()) return;
    const AttentionPlan& plan = session_->plan(desc);
    RunMemory memory(runtime);
    AttentionTensors tensors;
    add_to(tensors);
    tensors.query = prepare_queries(runtime, desc, query, positions, memory);
    if (!counts.empty()) tensors.query_lengths = memory.upload(counts);
    upload_score_inputs(inputs, memory, tensors);
    results.bind(memory, tensors);
    const Buffer workspace = take(runtime.create_workspace(plan));
    const Bindings bindings = take(plan.make_bindings(tensors, workspace.range()));
    take(runtime.execute(plan, bindings));
    memory.read_results();
  });
  return results.arrays();
}

}  // namespace vkattn::python
