// Accesses of shared memory: see shared_accesses.hpp.
#include "vulkan/shared_accesses.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <unordered_set>

#include "vulkan/spirv.hpp"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kStorageWorkgroup = 4;
constexpr std::uint32_t kAligned = 0x2;  // has an operand of its own, as have the next two, in this order
constexpr std::uint32_t kMakeAvailable = 0x8;  // of MemoryAccess, SPIR-V 1.6, section 3.26
constexpr std::uint32_t kMakeVisible = 0x10;

enum Op : std::uint32_t {
  kTypePointer = 32,
  kFunctionParameter = 55,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kAccessChain = 65,
  kInBoundsAccessChain = 66,
  kMatrixLoad = 4457,  // OpCooperativeMatrixLoadKHR
  kMatrixStore = 4458,
};

// Which words of an access are its pointer and its memory operands.
struct Access {
  std::size_t pointer, operands;
};

std::optional<Access> access(std::uint32_t op) {
  switch (op) {
    case kLoad:
      return Access{3, 4};
    case kStore:
      return Access{1, 3};
    case kMatrixLoad:
      return Access{3, 6};
    case kMatrixStore:
      return Access{1, 5};
    default:
      return std::nullopt;
  }
}

// The pointers to shared memory that were defined so far.
class SharedPointers {
 public:
  void define(std::span<const std::uint32_t> instruction) {
    const std::uint32_t op = instruction[0] & 0xffffU;
    if (instruction.size() < 3) return;
    if (op == kTypePointer && instruction[2] == kStorageWorkgroup) types_.insert(instruction[1]);
    const bool is_pointer =
        op == kVariable || op == kFunctionParameter || op == kAccessChain || op == kInBoundsAccessChain;
    if (is_pointer && types_.count(instruction[1]) != 0) pointers_.insert(instruction[2]);
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
  const std::size_t kept = operands + 1 + (mask & kAligned ? 1U : 0U);
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
  std::size_t end =
      std::min(kSpirvHeaderWords, spirv.size());  // of what is written, never beyond what is read
  for (std::size_t i = end; i < spirv.size();) {
    std::size_t length = spirv[i] >> 16U;
    if (length == 0 || length > spirv.size() - i) length = spirv.size() - i;  // as above
    const std::span<std::uint32_t> instruction = std::span(spirv).subspan(i, length);
    shared.define(instruction);
    const auto found = access(instruction[0] & 0xffffU);
    std::size_t kept = length;
    if (found && length > found->operands && shared.has(instruction[found->pointer])) {
      kept = without_coherence(instruction, found->operands);
    }
    std::copy_n(instruction.begin(), kept, spirv.begin() + static_cast<std::ptrdiff_t>(end));
    end += kept;
    i += length;
  }
  spirv.resize(end);
}

}  // namespace vkattn::detail
