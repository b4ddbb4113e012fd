// Score functions of the user's own for the tool: --score FILE.glsl and its tables.
#pragma once

#include <vkattn/runtime.hpp>
#include <vkattn/score_shaders.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "file_names.hpp"
#include "problem/problem.hpp"
#include "reference/reference.hpp"

namespace vkattn::cli {

using bench::Problem;

/// The words of the two options as typed.
struct ScoreArguments {
  std::string file;                  ///< of --score
  std::vector<std::string> buffers;  ///< of each --score-buffer: NAME=FILE.npy
};

/// --score and --score-buffer.
void add_score_options(CLI::App& app, ScoreArguments& arguments);

/// The files that they name.
void add_score_files(FileNames& files, const ScoreArguments& arguments);

/// Whether compile_score() does more than fail in this build.
[[nodiscard]] bool can_compile_scores();
/// The score function that the problem brings along; null where it has none.
[[nodiscard]] Shared<const ScoreShaders> compile_score(const Problem& problem);

/// A compiled score function and its tables in host memory.
class ScoreFile {
 public:
  /// Nothing where no file was given. Like all here: throws CommandError.
  explicit ScoreFile(const ScoreArguments& arguments);

  /// Null where there is none.
  [[nodiscard]] const Shared<const ScoreShaders>& function() const { return function_; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& tables() const { return tables_; }

 private:
  Shared<const ScoreShaders> function_;
  std::vector<std::vector<std::uint32_t>> tables_;
};

/// The tables on the device, and the function for the reference. The Runtime and the file must outlive it.
class ScoreOnDevice {
 public:
  ScoreOnDevice(const Runtime& runtime, const ScoreFile& file);

  [[nodiscard]] std::array<BufferRange, kMaxScoreBuffers> buffers() const;
  /// Of rows of up to `kv_length` keys. It must not outlive this object.
  [[nodiscard]] reference::ScoreHook hook(std::int64_t kv_length) const;

 private:
  const Runtime& runtime_;
  const ScoreFile& file_;
  std::vector<Buffer> tables_;
};

}  // namespace vkattn::cli
