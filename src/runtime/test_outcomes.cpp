// Outcomes of self-tests: see test_outcomes.hpp.
#include "runtime/test_outcomes.hpp"

#include <vkattn/self_test.hpp>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "common/message.hpp"
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
  std::ifstream file(path, std::ios::binary);  // with the ends of lines that add() writes
  std::string line;
  if (!std::getline(file, line) || line != kFirstLine) return;
  // "passed CONFIGURATION" or "failed CONFIGURATION<tab>what went wrong"; other lines are ignored.
  while (std::getline(file, line)) {
    const std::size_t tab = line.find('\t');
    if (line.rfind("passed ", 0) == 0) {
      outcomes_[line.substr(7)].clear();
    } else if (line.rfind("failed ", 0) == 0 && tab != std::string::npos && tab + 1 < line.size()) {
      outcomes_[line.substr(7, tab - 7)] = line.substr(tab + 1);
    }
  }
}

std::optional<std::string> SelfTests::find(const std::string& configuration) const {
  const auto found = outcomes_.find(configuration);
  return found != outcomes_.end() ? std::optional(found->second) : std::nullopt;
}

void SelfTests::add(const std::string& configuration, const std::string& failure) {
  outcomes_[configuration] = failure;
  if (path_.empty()) return;
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [name, outcome] : outcomes_) {
    std::string one_line = outcome;
    std::replace(one_line.begin(), one_line.end(), '\n', ' ');
    text += outcome.empty() ? message("passed ", name, "\n") : message("failed ", name, "\t", one_line, "\n");
  }
  const std::string_view pieces[] = {text};
  (void)replace_file(path_, pieces);
}

}  // namespace vkattn::detail
