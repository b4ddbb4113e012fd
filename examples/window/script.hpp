// A script that plays keys and clicks, for tests. A line is a command:
//
//   type TEXT            repeat N TEXT        key ctrl+a           click NAME [X [Y]]    hover NAME [X [Y]]
//   wait N               wait ready           resize W H           minimise              restore
//   screenshot FILE      words FILE           check                pace                 quit
//
// NAME is an item or a map; X and Y are shares of its width and height, 0.5 without. `words` writes the texts
// that Dear ImGui draws. `check` compares the
// weights on the device with what they should be. Frames follow each other at once; after `pace`, 60 a
// second. Lines that begin with # are comments.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

struct GLFWwindow;

namespace window {

class Script {
 public:
  [[nodiscard]] static vkattn::Result<Script> read(const std::filesystem::path& path);

  // What the frame does after it was played.
  struct Play {
    std::string picture, words;  // files of a picture and of the texts in it; may be empty
    bool checks = false, quits = false;
  };
  // Before ImGui::NewFrame(): hands Dear ImGui what the next line says, or a part of it, as back ends do.
  // Refuses a name that is not there.
  [[nodiscard]] bool is_paced() const { return is_paced_; }
  [[nodiscard]] vkattn::Result<Play> play(GLFWwindow* window, bool is_ready);

 private:
  struct Line {
    std::size_t number = 0;
    std::string word, rest;
  };
  vkattn::Result<bool> play_line(const Line& line, GLFWwindow* window, bool is_ready, Play& play);
  vkattn::Result<bool> point(const Line& line, bool clicks);
  [[nodiscard]] vkattn::Error refuse(const Line& line, const std::string& why) const;

  std::filesystem::path path_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
  int frames_ = 0;          // that the line has been played for
  bool has_begun_ = false;  // a frame was drawn, so that names have places
  float x_ = -1, y_ = -1;   // where the mouse is
  bool is_down_ = false;    // its button
  bool is_paced_ = false;
};

}  // namespace window
