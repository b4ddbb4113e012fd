// The instructions of a SPIR-V module (SPIR-V 1.6, section 2.3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace vkattn::detail {

inline constexpr std::size_t kSpirvHeaderWords = 5;  ///< before a module's first instruction

/// One of a module's instructions: its first word has its length and its opcode.
template <class Word>
struct SpirvInstruction {
  std::size_t begin = 0;  ///< its place in the module
  std::span<Word> words;  ///< one at least, of the module's own
  [[nodiscard]] std::uint32_t opcode() const { return words[0] & 0xffffU; }
  [[nodiscard]] std::size_t end() const { return begin + words.size(); }
};

/// A module's instructions, to be gone through with `for`. Where words begin no instruction or one that is
/// longer than the module, they are no SPIR-V, and the instructions end before them: the driver will say so.
/// An instruction that is gone through may be changed, its length too: the next one is where it was.
template <class Word>
class SpirvInstructions {
 public:
  explicit SpirvInstructions(std::span<Word> module, std::size_t first = kSpirvHeaderWords)
      : module_(module), first_(first) {}

  class Iterator {
   public:
    Iterator(std::span<Word> module, std::size_t begin) : module_(module) { read(begin); }
    const SpirvInstruction<Word>& operator*() const { return instruction_; }
    Iterator& operator++() {
      read(instruction_.end());
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return instruction_.words.empty(); }

   private:
    void read(std::size_t begin) {
      const std::size_t left = module_.size() - begin;
      const std::size_t length = left > 0 ? module_[begin] >> 16U : 0;
      instruction_ = {begin, module_.subspan(begin, length <= left ? length : 0)};
    }
    std::span<Word> module_;
    SpirvInstruction<Word> instruction_;
  };

  [[nodiscard]] Iterator begin() const { return {module_, std::min(first_, module_.size())}; }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

 private:
  std::span<Word> module_;
  std::size_t first_;
};

template <class Word>
[[nodiscard]] SpirvInstructions<Word> instructions_of(std::span<Word> module) {
  return SpirvInstructions<Word>(module);
}
[[nodiscard]] inline auto instructions_of(const std::vector<std::uint32_t>& module) {
  return SpirvInstructions(std::span(module));
}

}  // namespace vkattn::detail
