// Execution modes: see execution_modes.hpp.
#include "spirv/execution_modes.hpp"

#include <cstddef>

#include "spirv/new_words.hpp"
#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

// Numbers of SPIR-V 1.6 and of SPV_KHR_maximal_reconvergence, SPV_KHR_subgroup_uniform_control_flow and
// SPV_KHR_float_controls.
constexpr std::uint32_t kFloat16 = 9;
constexpr std::uint32_t kFirstOfSubgroups = 61;  // GroupNonUniform
constexpr std::uint32_t kLastOfSubgroups = 68;   // GroupNonUniformQuad
constexpr std::uint32_t kCooperativeMatrix = 6022;
constexpr std::uint32_t kRoundingModeRte = 4467;
constexpr std::uint32_t kModeSubgroupUniformControlFlow = 4421;
constexpr std::uint32_t kModeRoundingRte = 4462;
constexpr std::uint32_t kModeMaximallyReconverges = 6023;

// The kind of a shader, and the places of declarations.
struct Shader {
  bool has_subgroups = false;
  bool has_float16 = false;
  std::size_t capabilities_end = 0;
  std::size_t entry_end = 0;  // 0: none was found
  std::uint32_t entry = 0;

  explicit Shader(const SpirvWords& spirv) {
    for (const auto& instruction : instructions_of(spirv)) {
      const auto words = instruction.words;
      if (instruction.opcode() == spirv_op::kCapability && words.size() == 2) {
        const std::uint32_t capability = words[1];
        has_float16 |= capability == kFloat16;
        has_subgroups |= capability == kCooperativeMatrix ||
                         (capability >= kFirstOfSubgroups && capability <= kLastOfSubgroups);
        capabilities_end = instruction.end();
      }
      if (instruction.opcode() == spirv_op::kEntryPoint && words.size() >= 4) {
        entry = words[2];
        entry_end = instruction.end();
        return;
      }
    }
  }
};

}  // namespace

void declare_execution_modes(SpirvWords& spirv, const ExecutionModes& modes) {
  const Shader shader(spirv);
  if (shader.entry_end == 0 || shader.capabilities_end == 0) return;
  SpirvWords capabilities, extensions, declarations;
  if (modes.maximal_reconvergence && shader.has_subgroups) {
    add_extension(extensions, "SPV_KHR_maximal_reconvergence");
    add_instruction(declarations, spirv_op::kExecutionMode, {shader.entry, kModeMaximallyReconverges});
  }
  if (modes.subgroup_uniform_control_flow && shader.has_subgroups) {
    add_extension(extensions, "SPV_KHR_subgroup_uniform_control_flow");
    add_instruction(declarations, spirv_op::kExecutionMode, {shader.entry, kModeSubgroupUniformControlFlow});
  }
  if (modes.float16_to_nearest && shader.has_float16) {
    add_instruction(capabilities, spirv_op::kCapability, {kRoundingModeRte});
    add_extension(extensions, "SPV_KHR_float_controls");
    constexpr std::uint32_t kBits = 16;
    add_instruction(declarations, spirv_op::kExecutionMode, {shader.entry, kModeRoundingRte, kBits});
  }
  const auto at = [&](std::size_t word) { return spirv.begin() + static_cast<std::ptrdiff_t>(word); };
  spirv.insert(at(shader.entry_end), declarations.begin(), declarations.end());
  capabilities.insert(capabilities.end(), extensions.begin(), extensions.end());
  spirv.insert(at(shader.capabilities_end), capabilities.begin(), capabilities.end());
}

}  // namespace vkattn::detail
