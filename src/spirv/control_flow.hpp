// Functions and blocks of a SPIR-V module (SPIR-V 1.6, sections 2.4 and 2.11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "spirv/spirv.hpp"

namespace vkattn::detail {

using ConstInstruction = SpirvInstruction<const std::uint32_t>;

struct SpirvBlock {
  std::uint32_t label = 0;
  std::size_t function = 0;        ///< its index
  std::size_t begin = 0, end = 0;  ///< words
  std::size_t merge = 0;           ///< the word of its OpSelectionMerge or OpLoopMerge; 0: it has none
  std::size_t terminator = 0;      ///< the word of its last instruction, which is one
  bool has_phi = false;
};

struct SpirvFunction {
  std::uint32_t id = 0;
  std::size_t begin = 0, end = 0;                ///< words
  std::size_t first_block = 0, block_count = 0;  ///< in the order of the module
};

/// Where the functions and blocks of a module are. The words stay the caller's.
class ControlFlow {
 public:
  /// Nothing where words are no SPIR-V, where ids are sparse, or where something is declared that the
  /// project's compilers leave out: debug information, groups of decorations, functions without a body.
  [[nodiscard]] static std::optional<ControlFlow> read(std::span<const std::uint32_t> spirv);

  [[nodiscard]] std::span<const std::uint32_t> spirv() const { return spirv_; }
  [[nodiscard]] std::size_t bound() const { return places_.size(); }  ///< ids are below
  [[nodiscard]] const std::vector<SpirvBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<SpirvFunction>& functions() const { return functions_; }
  [[nodiscard]] std::uint32_t entry() const { return entry_; }  ///< the function that is run
  [[nodiscard]] std::size_t functions_begin() const { return functions_.front().begin; }  ///< a word

  [[nodiscard]] std::optional<std::size_t> block_of(std::uint32_t label) const {
    return label < places_.size() ? places_[label].block : std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> function_of(std::uint32_t id) const {
    return id < places_.size() ? places_[id].function : std::nullopt;
  }
  [[nodiscard]] ConstInstruction at(std::size_t word) const {
    return {word, spirv_.subspan(word, spirv_[word] >> 16U)};
  }
  /// Instructions from a word on to before another.
  [[nodiscard]] auto between(std::size_t begin, std::size_t end) const {
    return SpirvInstructions(spirv_.first(end), begin);
  }

 private:
  struct Places {
    std::optional<std::size_t> block, function;
  };

  explicit ControlFlow(std::span<const std::uint32_t> spirv);
  [[nodiscard]] bool add(const ConstInstruction& instruction);
  [[nodiscard]] bool add_outside(const ConstInstruction& instruction);
  [[nodiscard]] bool add_label(const ConstInstruction& instruction);

  std::span<const std::uint32_t> spirv_;
  std::vector<Places> places_;  // of ids
  std::vector<SpirvBlock> blocks_;
  std::vector<SpirvFunction> functions_;
  std::uint32_t entry_ = 0;
  bool in_function_ = false;
  bool is_ended_ = false;  // the last block, by its terminator
};

}  // namespace vkattn::detail
