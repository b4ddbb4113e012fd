// docs/attention.md: its tables are what the tool prints, its worked examples are right, and its links lead
// to what they name.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "console.hpp"
#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;

using AttentionDocument = RunOnDevice;

/// The lines of docs/attention.md behind a command, up to the next that is not indented, without their
/// indentation.
std::vector<std::string> documented(const std::string& command) {
  std::vector<std::string> lines;
  bool behind = false;
  for (const std::string& line : lines_of(read_file(std::filesystem::path(VKATTN_DOCS) / "attention.md"))) {
    if (line == "    $ vkattn " + command) {
      behind = true;
    } else if (behind && !line.empty() && !line.starts_with("    ")) {
      break;
    } else if (behind && !line.empty()) {
      lines.push_back(line.substr(4));
    }
  }
  EXPECT_FALSE(lines.empty()) << "docs/attention.md does not have: vkattn " << command;
  return lines;
}

/// One unit of a number's last digit.
double last_digit(const std::string& number) {
  const std::size_t point = number.find('.');
  if (point == std::string::npos) return 1;
  const std::size_t end = std::min(number.find_first_not_of("0123456789", point + 1), number.size());
  return number.find('e') == std::string::npos ? std::pow(10.0, -static_cast<double>(end - point - 1)) : 0;
}

/// That each line of a command's table stands in the document: words the same, numbers within 2 % or one unit
/// of their last digit, as devices round differently.
void expect_documented(const std::string& command, const std::string& printed, std::size_t table_lines) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(printed)) {
    const std::vector<std::string> words = words_of(line);
    if (!words.empty() && words[0].find_first_not_of("0123456789") == std::string::npos) rows.push_back(line);
  }
  EXPECT_EQ(rows.size(), table_lines) << printed;
  const std::vector<std::string> lines = documented(command);
  for (const std::string& row : rows) {
    const std::vector<std::string> words = words_of(row);
    const auto same_begin = [&](const std::string& line) { return words_of(line)[0] == words[0]; };
    const auto found = std::ranges::find_if(lines, same_begin);
    ASSERT_NE(found, lines.end()) << row;
    const std::vector<std::string> told = words_of(*found);
    ASSERT_EQ(told.size(), words.size()) << row << "\n" << *found;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto number = [](std::string word) {
        std::erase(word, '(');
        return word.find_first_of("0123456789") == 0 ? std::stod(word) : -1;
      };
      const double a = number(words[i]), b = number(told[i]);
      if (a < 0 || b < 0) {
        EXPECT_EQ(words[i], told[i]);
      } else {
        EXPECT_NEAR(a, b, 1.01 * std::max(0.02 * b, last_digit(words[i]))) << row;
      }
    }
  }
}

TEST_F(AttentionDocument, HasTheTablesOfTheTool) {
  const std::string sweep = "inspect --sweep-dim 4,16,64,256,512 --plot scale.png";
  expect_documented(sweep, printed("inspect --sweep-dim 4,16,64,256,512"), 5);
  const std::string heads = "inspect --text \"" + kSentence + "\" --heads 8 --plot heads.png";
  expect_documented(heads, printed("inspect --text \"" + kSentence + "\" --heads 8"), 8);
}

/// What follows from sizes is the same on every device but for its own name.
TEST_F(AttentionDocument, HasTheMemoryThatTheToolPrints) {
  const std::string command = "inspect --memory 4096 --heads 8";
  std::vector<std::string> told = documented(command), again = lines_of(printed(command));
  std::erase(again, "");
  for (std::vector<std::string>* const lines : {&told, &again}) {
    ASSERT_FALSE(lines->empty());
    EXPECT_TRUE(lines->front().starts_with("device "));
    lines->erase(lines->begin());
  }
  EXPECT_EQ(again, told);
}

/// Links such as [`finish_score()`](../shaders/lib/scores.glsl) lead to files that have the name.
TEST(AttentionDocumentLinks, LeadToFunctionsThatAreThere) {
  const std::filesystem::path folder = VKATTN_DOCS;
  const std::string document = read_file(folder / "attention.md");
  const std::regex link("\\[`([A-Za-z0-9_]+)(\\(\\))?`\\]\\(([^)]+)\\)");
  int links = 0;
  for (auto match = std::sregex_iterator(document.begin(), document.end(), link);
       match != std::sregex_iterator(); ++match) {
    const std::filesystem::path file = folder / (*match)[3].str();
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
    const std::string name = (*match)[1].str() + ((*match)[2].matched ? "(" : "");
    EXPECT_TRUE(has(read_file(file), " " + name)) << file;
    ++links;
  }
  EXPECT_GT(links, 20);
  const std::regex other("\\]\\(([a-z_./]+)[#)]");
  for (auto match = std::sregex_iterator(document.begin(), document.end(), other);
       match != std::sregex_iterator(); ++match) {
    EXPECT_TRUE(std::filesystem::exists(folder / (*match)[1].str())) << (*match)[1].str();
  }
}

/// An array of the document: rows of numbers as Python writes them.
std::string matrix_text(const std::vector<float>& values, std::size_t columns) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += i == 0 ? "[[" : i % columns == 0 ? "], [" : ", ";
    text += console::fixed(static_cast<double>(values[i]), 0);
  }
  return text + "]]";
}

/// A worked example of the document: its numbers, and what they are rounded to there.
struct Worked {
  std::string options;
  std::vector<float> query, key, value;
  std::size_t rows, dim, value_dim;
  std::vector<double> weights, output;
};

TEST_F(AttentionDocument, HasWorkedExamplesThatAreRight) {
  const std::vector<float> two = {1, 0, 1, 0, 0, 1, 0, 1};
  const std::vector<float> query = {1, 0, 2, 2, 2, 2, 2, 1, 3}, key = {0, 1, 1, 4, 4, 0, 2, 3, 1};
  const Worked three{"--scale 1", query, key, {1, 2, 3, 2, 8, 0, 2, 6, 3}, 3, 3, 3, {}, {}};
  std::vector<Worked> examples = {{"", two, two, {2, 3, 5, 7}, 2, 4, 2, {}, {}}, three, three};
  examples[0].weights = {0.731, 0.269, 0.269, 0.731};
  examples[0].output = {2.807, 4.076, 4.193, 5.924};
  examples[1].weights = {0.063, 0.468, 0.468, 0.000, 0.982, 0.018, 0.000, 0.881, 0.119};
  examples[1].output = {1.937, 6.683, 1.595, 2.000, 7.964, 0.054, 2.000, 7.760, 0.358};
  examples[2].options += " --causal";
  examples[2].weights = {1, 0, 0, 0.000, 1.000, 0, 0.000, 0.881, 0.119};
  examples[2].output = {1, 2, 3, 2.000, 8.000, 0.000, 2.000, 7.760, 0.358};
  const std::string document = read_file(std::filesystem::path(VKATTN_DOCS) / "attention.md");
  for (const Worked& worked : examples) {
    SCOPED_TRACE(worked.options);
    const auto shape = [&](std::size_t columns) {
      return Shape{static_cast<std::int64_t>(worked.rows), static_cast<std::int64_t>(columns)};
    };
    write("q", shape(worked.dim), worked.query);
    write("k", shape(worked.dim), worked.key);
    write("v", shape(worked.value_dim), worked.value);
    EXPECT_TRUE(has(document, matrix_text(worked.query, worked.dim)));
    EXPECT_TRUE(has(document, matrix_text(worked.key, worked.dim)));
    EXPECT_TRUE(has(document, matrix_text(worked.value, worked.value_dim)));
    const std::string ran =
        printed("run --query q.npy --key k.npy --value v.npy --output o.npy --weights w.npy --check " +
                worked.options);
    EXPECT_TRUE(has(ran, "passed"));
    const json report = inspected("--query q.npy --key k.npy " + worked.options);
    const json& inspected_rows = report["heads"][0]["scaled"]["weights"];
    const std::vector<float> weights = values("w"), output = values("o");
    const bool causal = worked.options.find("causal") != std::string::npos;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t row = i / worked.rows, column = i % worked.rows;
      EXPECT_NEAR(static_cast<double>(weights[i]), worked.weights[i], 0.00051);
      EXPECT_TRUE(has(document, console::fixed(worked.weights[i], 3)));
      EXPECT_EQ(inspected_rows[row][column].get<float>(), weights[i]);
      if (causal && column > row) {
        EXPECT_EQ(weights[i], 0);
      }
    }
    for (std::size_t i = 0; i < output.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(output[i]), worked.output[i], 0.00051) << i;
      EXPECT_TRUE(has(document, console::fixed(worked.output[i], 3)));
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
