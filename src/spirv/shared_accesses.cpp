// Accesses of shared memory: see shared_accesses.hpp.
#include "spirv/shared_accesses.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <unordered_set>

#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kStorageWorkgroup = 4;
// Bits of memory operands that have operands of their own, which follow in the order of the bits (kAligned is
// one).
constexpr std::uint32_t kMakeAvailable = 0x8;
constexpr std::uint32_t kMakeVisible = 0x10;

// Which words of an access are its pointer and its memory operands.
struct Access {
  std::size_t pointer, operands;
};

std::optional<Access> access(std::uint32_t op) {
  switch (op) {
    case spirv_op::kLoad:
      return Access{3, 4};
    case spirv_op::kStore:
      return Access{1, 3};
    case spirv_op::kCooperativeMatrixLoadKHR:
      return Access{3, 6};
    case spirv_op::kCooperativeMatrixStoreKHR:
      return Access{1, 5};
    default:
      return std::nullopt;
  }
}

// The pointers to shared memory that were defined so far.
class SharedPointers {
 public:
  void define(const SpirvInstruction<std::uint32_t>& instruction) {
    const std::uint32_t op = instruction.opcode();
    const auto words = instruction.words;
    if (words.size() < 3) return;
    if (op == spirv_op::kTypePointer && words[2] == kStorageWorkgroup) types_.insert(words[1]);
    const bool is_pointer = op == spirv_op::kVariable || op == spirv_op::kFunctionParameter ||
                            op == spirv_op::kAccessChain || op == spirv_op::kInBoundsAccessChain;
    if (is_pointer && types_.count(words[1]) != 0) pointers_.insert(words[2]);
  }
  [[nodiscard]] bool has(std::uint32_t id) const { return pointers_.count(id) != 0; }

 private:
  std::unordered_set<std::uint32_t> types_, pointers_;
};

// How many words of the instruction remain without the operands; they remain at its beginning.
std::size_t without_coherence(std::span<std::uint32_t> instruction, std::size_t operands) {
  std::uint32_t& mask = instruction[operands];
  const std::uint32_t taken = mask & (kMakeAvailable | kMakeVisible);
  const std::size_t scopes = (taken & kMakeAvailable ? 1U : 0U) + (taken & kMakeVisible ? 1U : 0U);
  const std::size_t kept = operands + 1 + (mask & spirv_op::kAligned ? 1U : 0U);
  if (kept + scopes > instruction.size()) return instruction.size();  // not SPIR-V: the driver will say so
  mask &= ~taken;
  std::copy(instruction.begin() + static_cast<std::ptrdiff_t>(kept + scopes), instruction.end(),
            instruction.begin() + static_cast<std::ptrdiff_t>(kept));
  const std::size_t length = instruction.size() - scopes;
  instruction[0] = (instruction[0] & 0xffffU) | static_cast<std::uint32_t>(length) << 16U;
  return length;
}

}  // namespace

void leave_shared_memory_to_barriers(std::vector<std::uint32_t>& spirv) {
  SharedPointers shared;
  const auto at = [&](std::size_t word) { return spirv.begin() + static_cast<std::ptrdiff_t>(word); };
  std::size_t read = std::min(kSpirvHeaderWords, spirv.size());  // up to here
  std::size_t written = read;                                    // never beyond
  for (const auto& instruction : instructions_of(std::span(spirv))) {
    const auto words = instruction.words;
    shared.define(instruction);
    const auto found = access(instruction.opcode());
    std::size_t kept = words.size();
    if (found && words.size() > found->operands && shared.has(words[found->pointer])) {
      kept = without_coherence(words, found->operands);
    }
    std::copy_n(words.begin(), kept, at(written));
    written += kept;
    read = instruction.end();
  }
  spirv.erase(at(written), at(read));  // what is behind is no SPIR-V, or nothing
}

}  // namespace vkattn::detail
