// Code that remains: see live_code.hpp. Opcodes are SPIR-V 1.6's, section 3.52.
#include "spirv/live_code.hpp"

#include <cstddef>
#include <optional>
#include <utility>

#include "spirv/control_flow.hpp"
#include "spirv/known_values.hpp"
#include "spirv/spirv_ops.hpp"

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
        is_defined_(flow_.bound()),
        is_removed_(flow_.bound()) {}

  /// False: the code is of a form that is left alone.
  [[nodiscard]] bool follow();
  [[nodiscard]] Words written() const;

 private:
  struct BlockState {
    bool is_live = false;                // some path reaches it
    std::optional<std::uint32_t> taken;  // the only target that remains of its branch
    // For a block that no path reaches, but that ends a live structure: the block that it goes to; 0: none.
    std::optional<std::uint32_t> end_goes_to;
    bool is_reached_from_behind = false;  // a loop goes on
    bool was_end = false;  // of a structure that is none any more, or a case that its switch has not any more
  };

  [[nodiscard]] bool follow_function(const SpirvFunction& function);
  [[nodiscard]] bool follow_block(std::size_t index);
  [[nodiscard]] bool follow_branch(std::size_t index);
  [[nodiscard]] bool take(std::size_t index, std::uint32_t value);
  [[nodiscard]] bool reach(std::size_t from, std::uint32_t label);
  void reach_functions(std::span<const std::uint32_t> words);
  void decide_phi(std::size_t index, std::span<const std::uint32_t> words);
  [[nodiscard]] bool keep_ends(std::size_t index);
  [[nodiscard]] bool keep_end(std::uint32_t label, std::uint32_t goes_to);
  [[nodiscard]] bool leaves_what_was(std::size_t index) const;
  void note_declared(const ConstInstruction& instruction);
  void note_removed();
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
  std::vector<bool> is_removed_;        // ids, by what does not
};

bool is_within(std::uint32_t op, std::uint32_t first, std::uint32_t last) {
  return op >= first && op <= last;
}

// Of an instruction in a block. Of some that are not known here it tells of another id, which is defined
// then.
void note(const ConstInstruction& instruction, std::vector<bool>& ids) {
  const auto words = instruction.words;
  const std::uint32_t op = instruction.opcode();
  const bool has_result = !is_within(op, spirv_op::kStore, spirv_op::kCopyMemorySized) &&
                          !is_within(op, spirv_op::kLoopMerge, spirv_op::kUnreachable) &&
                          op != spirv_op::kControlBarrier && op != spirv_op::kMemoryBarrier;
  if (has_result && words.size() > 2 && words[2] < ids.size()) ids[words[2]] = true;
}

void LiveCode::note_declared(const ConstInstruction& instruction) {
  const auto words = instruction.words;
  const std::uint32_t op = instruction.opcode();
  const bool is_type = is_within(op, spirv_op::kTypeVoid, spirv_op::kTypeForwardPointer);
  const bool is_value = is_within(op, spirv_op::kConstantTrue, spirv_op::kSpecConstantOp) ||
                        op == spirv_op::kVariable || op == spirv_op::kUndef;
  const std::size_t place = is_type ? 1 : 2;
  if ((is_type || is_value) && place < words.size() && words[place] < is_defined_.size()) {
    is_defined_[words[place]] = true;
  }
}

// So that only what is known to be gone loses its decorations.
void LiveCode::note_removed() {
  for (std::size_t f = 0; f < flow_.functions().size(); ++f) {
    const SpirvFunction& function = flow_.functions()[f];
    const std::size_t first = function.first_block;
    for (const auto& instruction : flow_.between(function.begin, flow_.blocks()[first].begin)) {
      note(instruction, is_function_live_[f] ? is_defined_ : is_removed_);
    }
    for (std::size_t i = first; i < first + function.block_count; ++i) {
      const SpirvBlock& block = flow_.blocks()[i];
      (blocks_[i].is_live || blocks_[i].end_goes_to ? is_defined_ : is_removed_)[block.label] = true;
      for (const auto& instruction : flow_.between(block.begin, block.end)) {
        note(instruction, blocks_[i].is_live ? is_defined_ : is_removed_);
      }
    }
  }
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

// A block comes after all blocks that its paths go through, and compilers put it behind everything that leads
// to it but loops. In other orders a block might be passed over before something reaches it.
bool LiveCode::reach(std::size_t from, std::uint32_t label) {
  const auto target = flow_.block_of(label);
  if (!target || flow_.blocks()[*target].function != flow_.blocks()[from].function) return false;
  if (*target <= from) {
    blocks_[*target].is_reached_from_behind = true;
    return blocks_[*target].is_live;
  }
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

// Its structure is none any more: nothing may leave it for its end by a condition that is no structure
// itself. Cases of a switch may leave it from within other structures, so it stays one, of one case.
bool LiveCode::take(std::size_t index, std::uint32_t value) {
  const SpirvBlock& block = flow_.blocks()[index];
  const ConstInstruction end = flow_.at(block.terminator);
  const auto words = end.words;
  const bool is_switch = end.opcode() == spirv_op::kSwitch;
  std::uint32_t taken = words[2];
  if (!is_switch && value == 0) taken = words[3];
  // Cases are a number and a label each; the label of all others is before them.
  for (std::size_t i = 3; is_switch && i + 1 < words.size(); i += 2) {
    if (words[i] == value) taken = words[i + 1];
  }
  const auto ends = [&](std::uint32_t label) {
    if (const auto was = flow_.block_of(label)) blocks_[*was].was_end = true;
  };
  if (!is_switch) ends(flow_.at(block.merge).words[1]);
  for (std::size_t i = 2; is_switch && i < words.size(); i += 2) ends(words[i]);
  blocks_[index].taken = taken;
  return reach(index, taken);
}

bool LiveCode::follow_branch(std::size_t index) {
  const SpirvBlock& block = flow_.blocks()[index];
  const ConstInstruction end = flow_.at(block.terminator);
  const auto words = end.words;
  const std::uint32_t op = end.opcode();
  if (op == spirv_op::kBranch) return words.size() == 2 && reach(index, words[1]);
  if (op != spirv_op::kBranchConditional && op != spirv_op::kSwitch) return true;
  if (words.size() < (op == spirv_op::kSwitch ? 3U : 4U)) return false;
  const auto value = values_.of(words[1]);
  const bool is_selection = block.merge != 0 && flow_.at(block.merge).opcode() == spirv_op::kSelectionMerge;
  if (value && is_selection) return take(index, *value);
  if (op == spirv_op::kBranchConditional) return reach(index, words[2]) && reach(index, words[3]);
  // Numbers of wider selectors take two words.
  if (!values_.is_of_known_type(words[1])) return false;
  for (std::size_t i = 2; i < words.size(); i += 2) {
    if (!reach(index, words[i])) return false;
  }
  return true;
}

bool LiveCode::follow_block(std::size_t index) {
  const SpirvBlock& block = flow_.blocks()[index];
  for (const auto& instruction : flow_.between(block.begin, block.end)) {
    reach_functions(instruction.words.subspan(1));
    values_.read(instruction);
    if (instruction.opcode() == spirv_op::kPhi && instruction.words.size() > 3) {
      decide_phi(index, instruction.words);
    }
  }
  return follow_branch(index);
}

bool LiveCode::keep_end(std::uint32_t label, std::uint32_t goes_to) {
  const auto block = flow_.block_of(label);
  if (!block) return false;
  BlockState& state = blocks_[*block];
  if (state.is_live) return true;
  // One that ends two structures is in no shader of the project.
  if (state.end_goes_to) return false;
  state.end_goes_to = goes_to;
  return true;
}

bool LiveCode::leaves_what_was(std::size_t index) const {
  const SpirvBlock& block = flow_.blocks()[index];
  const ConstInstruction end = flow_.at(block.terminator);
  if (block.merge != 0 || end.opcode() != spirv_op::kBranchConditional) return false;
  const auto was_end = [&](std::uint32_t label) {
    const auto target = flow_.block_of(label);
    return target && blocks_[*target].was_end;
  };
  return was_end(end.words[2]) || was_end(end.words[3]);
}

// A selection and a loop name blocks that must be there, even if nothing reaches them.
bool LiveCode::keep_ends(std::size_t index) {
  const SpirvBlock& block = flow_.blocks()[index];
  if (!blocks_[index].is_live) return true;
  if (block.merge == 0) return !leaves_what_was(index);
  const ConstInstruction merge = flow_.at(block.merge);
  const bool is_loop = merge.opcode() == spirv_op::kLoopMerge;
  if (!is_loop && blocks_[index].taken && flow_.at(block.terminator).opcode() == spirv_op::kBranchConditional)
    return true;
  if (!keep_end(merge.words[1], 0)) return false;
  if (!is_loop) return true;
  const auto next = flow_.block_of(merge.words[2]);
  // Values of another iteration would come from a block that is no more.
  if (next && !blocks_[*next].is_live && block.has_phi) return false;
  // It must go on from somewhere.
  if (next && blocks_[*next].is_live && !blocks_[index].is_reached_from_behind) return false;
  return keep_end(merge.words[2], block.label);
}

bool LiveCode::follow_function(const SpirvFunction& function) {
  const std::size_t first = function.first_block, end = first + function.block_count;
  for (const auto& parameter : flow_.between(function.begin, flow_.blocks()[first].begin)) {
    values_.read(parameter);
  }
  blocks_[first].is_live = true;
  for (std::size_t i = first; i < end; ++i) {
    if (blocks_[i].is_live && !follow_block(i)) return false;
  }
  for (std::size_t i = first; i < end; ++i) {
    if (!keep_ends(i)) return false;
  }
  return true;
}

bool LiveCode::follow() {
  for (const auto& instruction : flow_.between(kSpirvHeaderWords, flow_.functions_begin())) {
    note_declared(instruction);
    values_.read(instruction);
  }
  const std::uint32_t entry = flow_.entry();
  reach_functions({&entry, 1});
  while (!to_follow_.empty()) {
    const std::size_t next = to_follow_.back();
    to_follow_.pop_back();
    if (!follow_function(flow_.functions()[next])) return false;
  }
  note_removed();
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
    const bool is_gone =
        words.size() > 1 && words[1] < is_removed_.size() && is_removed_[words[1]] && !is_defined_[words[1]];
    if (is_of_id && is_gone) continue;
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
