// Makes a score function from the files of --score and --score-buffer.
#include "score_file.hpp"

#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "harness/score_problem.hpp"
#include "npy.hpp"
#include "runtime/input_file.hpp"
#include "score_rows.hpp"
#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
#include <vkattn/score_function.hpp>
#endif

namespace vkattn::cli {
namespace {

constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20U;

std::string read_source(const std::string& path) {
  const std::string shown = console::printable(path);
  Result<std::string> read = detail::read_input_or_pipe(path, kMostSourceBytes);
  if (!read.ok()) fail_usage(shown + ": " + read.error().message);
  std::string text = *std::move(read);
  if (text.empty()) fail_usage(shown + ": the file is empty");
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    fail_usage(shown + ": this text is UTF-16; save it as UTF-8");
  }
  // Some editors write it at the start of UTF-8 text, but GLSL does not know it.
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

ScoreBufferType buffer_type(npy::ElementType type) {
  return npy::is_float(type)      ? ScoreBufferType::kFloat
         : npy::is_unsigned(type) ? ScoreBufferType::kUint
                                  : ScoreBufferType::kInt;
}

/// Floats of any width become float32. Signed integers become int32, unsigned ones uint32.
std::vector<std::uint32_t> read_table(npy::Reader& reader) {
  const npy::Header& header = reader.header();
  const auto elements = static_cast<std::size_t>(header.elements);
  const std::string path = reader.path().string();
  if (elements == 0) fail_usage(path + ": a table of a score function needs an element");
  if (header.fortran_order && header.shape.size() > 1) {
    fail_usage(path + ": in Fortran order, but a score function reads its table in C order; " +
               "save numpy.ascontiguousarray(array)");
  }
  std::vector<std::uint32_t> table(elements);
  if (npy::is_float(header.type)) {
    std::vector<std::byte> raw(header.data_bytes());
    require(reader.read(raw));
    const std::uint64_t overflowed =
        npy::convert(header, raw, DataType::kFloat32, std::as_writable_bytes(std::span(table)));
    if (overflowed != 0) {
      fail_usage(path + ": " + console::count(overflowed, "value") + (overflowed == 1 ? " does" : " do") +
                 " not fit float32");
    }
    return table;
  }
  const std::vector<std::int64_t> values = take(npy::read_integers(reader, header.elements));
  const bool is_unsigned = npy::is_unsigned(header.type);
  const std::int64_t least = is_unsigned ? 0 : std::numeric_limits<std::int32_t>::min();
  const std::int64_t most = is_unsigned ? std::int64_t{std::numeric_limits<std::uint32_t>::max()}
                                        : std::int64_t{std::numeric_limits<std::int32_t>::max()};
  for (std::size_t i = 0; i < elements; ++i) {
    if (values[i] < least || values[i] > most) {
      fail_usage(path + ": " + std::to_string(values[i]) + " at index " + std::to_string(i) +
                 " does not fit " + (is_unsigned ? "uint32" : "int32"));
    }
    table[i] = static_cast<std::uint32_t>(values[i]);
  }
  return table;
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
Shared<const ScoreShaders> compile(std::string source, const std::string& path,
                                   std::vector<ScoreBuffer> buffers) {
  return take(ScoreFunction::create({std::move(source), path, std::move(buffers)}));
}
#else
Shared<const ScoreShaders> compile(const std::string&, const std::string&, const std::vector<ScoreBuffer>&) {
  fail_usage(
      "score functions are not in this build, which was made without the glslang library (CMake: "
      "VKATTN_BUILD_SCORE_FUNCTIONS)");
}
#endif

}  // namespace

bool can_compile_scores() {
#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
  return true;
#else
  return false;
#endif
}

Shared<const ScoreShaders> compile_score(const Problem& problem) {
  harness::ScoreText score = harness::score_text(problem);
  if (score.source.empty()) return nullptr;
  return compile(std::move(score.source), score.name, std::move(score.buffers));
}

void add_score_options(CLI::App& app, ScoreArguments& arguments) {
  add_value(app, "--score", arguments.file, "FILE.glsl",
            "Score function in GLSL: float score(float s, Position p), bool visible(Position p), or both; a "
            "file, or a pipe as the shell gives one for <(COMMAND)");
  add_values(app, "--score-buffer", arguments.buffers, "NAME=T.npy",
             "Table that the score function reads as NAME(index): of floats float, of integers int, of "
             "unsigned ones uint; up to 4");
}

void add_score_files(FileNames& files, const ScoreArguments& arguments) {
  files.add_input("--score", arguments.file);
  for (const std::string& word : arguments.buffers) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) files.add_input("--score-buffer", word.substr(equals + 1));
  }
}

ScoreFile::ScoreFile(const ScoreArguments& arguments) {
  if (arguments.file.empty()) {
    if (!arguments.buffers.empty())
      fail_usage("--score-buffer gives a score function its table, so it needs --score");
    return;
  }
  std::vector<ScoreBuffer> buffers;
  for (const std::string& word : arguments.buffers) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      fail_usage("--score-buffer needs NAME=FILE.npy, not '" + console::printable(word) + "'");
    }
    npy::Reader reader = take(npy::Reader::open(word.substr(equals + 1)));
    buffers.push_back({word.substr(0, equals), buffer_type(reader.header().type)});
    tables_.push_back(read_table(reader));
  }
  function_ = compile(read_source(arguments.file), arguments.file, std::move(buffers));
}

ScoreOnDevice::ScoreOnDevice(const Runtime& runtime, const ScoreFile& file) : runtime_(runtime), file_(file) {
  for (const std::vector<std::uint32_t>& table : file.tables()) {
    const auto bytes = std::as_bytes(std::span(table));
    tables_.push_back(take(runtime.create_buffer(bytes.size())));
    require(runtime.write(tables_.back(), 0, bytes));
  }
}

std::array<BufferRange, kMaxScoreBuffers> ScoreOnDevice::buffers() const {
  std::array<BufferRange, kMaxScoreBuffers> ranges;
  for (std::size_t i = 0; i < tables_.size(); ++i) ranges[i] = tables_[i].range();
  return ranges;
}

reference::ScoreHook ScoreOnDevice::hook(std::int64_t kv_length) const {
  return bench::ScoreRows::hook(
      take(bench::ScoreRows::create(runtime_, *file_.function(), buffers(), kv_length)));
}

}  // namespace vkattn::cli
