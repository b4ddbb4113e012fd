// From a folder and prompts to text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <vkattn/frame_budget.hpp>

#include "generate/room.hpp"
#include "generate/tokenizer.hpp"

namespace generate {

struct Options {
  std::filesystem::path folder;
  std::vector<std::string> prompts;
  std::int64_t tokens = 128;  // the most that follow a prompt
  std::int64_t context = 0;   // 0: what prompts and tokens need
  std::int64_t chunk = 64;
  std::string weights, cache = "f16";  // names of types; weights empty: as stored
  Sampling sampling;
  double frame_budget_ms = 0;  // 0: no frames
  std::string picture;         // a PNG of attention weights; empty: none
  std::int64_t layer = -1;     // that the picture shows; below 0: counted from the last
  std::string device;
  bool validation = false;  // collect messages of the validation layer
};

struct Outcome {
  std::vector<std::vector<std::uint32_t>> tokens;  // that follow each prompt
  std::vector<std::string> validation_messages;
};

// A checkpoint on a device, with what reads it.
class Speaker {
 public:
  // Checks everything before anything is uploaded, and ends the program with a sentence if something is
  // wrong.
  explicit Speaker(const Options& options);

  // The texts of all prompts, streamed to stdout; progress and figures go to stderr.
  Outcome run();

  [[nodiscard]] Graph& graph() { return *graph_; }
  [[nodiscard]] const std::vector<std::string>& validation_messages() const {
    return runtime_->validation_messages();
  }
  // All tokens of each text, how many of them were read, and the token that is chosen behind each that was
  // read whole.
  struct Texts {
    std::vector<std::vector<std::uint32_t>> tokens;
    std::vector<std::int64_t> read;
    std::vector<std::uint32_t> chosen;
    explicit Texts(std::vector<std::vector<std::uint32_t>> given)
        : tokens(std::move(given)), read(tokens.size()), chosen(tokens.size()) {}
    [[nodiscard]] std::int64_t left(std::size_t text) const {
      return static_cast<std::int64_t>(tokens[text].size()) - read[text];
    }
  };
  // Reads the next rows of all texts in one pass.
  void read(Texts& texts);

 private:
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> encoded() const;
  [[nodiscard]] GraphOptions sizes() const;
  void check_room(std::uint64_t workspaces) const;
  void prepare();
  void execute(Graph::Pass pass, bool chooses);
  void execute_in_frames(const decoder::Steps& steps);
  [[nodiscard]] bool read_prompts(Texts& texts);
  void write_texts(Texts& texts, Outcome& outcome);
  [[nodiscard]] bool take_chosen(Texts& texts, std::size_t text, std::vector<std::uint32_t>& tokens) const;
  void draw(const std::vector<std::uint32_t>& tokens);
  void print_figures(std::size_t tokens) const;
  void print_frames(std::size_t tokens) const;

  Options options_;
  Model model_;
  Tokenizer tokenizer_;
  std::vector<std::vector<std::uint32_t>> prompts_;
  GraphOptions graph_options_;
  Checkpoint checkpoint_;
  std::optional<vkattn::Runtime> runtime_;  // made when everything that needs no device was checked
  Weights weights_;
  std::optional<Graph> graph_;
  Room room_;
  double loading_ = 0, first_token_ = 0, decoding_ = 0;  // seconds
  std::size_t prompt_tokens_ = 0;
  std::optional<vkattn::FrameBudget> frames_;
  std::vector<double> slices_;  // ms
};

}  // namespace generate
