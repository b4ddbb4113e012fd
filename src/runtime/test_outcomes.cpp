// Outcomes of self-tests: see test_outcomes.hpp.
#include "runtime/test_outcomes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/message.hpp"
#include "common/path_text.hpp"
#include "runtime/files.hpp"
#include "runtime/input_file.hpp"

namespace vkattn::detail {

namespace {

constexpr std::string_view kFirstLine = "vkattn self-tests 2";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20U;  // larger files are not ours

// A whole number above 0 and nothing else.
std::optional<std::uint64_t> parse_nanoseconds(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = code == std::errc() && end == text.data() + text.size() && number != 0;
  return is_number ? std::optional(number) : std::nullopt;
}

}  // namespace

void SelfTests::open(const std::filesystem::path& path) {
  path_ = path;
  read();
}

void SelfTests::read() {
  // A program that began a test may have ended since.
  std::erase_if(entries_, [](const auto& entry) { return entry.second.state == State::kBegun; });
  const auto text = read_input(path_, kMostBytes);
  if (!text) return;
  std::string_view rest = *text;
  // A line without an end may be torn.
  for (bool is_first = true; rest.find('\n') != std::string_view::npos; is_first = false) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (is_first && line != kFirstLine) return;
    if (!is_first && !line.empty()) read_line(std::string(line));
  }
}

// "begun TEST", "passed TEST", "timed TEST<tab>NANOSECONDS" or "failed TEST<tab>what went wrong"; other lines
// are ignored.
void SelfTests::read_line(const std::string& line) {
  const std::size_t blank = std::min(line.find(' '), line.size() - 1);
  const std::size_t tab = std::min(line.find('\t'), line.size());
  const std::string_view word = std::string_view(line).substr(0, blank);
  const std::string test = tab > blank ? line.substr(blank + 1, tab - blank - 1) : "";
  const std::string rest = tab < line.size() ? line.substr(tab + 1) : "";
  if (test.empty()) return;
  if (word == "begun" && rest.empty()) entries_[test] = {State::kBegun, {}};
  if (word == "passed" && rest.empty()) entries_[test] = {State::kEnded, {}};
  if (word == "failed" && !rest.empty()) entries_[test] = {State::kEnded, {rest, 0}};
  if (const auto time = parse_nanoseconds(rest); word == "timed" && time) {
    entries_[test] = {State::kEnded, {{}, *time}};
  }
}

void SelfTests::write() const {
  if (path_.empty()) return;
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [test, entry] : entries_) {
    const TestOutcome& outcome = entry.outcome;
    std::string one_line = outcome.failure;
    std::replace(one_line.begin(), one_line.end(), '\n', ' ');
    text += entry.state == State::kBegun ? message("begun ", test, "\n")
            : !one_line.empty()          ? message("failed ", test, "\t", one_line, "\n")
            : outcome.nanoseconds != 0   ? message("timed ", test, "\t", outcome.nanoseconds, "\n")
                                         : message("passed ", test, "\n");
  }
  const std::string_view pieces[] = {text};
  (void)replace_file(path_, pieces);
}

std::optional<TestOutcome> SelfTests::find(const std::string& test) const {
  const auto found = entries_.find(test);
  const bool known = found != entries_.end() && found->second.state != State::kBegun;
  return known ? std::optional(found->second.outcome) : std::nullopt;
}

void SelfTests::set(const std::string& test, TestOutcome outcome) {
  entries_[test] = {State::kEnded, std::move(outcome)};
  write();
}

Result<TestOutcome> SelfTests::run_marked(const std::string& test,
                                          const std::function<Result<TestOutcome>()>& body) {
  // Removes the mark however the test is left, unless the program ends.
  struct Mark {
    SelfTests& tests;
    const std::string& test;
    bool is_set = true;
    ~Mark() {
      if (!is_set) return;
      tests.entries_.erase(test);
      (void)without_exceptions([this]() -> Result<void> {
        tests.write();
        return {};
      });
    }
  };
  entries_[test] = {State::kBegun, {}};
  Mark mark{*this, test};
  write();
  auto outcome = body();
  const bool lost = !outcome && outcome.error().code == ErrorCode::kDeviceLost;
  if (!outcome && !lost) return outcome;
  // The next runtime must not lose its device to the same test.
  set(test, lost ? TestOutcome{"the device was lost", 0} : *outcome);
  mark.is_set = false;
  return outcome;
}

Result<TestOutcome> SelfTests::run(const std::string& test,
                                   const std::function<Result<TestOutcome>()>& body) {
  if (path_.empty()) return run_marked(test, body);
  FileLock lock;
  const FileLock::Status status = lock.take(path_);
  if (status == FileLock::Status::kImpossible) return run_marked(test, body);
  read();
  if (auto outcome = find(test)) return *std::move(outcome);
  if (status == FileLock::Status::kBusy) {
    return unsupported("another program has been testing this device for ", FileLock::kPatience.count(),
                       " seconds");
  }
  if (!entries_.contains(test)) return run_marked(test, body);
  // Nobody runs it now, and nobody saw its end.
  set(test,
      {message("the program ended during the test; to have it run again, remove ", path_text(path_)), 0});
  return entries_[test].outcome;
}

}  // namespace vkattn::detail
