// What the tests of generate share.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "decoder/testing.hpp"
#include "generate/tokenizer.hpp"

namespace generate {

using Path = std::filesystem::path;
using Tokens = std::vector<std::uint32_t>;

using decoder::expect;

// What make_checkpoints.py has computed.
struct Expected {
  explicit Expected(const Path& folder);
  std::string prompt;
  Tokens prompt_tokens, greedy;
  std::vector<float> logits;                            // of each greedy token
  std::map<std::string, std::vector<float>> in_blocks;  // the same with quantised weights, by their type
};

// The tests that need no device.
void test_tokenizer(const Path& folder, const Expected& expected);
void test_refusals(const Path& checkpoint);
void test_room(const Path& checkpoint);

}  // namespace generate
