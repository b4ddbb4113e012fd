// Code that remains: see live_code.hpp. Opcodes are SPIR-V 1.6's, section 3.52.
#include "vulkan/live_code.hpp"

#include <cstddef>
#include <optional>
#include <utility>

#include "vulkan/control_flow.hpp"
#include "vulkan/known_values.hpp"
#include "vulkan/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t first_word(std::size_t length, std::uint32_t op) {
  return static_cast<std::uint32_t>(length) << 16U | op;
}

// Follows the paths from the entry, and writes what is on them.
class LiveCode {
 public:
  LiveCode(ControlFlow flow, std::span<const SpecializationValue> specialization)
      : flow_(std::move(flow)),
        values_(flow_.bound(), specialization),
        blocks_(flow_.blocks().size()),
        is_function_live_(flow_.functions().size()),
        is_defined_(flow_.bound()) {}

  /// False: the code is of a form that is left alone.
  [[nodiscard]] bool follow();
  [[nodiscard]] Words written() const;

 private:
  struct BlockState {
    bool is_live = false;                // some path reaches it
    std::optional<std::uint32_t> taken;  // the only target that remains of its branch
    // Of a block that no path reaches, but which is a live structure's end: where it goes, 0 for nowhere.
    std::optional<std::uint32_t> end_goes_to;
  };

  [[nodiscard]] bool follow_block(std::size_t index);
  [[nodiscard]] bool reach(std::size_t from, std::uint32_t label);
  void reach_functions(std::span<const std::uint32_t> words);
  void decide_phi(std::size_t index, std::span<const std::uint32_t> words);
  [[nodiscard]] bool keep_ends(std::size_t index);
  [[nodiscard]] bool keep_end(std::uint32_t label, std::uint32_t goes_to);
  void note_defined(const ConstInstruction& instruction);
  [[nodiscard]] bool is_edge(std::uint32_t from, std::uint32_t to) const;
  void write_declarations(Words& out) const;
  void write_block(std::size_t index, Words& out) const;
  void write_phi(std::uint32_t label, std::span<const std::uint32_t> words, Words& out) const;

  ControlFlow flow_;
  KnownValues values_;
  std::vector<BlockState> blocks_;
  std::vector<bool> is_function_live_;
  std::vector<std::size_t> to_follow_;  // functions
  std::vector<bool> is_defined_;        // ids, by what remains
};

// Whether it has a result that may be decorated: its third word, of types and labels the second.
bool has_result(std::uint32_t op) {
  const auto is_within = [&](std::uint32_t first, std::uint32_t last) { return op >= first && op <= last; };
  return (op >= spirv_op::kTypeVoid || op == spirv_op::kExtInst) &&
         !is_within(spirv_op::kStore, spirv_op::kCopyMemorySized) &&
         !is_within(spirv_op::kDecorate, spirv_op::kGroupMemberDecorate) && op != spirv_op::kControlBarrier &&
         op != spirv_op::kMemoryBarrier && !is_within(spirv_op::kLoopMerge, spirv_op::kUnreachable);
}

void LiveCode::note_defined(const ConstInstruction& instruction) {
  const auto words = instruction.words;
  const std::uint32_t op = instruction.opcode();
  const std::size_t place =
      (op >= spirv_op::kTypeVoid && op <= spirv_op::kTypeForwardPointer) || op == spirv_op::kLabel ? 1 : 2;
  if (place == 2 && !has_result(op)) return;
  if (place < words.size() && words[place] < is_defined_.size()) is_defined_[words[place]] = true;
}

// Numbers are taken for ids too: one that is a function's by chance only keeps it. Matrices have operands
// that are functions, so calls alone are not looked for.
void LiveCode::reach_functions(std::span<const std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    const auto function = flow_.function_of(word);
    if (!function || is_function_live_[*function]) continue;
    is_function_live_[*function] = true;
    to_follow_.push_back(*function);
  }
}

// Blocks come after those that all of their paths go through, and compilers put them behind all that leads to
// them but for loops. Of other orders a block might be passed over before something reaches it.
bool LiveCode::reach(std::size_t from, std::uint32_t label) {
  const auto target = flow_.block_of(label);
  if (!target || flow_.blocks()[*target].function != flow_.blocks()[from].function) return false;
  if (*target <= from) return blocks_[*target].is_live;
  blocks_[*target].is_live = true;
  return true;
}

bool LiveCode::is_edge(std::uint32_t from, std::uint32_t to) const {
  const auto block = flow_.block_of(from);
  if (!block || !blocks_[*block].is_live) return false;
  return !blocks_[*block].taken || blocks_[*block].taken == to;
}

// Known where all that may come in is. From a block behind, which closes a loop, anything may.
void LiveCode::decide_phi(std::size_t index, std::span<const std::uint32_t> words) {
  std::optional<std::uint32_t> common;
  for (std::size_t i = 3; i + 1 < words.size(); i += 2) {
    const auto parent = flow_.block_of(words[i + 1]);
    if (!parent || *parent >= index) return;
    if (!is_edge(words[i + 1], flow_.blocks()[index].label)) continue;
    const auto value = values_.of(words[i]);
    if (!value || (common && common != value)) return;
    common = value;
  }
  if (common) values_.know(words[2], *common);
}

bool LiveCode::follow_block(std::size_t index) {
  const SpirvBlock& block = flow_.blocks()[index];
  for (const auto& instruction : flow_.between(block.begin, block.end)) {
    note_defined(instruction);
    reach_functions(instruction.words.subspan(1));
    if (instruction.opcode() == spirv_op::kPhi && instruction.words.size() > 3) {
      decide_phi(index, instruction.words);
    } else {
      values_.read(instruction);
    }
  }
  const ConstInstruction end = flow_.at(block.terminator);
  const auto words = end.words;
  const std::uint32_t op = end.opcode();
  if (op == spirv_op::kBranch) return words.size() == 2 && reach(index, words[1]);
  if (op != spirv_op::kBranchConditional && op != spirv_op::kSwitch) return true;
  if (words.size() < (op == spirv_op::kSwitch ? 3U : 4U)) return false;
  const auto value = values_.of(words[1]);
  const bool is_selection = block.merge != 0 && flow_.at(block.merge).opcode() == spirv_op::kSelectionMerge;
  // Cases of a switch are a number and a label each; the label of all others is before them.
  if (value && is_selection) {
    std::uint32_t taken = words[2];
    if (op == spirv_op::kBranchConditional && *value == 0) taken = words[3];
    for (std::size_t i = 3; op == spirv_op::kSwitch && i + 1 < words.size(); i += 2) {
      if (words[i] == *value) taken = words[i + 1];
    }
    blocks_[index].taken = taken;
    return reach(index, taken);
  }
  if (op == spirv_op::kBranchConditional) return reach(index, words[2]) && reach(index, words[3]);
  for (std::size_t i = 2; i < words.size(); i += 2) {
    if (!reach(index, words[i])) return false;
  }
  return true;
}

bool LiveCode::keep_end(std::uint32_t label, std::uint32_t goes_to) {
  const auto block = flow_.block_of(label);
  if (!block) return false;
  BlockState& state = blocks_[*block];
  if (state.is_live) return true;
  // One that ends two structures is in no shader of the project.
  if (state.end_goes_to) return false;
  state.end_goes_to = goes_to;
  is_defined_[label] = true;
  return true;
}

// A selection and a loop name blocks that must be there, even if nothing reaches them.
bool LiveCode::keep_ends(std::size_t index) {
  const SpirvBlock& block = flow_.blocks()[index];
  if (!blocks_[index].is_live || block.merge == 0) return true;
  const ConstInstruction merge = flow_.at(block.merge);
  const bool is_loop = merge.opcode() == spirv_op::kLoopMerge;
  if (!is_loop && blocks_[index].taken && flow_.at(block.terminator).opcode() == spirv_op::kBranchConditional)
    return true;
  if (!keep_end(merge.words[1], 0)) return false;
  if (!is_loop) return true;
  const auto next = flow_.block_of(merge.words[2]);
  // Values of another iteration would come from a block that is no more.
  if (next && !blocks_[*next].is_live && block.has_phi) return false;
  return keep_end(merge.words[2], block.label);
}

bool LiveCode::follow() {
  for (const auto& instruction : flow_.between(kSpirvHeaderWords, flow_.functions_begin())) {
    note_defined(instruction);
    values_.read(instruction);
  }
  const std::uint32_t entry = flow_.entry();
  reach_functions({&entry, 1});
  while (!to_follow_.empty()) {
    const SpirvFunction& function = flow_.functions()[to_follow_.back()];
    to_follow_.pop_back();
    const std::size_t first = function.first_block;
    for (const auto& instruction : flow_.between(function.begin, flow_.blocks()[first].begin)) {
      note_defined(instruction);
    }
    blocks_[first].is_live = true;
    for (std::size_t i = first; i < first + function.block_count; ++i) {
      if (blocks_[i].is_live && !follow_block(i)) return false;
    }
    for (std::size_t i = first; i < first + function.block_count; ++i) {
      if (!keep_ends(i)) return false;
    }
  }
  return true;
}

void LiveCode::write_phi(std::uint32_t label, std::span<const std::uint32_t> words, Words& out) const {
  const std::size_t begin = out.size();
  out.insert(out.end(), words.begin(), words.begin() + 3);
  for (std::size_t i = 3; i + 1 < words.size(); i += 2) {
    if (is_edge(words[i + 1], label)) out.insert(out.end(), {words[i], words[i + 1]});
  }
  out[begin] = first_word(out.size() - begin, spirv_op::kPhi);
}

void LiveCode::write_block(std::size_t index, Words& out) const {
  const SpirvBlock& block = flow_.blocks()[index];
  const BlockState& state = blocks_[index];
  if (!state.is_live) {
    if (!state.end_goes_to) return;
    out.insert(out.end(), {first_word(2, spirv_op::kLabel), block.label});
    if (*state.end_goes_to == 0) out.push_back(first_word(1, spirv_op::kUnreachable));
    if (*state.end_goes_to != 0)
      out.insert(out.end(), {first_word(2, spirv_op::kBranch), *state.end_goes_to});
    return;
  }
  const bool is_switch = flow_.at(block.terminator).opcode() == spirv_op::kSwitch;
  for (const auto& instruction : flow_.between(block.begin, block.end)) {
    const auto words = instruction.words;
    if (instruction.opcode() == spirv_op::kPhi && words.size() > 3) {
      write_phi(block.label, words, out);
    } else if (state.taken && instruction.begin == block.terminator) {
      // Cases may leave a switch from within other structures, so it stays one.
      if (is_switch) out.insert(out.end(), {first_word(3, spirv_op::kSwitch), words[1], *state.taken});
      if (!is_switch) out.insert(out.end(), {first_word(2, spirv_op::kBranch), *state.taken});
    } else if (!state.taken || is_switch || instruction.begin != block.merge) {
      out.insert(out.end(), words.begin(), words.end());
    }
  }
}

void LiveCode::write_declarations(Words& out) const {
  for (const auto& instruction : flow_.between(kSpirvHeaderWords, flow_.functions_begin())) {
    const auto words = instruction.words;
    const std::uint32_t op = instruction.opcode();
    const bool is_of_id = op == spirv_op::kName || op == spirv_op::kMemberName || op == spirv_op::kDecorate ||
                          op == spirv_op::kMemberDecorate;
    if (is_of_id && words.size() > 1 && words[1] < is_defined_.size() && !is_defined_[words[1]]) continue;
    out.insert(out.end(), words.begin(), words.end());
  }
}

Words LiveCode::written() const {
  const auto spirv = flow_.spirv();
  Words out(spirv.begin(), spirv.begin() + kSpirvHeaderWords);
  out.reserve(spirv.size());
  write_declarations(out);
  for (std::size_t i = 0; i < flow_.functions().size(); ++i) {
    if (!is_function_live_[i]) continue;
    const SpirvFunction& function = flow_.functions()[i];
    const std::size_t first = function.first_block, last = first + function.block_count - 1;
    const auto copy = [&](std::size_t begin, std::size_t end) {
      const auto words = spirv.subspan(begin, end - begin);
      out.insert(out.end(), words.begin(), words.end());
    };
    copy(function.begin, flow_.blocks()[first].begin);
    for (std::size_t block = first; block <= last; ++block) write_block(block, out);
    copy(flow_.blocks()[last].end, function.end);
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> live_code(std::span<const std::uint32_t> spirv,
                                     std::span<const SpecializationValue> specialization) {
  if (auto flow = ControlFlow::read(spirv)) {
    LiveCode code(*std::move(flow), specialization);
    if (code.follow()) return code.written();
  }
  return {spirv.begin(), spirv.end()};
}

}  // namespace vkattn::detail
