// The common parts of the subcommands: options with aligned help, numbers, output.
#include "command.hpp"

#include <vkattn/attention_plan.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "console.hpp"
#include "error.hpp"
#include "harness/unfused_plan.hpp"
#include "problem/words.hpp"

namespace vkattn::cli {
namespace {

/// The width of --help. Longer lines are hard to read.
std::size_t help_width() {
  return std::min<std::size_t>(console::line_width(), 100);
}

/// Joins the lines of each command that was broken for another width.
std::string joined_commands(std::string_view text) {
  std::string joined;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\\\n"), text.size());
    joined += text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return joined;
}

/// Breaks an example's command before options with the shell's sign for a continued line.
std::string broken_command(std::string_view line) {
  const std::string indent(12, ' ');
  std::string text;
  for (std::size_t room = help_width(); console::display_width(line) > room;
       room = help_width() - indent.size()) {
    const std::size_t at = line.rfind(" --", room - 2);
    if (at == std::string_view::npos || at == 0) break;
    text += std::string(line.substr(0, at)) + " \\\n" + indent;
    line.remove_prefix(at);
  }
  return text + std::string(line) + "\n";
}

/// Breaks each paragraph anew. A line that begins with a space stays, or is a command.
std::string broken_paragraphs(std::string_view broken) {
  const std::string joined = joined_commands(broken);
  std::string_view text = joined, line;
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string whole, paragraph;
  const auto end_paragraph = [&] {
    if (paragraph.empty()) return;
    for (const std::string& piece : console::wrap(paragraph, help_width())) whole += piece + "\n";
    paragraph.clear();
  };
  while (bench::next_piece(text, '\n', line)) {
    if (line.empty() || line.front() == ' ') {
      end_paragraph();
      whole += broken_command(line);
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
    }
  }
  end_paragraph();
  return whole;
}

/// CLI11's help with a usage line that names the required arguments.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(kHelpNameWidth); }
  std::string make_description(const CLI::App* app) const override {
    return broken_paragraphs(app->get_description()) + "\n";
  }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return console::labelled("Usage: ", usage_, 7, 0, help_width());
  }
  /// make_help() adds the footer, because CLI11's versions differ in the blank line before it.
  std::string make_footer(const CLI::App* /*app*/) const override { return {}; }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    text.resize(text.find_last_not_of('\n') + 1);
    return text + "\n\n" + broken_paragraphs(app->get_footer());
  }

  [[nodiscard]] const std::string& usage() const { return usage_; }

 private:
  std::string usage_;
};

/// Breaks lines. CLI11 indents text after a line break but does not break lines itself.
std::string broken_lines(std::string_view description) {
  std::string text;
  for (const std::string& line : console::wrap(description, help_width() - kHelpNameWidth)) {
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

template <class T>
T parse(const std::string& option, const std::string& text, const char* what) {
  T value{};
  switch (bench::read_number(text, value)) {
    case bench::NumberError::kNone:
      return value;
    case bench::NumberError::kOutOfRange:
      fail_usage(option + " '" + console::printable(text) + "' is out of range for " + what);
    case bench::NumberError::kMalformed:
      break;
  }
  fail_usage(option + " needs " + what + ", not '" + console::printable(text) + "'");
}

}  // namespace

CLI::App& add_subcommand(CLI::App& parent, const std::string& name, const std::string& description) {
  return *parent.add_subcommand(name, description);
}

void set_help(CLI::App& app, const std::string& usage, const std::string& footer) {
  app.formatter(std::make_shared<HelpFormatter>(usage));
  app.footer(footer);
}

std::string usage_of(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<const HelpFormatter>(app.get_formatter());
  return formatter ? formatter->usage() : std::string();
}

void add_value(CLI::App& app, const std::string& name, std::string& value, const std::string& metavar,
               std::string_view description) {
  CLI::Option* const option = app.add_option(name, value, broken_lines(description));
  option->type_name(metavar)->option_text(metavar)->type_size(1)->expected(1);
}

void add_values(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                const std::string& metavar, std::string_view description) {
  CLI::Option* const option = app.add_option(name, values, broken_lines(description));
  option->type_name(metavar)->option_text(metavar)->type_size(1)->allow_extra_args(false);
}

void add_switch(CLI::App& app, const std::string& name, bool& value, std::string_view description) {
  app.add_flag(name, value, broken_lines(description));
}

void add_words(CLI::App& app, const std::string& name, std::vector<std::string>& words,
               std::string_view description) {
  app.add_option(name, words, broken_lines(description))->type_name("")->option_text("...");
}

double parse_number(const std::string& option, const std::string& text) {
  const auto value = parse<double>(option, text, "a number");
  if (!std::isfinite(value))
    fail_usage(option + " needs a finite number, not '" + console::printable(text) + "'");
  return value;
}

std::int64_t parse_integer(const std::string& option, const std::string& text) {
  return parse<std::int64_t>(option, text, "a whole number");
}

void require_known_kernel(const std::string& kernel, KernelNames which) {
  if (kernel.empty()) return;
  std::vector<std::string_view> names;
  for (const KernelSupport& support : kernel_support(AttentionDesc{}, Capabilities{})) {
    names.push_back(support.kernel);
  }
  if (which == KernelNames::kBenchmark) {
    names.push_back(harness::kUnfused);
  } else if (kernel == harness::kUnfused) {
    fail_usage("unfused is no kernel but the benchmark's baseline: vkattn bench --kernel unfused runs it");
  }
  if (std::ranges::find(names, kernel) != names.end()) return;
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  const std::optional<std::string_view> meant = bench::closest_word(kernel, names);
  fail_usage("there is no kernel '" + console::printable(kernel) + "'; " +
             (meant ? "did you mean '" + std::string(*meant) + "'? " : "") + "the kernels are " + list);
}

void print_warning(std::string_view text) {
  std::fprintf(stderr, "vkattn: warning: %s\n", console::printable(text).c_str());
}

void print(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  fail_usage("standard output cannot be written: " + std::generic_category().message(errno));
}

}  // namespace vkattn::cli
