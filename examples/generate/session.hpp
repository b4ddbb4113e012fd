// From a folder and prompts to text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <vkattn/frame_budget.hpp>

#include "generate/tokenizer.hpp"
#include "generate/weights.hpp"

namespace generate {

struct Options {
  std::filesystem::path folder;
  std::vector<std::string> prompts;
  std::int64_t tokens = 128;  // the most that follow a prompt
  std::int64_t context = 0;   // 0: what prompts and tokens need
  std::int64_t chunk = 64;
  std::string weights, cache = "f16";  // names of types; weights empty: as stored
  decoder::Sampling sampling;
  double frame_budget_ms = 0;  // 0: no frames
  std::string picture;         // a PNG of attention weights; empty: none
  std::int64_t layer = -1;     // that the picture shows; below 0: counted from the last
  std::string device;
  bool validation = false;  // collect messages of the validation layer
};

// A checkpoint on a device, with what reads it.
class Speaker {
 public:
  // Checks everything before anything is uploaded, and ends the program with a sentence if something is
  // wrong.
  explicit Speaker(const Options& options);

  // Streams the texts of all prompts to stdout; progress and figures go to stderr. Returns the tokens that
  // follow each prompt.
  std::vector<decoder::Tokens> run();

  [[nodiscard]] decoder::Graph& graph() { return *graph_; }
  [[nodiscard]] const std::vector<std::string>& validation_messages() const {
    return runtime_->validation_messages();
  }
  // Reads the next rows of all texts in one pass.
  void read(decoder::Texts& texts);

 private:
  [[nodiscard]] std::string prompt_name(std::size_t prompt) const;
  [[nodiscard]] std::vector<decoder::Tokens> encoded() const;
  [[nodiscard]] decoder::GraphOptions sizes() const;
  // Of the graph that the picture is drawn from.
  [[nodiscard]] decoder::GraphOptions picture_sizes(std::int64_t tokens) const;
  void check(const decoder::GraphOptions& options, std::uint64_t workspaces) const;
  void make_graph(const decoder::GraphOptions& options);
  void prepare();
  void execute_in_frames(const decoder::Steps& steps);
  [[nodiscard]] bool read_prompts(decoder::Texts& texts);
  void write_texts(decoder::Texts& texts, std::vector<decoder::Tokens>& written);
  [[nodiscard]] bool take_chosen(decoder::Texts& texts, std::size_t text, decoder::Tokens& written) const;
  void draw(decoder::Tokens tokens);
  void print_figures(std::size_t tokens) const;
  void print_frames(std::size_t tokens) const;

  Options options_;
  Model model_;
  Tokenizer tokenizer_;
  std::vector<decoder::Tokens> prompts_;
  decoder::GraphOptions graph_options_;
  Checkpoint checkpoint_;
  std::optional<vkattn::Runtime> runtime_;  // made when everything that needs no device was checked
  decoder::Room room_;
  Weights weights_;
  std::optional<decoder::Graph> graph_;
  double loading_ = 0, first_token_ = 0, decoding_ = 0;  // seconds
  std::size_t prompt_tokens_ = 0;
  std::optional<vkattn::FrameBudget> frames_;
  std::vector<double> slices_;  // ms
};

}  // namespace generate
