// The user's score functions in the tool: --score FILE.glsl and its tables.
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

/// The values of the two options as typed.
struct ScoreArguments {
  std::string file;                  ///< value of --score
  std::vector<std::string> buffers;  ///< values of --score-buffer: NAME=FILE.npy
};

/// Adds --score and --score-buffer.
void add_score_options(CLI::App& app, ScoreArguments& arguments);

/// Adds the files that the options name.
void add_score_files(FileNames& files, const ScoreArguments& arguments);

/// Whether this build can compile score functions.
[[nodiscard]] bool can_compile_scores();
/// Compiles the score function that the problem names. Null if it names none.
[[nodiscard]] Shared<const ScoreShaders> compile_score(const Problem& problem);

/// A compiled score function and its tables in host memory.
class ScoreFile {
 public:
  /// Empty if no file was given. Like everything here it throws CommandError.
  explicit ScoreFile(const ScoreArguments& arguments);

  /// Null if no file was given.
  [[nodiscard]] const Shared<const ScoreShaders>& function() const { return function_; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& tables() const { return tables_; }

 private:
  Shared<const ScoreShaders> function_;
  std::vector<std::vector<std::uint32_t>> tables_;
};

/// The tables on the device, and the score function for the reference. The Runtime and the file must outlive
/// it.
class ScoreOnDevice {
 public:
  ScoreOnDevice(const Runtime& runtime, const ScoreFile& file);

  [[nodiscard]] std::array<BufferRange, kMaxScoreBuffers> buffers() const;
  /// A hook for rows of up to `kv_length` keys. It must not outlive this object.
  [[nodiscard]] reference::ScoreHook hook(std::int64_t kv_length) const;

 private:
  const Runtime& runtime_;
  const ScoreFile& file_;
  std::vector<Buffer> tables_;
};

}  // namespace vkattn::cli
