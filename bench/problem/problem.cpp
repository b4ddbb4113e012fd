// Writes and explains problem strings with the table of words.
#include "problem/problem.hpp"

#include "problem/word_table.hpp"

namespace vkattn::bench {

namespace {

constexpr std::size_t kHelpColumn = 22, kHelpWidth = 80;

/// Text beside a column of examples, broken between words.
std::string help_lines(std::string_view example, std::string_view text) {
  std::string lines = "  " + std::string(example);
  lines.resize(kHelpColumn, ' ');
  std::size_t column = kHelpColumn;
  std::string_view word;
  while (next_piece(text, ' ', word)) {
    const bool first = column == kHelpColumn;
    if (!first && column + 1 + word.size() > kHelpWidth) {
      lines += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

}  // namespace

std::string to_string(const Problem& problem) {
  std::string text;
  const Subject other = problem.operation == Operation::kMatmul ? Subject::kAttention : Subject::kMatmul;
  for (const Word& word : words()) {
    if (word.subject == other) continue;
    const Text value = word.write(problem);
    if (!value.has_value()) continue;
    if (!text.empty()) text += ' ';
    text += word.key;
    if (word.form == Form::kSetting) text += '=';
    text += *value;
  }
  return text;
}

std::string problem_help() {
  std::string text =
      "A problem is one string of words in any order, such as\n"
      "  \"b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right\"\n\n";
  const auto add = [&](bool of_matmul) {
    for (const Word& word : words()) {
      if (word.example.empty() || (word.subject == Subject::kMatmul) != of_matmul) continue;
      text += help_lines(word.example, with_choices(word.help, word));
    }
  };
  add(false);
  text +=
      "\nA matrix multiplication, output = a b + bias, is a string such as\n"
      "  \"matmul 512x256x1024 f16\"\n\n";
  add(true);
  return text;
}

}  // namespace vkattn::bench
