// Reads problems from a command line.
#include "problem_list.hpp"

#include <string_view>

#include "console.hpp"
#include "error.hpp"
#include "problem/problem.hpp"
#include "problem/words.hpp"

namespace vkattn::cli {

using bench::parse_problem;

std::string suite_names() {
  std::string names;
  for (const bench::Suite& suite : bench::suites())
    names += (names.empty() ? "" : ", ") + std::string(suite.name);
  return names;
}

const bench::Suite& require_suite(const std::string& name) {
  if (const bench::Suite* const suite = bench::find_suite(name)) return *suite;
  std::vector<std::string_view> names;
  for (const bench::Suite& suite : bench::suites()) names.push_back(suite.name);
  const auto meant = bench::closest_word(name, names);
  fail_usage("there is no suite '" + console::printable(name) + "'; " +
             (meant ? "did you mean '" + std::string(*meant) + "'? " : "") + "the suites are " +
             suite_names());
}

namespace {

/// If the words have no spaces, they are the words of one problem whose quotes were forgotten.
std::vector<std::string> problem_strings(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) {
    if (word.find(' ') != std::string::npos) return words;
    joined += (joined.empty() ? "" : " ") + word;
  }
  return words.empty() ? words : std::vector<std::string>{joined};
}

}  // namespace

std::vector<bench::NamedProblem> read_problems(std::string_view command,
                                               const std::vector<std::string>& words,
                                               const std::string& suite) {
  std::vector<bench::NamedProblem> problems;
  if (!suite.empty()) {
    if (!words.empty()) {
      fail_usage("give either problems or --suite, not both ('" + console::printable(words.front()) + "')");
    }
    for (const bench::SuiteProblem& entry : require_suite(suite).problems) {
      problems.push_back({std::string(entry.name), take(parse_problem(entry.problem))});
    }
    return problems;
  }
  if (words.empty()) {
    fail_usage(std::string(command) +
               " needs a problem such as \"b1 h8 512x512 d64\", or --suite with one of " + suite_names());
  }
  for (const std::string& text : problem_strings(words)) {
    if (bench::find_suite(text) != nullptr)
      fail_usage("'" + text + "' is a suite: " + std::string(command) + " --suite " + text);
    problems.push_back({text, take(parse_problem(text))});
  }
  return problems;
}

}  // namespace vkattn::cli
