// `vkattn inspect --memory`: the memory of a score matrix and the library's memory, for one length or a list
// of lengths.
#include <algorithm>
#include <string>
#include <vector>

#include "console.hpp"
#include "error.hpp"
#include "inspect/reports.hpp"
#include "open_runtime.hpp"

namespace vkattn::cli {
namespace {

/// The bytes of one layer.
struct Memory {
  std::int64_t length = 0, heads = 1, head_dim = 64;
  double tensors = 0;       ///< Q, K, V and O
  double score_matrix = 0;  ///< of one head
  double workspace = 0, lse = 0;
  std::string refusal;  ///< why this device has no plan; the workspace is then that of a plan without parts

  [[nodiscard]] double all_matrices() const { return score_matrix * static_cast<double>(heads); }
  [[nodiscard]] double library() const { return workspace + lse; }
};

/// Whether only this device refuses, for example because it ends long loops early. Other devices may not
/// refuse.
bool is_of_device(const Error& error) {
  return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kLimitExceeded;
}

Memory measure(const Runtime& runtime, Memory memory) {
  AttentionDesc desc;
  desc.query_heads = memory.heads;
  desc.query_length = desc.kv_length = memory.length;
  desc.head_dim = memory.head_dim;
  desc.has_lse = true;
  PlanOptions options;
  options.deferred_compilation = true;  // the plan only tells its requirements
  const Result<AttentionPlan> plan = runtime.make_plan(desc, options);
  const auto length = static_cast<double>(memory.length);
  memory.tensors = 4 * sizeof(float) * static_cast<double>(memory.heads * memory.head_dim) * length;
  memory.score_matrix = sizeof(float) * length * length;
  memory.lse = sizeof(float) * static_cast<double>(memory.heads) * length;
  if (plan.ok()) {
    memory.workspace = static_cast<double>(plan->requirements().workspace_bytes);
  } else if (is_of_device(plan.error())) {
    memory.refusal = plan.error().message;
  } else {
    fail(plan.error());
  }
  return memory;
}

std::string heads_text(const Memory& memory) {
  return "layer     " + console::count(static_cast<std::uint64_t>(memory.heads), "head") + " of dimension " +
         std::to_string(memory.head_dim);
}

/// The sentence that says why this device has no plan.
std::string refusal_text(const Memory& memory, const std::string& what) {
  const std::string length = std::to_string(memory.length);
  return "\nThis device cannot compute " + what + ": vkattn bench \"h" + std::to_string(memory.heads) + " " +
         length + "x" + length + " d" + std::to_string(memory.head_dim) + "\" says why.\n";
}

std::string text_report(const Runtime& runtime, const Memory& memory) {
  constexpr std::size_t kLabel = 44, kNumber = 11;
  const auto line = [&](const std::string& label, double bytes, const std::string& note = "") {
    return console::pad_right(label, kLabel) + console::pad_left(console::bytes(bytes), kNumber) +
           (note.empty() ? "" : "   " + note) + "\n";
  };
  const std::string matrix = std::to_string(memory.length) + " x " + std::to_string(memory.length);
  std::string text = device_line(runtime) + heads_text(memory) + ", " + std::to_string(memory.length) +
                     " queries and keys, one batch entry, float32\n\n";
  text += line("Q, K, V and O", memory.tensors, "either way");
  text += line("score matrix " + matrix + ", of one head", memory.score_matrix);
  if (memory.heads > 1) text += line("score matrices of all heads", memory.all_matrices());
  text +=
      "\nthis library, in place of the score " + std::string(memory.heads > 1 ? "matrices" : "matrix") + "\n";
  text += line("  workspace of the plan", memory.workspace, memory.refusal.empty() ? "" : "on other devices");
  text += line("  log-sum-exp of each query", memory.lse);
  text += line("  together", memory.library(),
               console::significant(memory.all_matrices() / memory.library()) + " times less");
  return text + (memory.refusal.empty() ? "" : refusal_text(memory, "it"));
}

/// A table with a row for each length.
std::string table_report(const Runtime& runtime, const std::vector<Memory>& lengths) {
  using console::pad_left;
  std::string text = device_line(runtime) + heads_text(lengths.front()) +
                     ", as many queries as keys, one batch entry, float32\n\n"
                     "    keys  Q, K, V and O  score matrices  this library  times less\n";
  for (const Memory& memory : lengths) {
    text += pad_left(std::to_string(memory.length), 8) + pad_left(console::bytes(memory.tensors), 15) +
            pad_left(console::bytes(memory.all_matrices()), 16) +
            pad_left(console::bytes(memory.library()), 14) +
            pad_left(console::significant(memory.all_matrices() / memory.library()), 12) + "\n";
  }
  text += "\nthis library: workspace and log-sum-exp of each query, in place of score matrices\n";
  // A device that refuses a length refuses longer ones too.
  const auto refused = [](const Memory& memory) { return !memory.refusal.empty(); };
  const auto first = std::ranges::find_if(lengths, refused);
  if (first == lengths.end()) return text;
  return text + refusal_text(*first, std::to_string(first->length) + " keys and more");
}

Json memory_json(const Memory& memory) {
  Json json;
  json["length"] = memory.length;
  json["heads"] = memory.heads;
  json["head_dim"] = memory.head_dim;
  const auto whole = [](double bytes) { return static_cast<std::uint64_t>(bytes); };
  json["tensor_bytes"] = whole(memory.tensors);
  json["score_matrix_bytes_per_head"] = whole(memory.score_matrix);
  json["score_matrix_bytes"] = whole(memory.all_matrices());
  json["workspace_bytes"] = whole(memory.workspace);
  json["lse_bytes"] = whole(memory.lse);
  if (!memory.refusal.empty()) json["refusal"] = memory.refusal;
  return json;
}

std::string json_report(const Runtime& runtime, const std::vector<Memory>& lengths,
                        const Invocation& invocation) {
  Json json = json_head(runtime, invocation);
  if (lengths.size() == 1) {
    json.update(memory_json(lengths.front()));
  } else {
    for (const Memory& memory : lengths) json["lengths"].push_back(memory_json(memory));
  }
  return dump_json(json);
}

}  // namespace

int inspect_memory(const InspectArguments& arguments, const Invocation& invocation) {
  // Keeps the bytes of all matrices below 2^63: 2^2 for a number, 2^48 numbers in a matrix, 2^10 heads.
  constexpr std::int64_t kMostLength = 1 << 24, kMostHeads = 1024;
  Memory layer;
  layer.heads = number_of("--heads", arguments.heads, 1, kMostHeads, 1);
  layer.head_dim = number_of("--head-dim", arguments.head_dim, 1, kMaxHeadDim, 64);
  const std::vector<std::int64_t> numbers = numbers_of("--memory", arguments.memory, 1, kMostLength);
  const Runtime runtime = open_runtime(arguments.where, false);
  std::vector<Memory> lengths;
  for (const std::int64_t length : numbers) {
    layer.length = length;
    lengths.push_back(measure(runtime, layer));
  }
  print(arguments.json        ? json_report(runtime, lengths, invocation)
        : lengths.size() == 1 ? text_report(runtime, lengths.front())
                              : table_report(runtime, lengths));
  return 0;
}

}  // namespace vkattn::cli
