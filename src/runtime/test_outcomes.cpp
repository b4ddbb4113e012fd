// Outcomes of self-tests: see test_outcomes.hpp.
#include "runtime/test_outcomes.hpp"

#include <vkattn/self_test.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "common/path_text.hpp"
#include "runtime/files.hpp"

namespace vkattn::detail {

namespace {

constexpr std::string_view kFirstLine = "vkattn self-tests 1";

}  // namespace

Result<std::string> run_self_test(const Runtime& runtime, const AttentionPlan& plan) {
  const auto test = SelfTest::create(runtime.device(), plan, runtime.pipeline_cache());
  if (!test) return test.error();
  const auto buffer = runtime.create_buffer(test->buffer_bytes());
  if (!buffer) return buffer.error();
  std::vector<std::byte> bytes(static_cast<std::size_t>(test->buffer_bytes()));
  if (Result<void> s = test->fill(bytes); !s) return s.error();
  if (Result<void> s = runtime.write(*buffer, 0, bytes); !s) return s.error();
  const auto bindings = test->make_bindings(buffer->range());
  if (!bindings) return bindings.error();
  const auto done = runtime.execute([&](VkCommandBuffer commands) { test->record(commands, *bindings); });
  if (!done) return done.error();
  if (Result<void> s = runtime.read(*buffer, 0, bytes); !s) return s.error();
  return test->check(bytes);
}

void SelfTests::open(const std::filesystem::path& path) {
  path_ = path;
  read();
}

void SelfTests::read() {
  // Who began may have ended since.
  std::erase_if(outcomes_, [](const auto& entry) { return entry.second.state == State::kBegun; });
  std::ifstream file(path_, std::ios::binary);  // with the ends of lines that write() writes
  std::string line;
  if (!std::getline(file, line) || line != kFirstLine) return;
  // "passed CONFIGURATION", "begun CONFIGURATION" or "failed CONFIGURATION<tab>what went wrong"; other lines
  // are ignored.
  while (std::getline(file, line)) {
    const std::size_t tab = line.find('\t');
    if (line.rfind("passed ", 0) == 0) {
      outcomes_[line.substr(7)] = {State::kPassed, {}};
    } else if (line.rfind("begun ", 0) == 0) {
      outcomes_[line.substr(6)] = {State::kBegun, {}};
    } else if (line.rfind("failed ", 0) == 0 && tab != std::string::npos && tab + 1 < line.size()) {
      outcomes_[line.substr(7, tab - 7)] = {State::kFailed, line.substr(tab + 1)};
    }
  }
}

void SelfTests::write() const {
  if (path_.empty()) return;
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [name, outcome] : outcomes_) {
    std::string one_line = outcome.failure;
    std::replace(one_line.begin(), one_line.end(), '\n', ' ');
    text += outcome.state == State::kPassed  ? message("passed ", name, "\n")
            : outcome.state == State::kBegun ? message("begun ", name, "\n")
                                             : message("failed ", name, "\t", one_line, "\n");
  }
  const std::string_view pieces[] = {text};
  (void)replace_file(path_, pieces);
}

std::optional<std::string> SelfTests::find(const std::string& configuration) const {
  const auto found = outcomes_.find(configuration);
  const bool known = found != outcomes_.end() && found->second.state != State::kBegun;
  return known ? std::optional(found->second.failure) : std::nullopt;
}

void SelfTests::set(const std::string& configuration, std::string failure) {
  const State state = failure.empty() ? State::kPassed : State::kFailed;
  outcomes_[configuration] = {state, std::move(failure)};
  write();
}

Result<std::string> SelfTests::run_marked(const std::string& configuration,
                                          const std::function<Result<std::string>()>& test) {
  // However the test is left, but by the program's end.
  struct Mark {
    SelfTests& tests;
    const std::string& configuration;
    bool is_set = true;
    ~Mark() {
      if (!is_set) return;
      tests.outcomes_.erase(configuration);
      (void)without_exceptions([this]() -> Result<void> {
        tests.write();
        return {};
      });
    }
  };
  outcomes_[configuration] = {State::kBegun, {}};
  Mark mark{*this, configuration};
  write();
  auto outcome = test();
  const bool lost = !outcome && outcome.error().code == ErrorCode::kDeviceLost;
  if (!outcome && !lost) return outcome;
  // The next runtime must not lose its device to the same test.
  set(configuration, lost ? "the device was lost" : *outcome);
  mark.is_set = false;
  return outcome;
}

Result<std::string> SelfTests::run(const std::string& configuration,
                                   const std::function<Result<std::string>()>& test) {
  if (path_.empty()) return run_marked(configuration, test);
  constexpr std::chrono::seconds kPatience{20};
  FileLock lock;
  std::filesystem::path lock_file = path_.parent_path() / "lock-";
  lock_file += path_.filename();
  const FileLock::Status status = lock.take(lock_file, kPatience);
  if (status == FileLock::Status::kImpossible) return run_marked(configuration, test);
  read();
  if (auto outcome = find(configuration)) return *std::move(outcome);
  if (status == FileLock::Status::kBusy) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("another program has been testing this device for ", kPatience.count(), " seconds")};
  }
  if (outcomes_.count(configuration) == 0) return run_marked(configuration, test);
  // Nobody runs it now, and nobody saw its end.
  set(configuration,
      message("the program ended during the test; to have it run again, remove ", path_text(path_)));
  return outcomes_[configuration].failure;
}

}  // namespace vkattn::detail
