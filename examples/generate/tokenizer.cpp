#include "generate/tokenizer.hpp"

#include <glib.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "decoder/text.hpp"

namespace generate {

namespace {

using Json = nlohmann::json;
using Pieces = std::vector<std::string>;
using Tokens = std::vector<std::uint32_t>;

constexpr const char* kSpaceMark = "\xe2\x96\x81";  // SentencePiece's

// A part of tokenizer.json that is not known; it becomes the refusal.
[[noreturn]] void unknown(const std::string& what, const std::string& name, const std::string& known) {
  throw std::runtime_error(what + " '" + name + "' is not known; known: " + known);
}

std::string type_of(const Json& json) {
  return json.value("type", "");
}

// Letters that stand for bytes in the tokens of byte-level BPE.
const std::array<std::string, 256>& letters() {
  static const auto all = [] {
    std::array<std::string, 256> made;
    for (unsigned byte = 0, other = 256; byte < 256; ++byte) {
      const bool is_printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      std::array<gchar, 6> bytes{};
      const gint size = g_unichar_to_utf8(is_printable ? byte : other++, bytes.data());
      made[byte].assign(bytes.data(), static_cast<std::size_t>(size));
    }
    return made;
  }();
  return all;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  for (std::size_t begin = 0;;) {
    const std::size_t at = from.empty() ? std::string::npos : text.find(from, begin);
    result.append(text, begin, at - begin);
    if (at == std::string::npos) return result;
    result += to;
    begin = at + from.size();
  }
}

// The steps of a sequence, or the step itself; none for null.
std::vector<Json> steps_of(const Json& json, const char* member, int depth = 0) {
  constexpr int kMostDepth = 16;
  if (depth > kMostDepth) throw std::runtime_error("sequences lie deeper than 16 in one another");
  if (json.is_null()) return {};
  if (type_of(json) != "Sequence") return {json};
  std::vector<Json> steps;
  for (const Json& each : json.at(member)) {
    for (const Json& step : steps_of(each, member, depth + 1)) steps.push_back(step);
  }
  return steps;
}

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return static_cast<std::uint64_t>(left) << 32U | right;
}

std::string taken(GError* error) {
  std::string message = error->message;
  g_error_free(error);
  return message;
}

std::string taken(gchar* made) {
  std::string text = made;
  g_free(made);
  return text;
}

std::shared_ptr<GRegex> compiled(const std::string& pattern) {
  GError* error = nullptr;
  GRegex* const regex = g_regex_new(pattern.c_str(), G_REGEX_OPTIMIZE, GRegexMatchFlags{}, &error);
  if (regex != nullptr) return {regex, g_regex_unref};
  throw std::runtime_error("the pattern '" + pattern + "' cannot be read: " + taken(error));
}

std::uint32_t checked_token(const Json& number) {
  constexpr std::uint64_t kMost = 1U << 24U;
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > kMost)
    throw std::runtime_error("the token " + number.dump() + " is not from 0 to " + std::to_string(kMost));
  return number.get<std::uint32_t>();
}

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A step before everything: it changes a text.
using Normalizer = std::function<std::string(const std::string&)>;

Normalizer normalizer_of(const Json& json) {
  static const std::map<std::string, GNormalizeMode> forms = {{"NFC", G_NORMALIZE_NFC},
                                                              {"NFD", G_NORMALIZE_NFD},
                                                              {"NFKC", G_NORMALIZE_NFKC},
                                                              {"NFKD", G_NORMALIZE_NFKD}};
  const std::string type = type_of(json);
  if (type == "Prepend")
    return [prefix = json.at("prepend").get<std::string>()](const auto& text) { return prefix + text; };
  if (type == "Replace" && json.at("pattern").contains("String"))
    return
        [from = json.at("pattern").at("String").get<std::string>(),
         to = json.at("content").get<std::string>()](const auto& text) { return replaced(text, from, to); };
  const auto form = forms.find(type);
  if (form == forms.end())
    unknown("the normalizer", type, "Prepend, Replace of a string, NFC, NFD, NFKC, NFKD");
  return [mode = form->second](const auto& text) {
    gchar* const formed = g_utf8_normalize(text.data(), static_cast<gssize>(text.size()), mode);
    if (formed == nullptr) throw std::runtime_error("it has no form of Unicode");
    return taken(formed);
  };
}

// Cuts pieces at what matches a pattern.
struct Split {
  std::shared_ptr<GRegex> pattern;
  std::string behavior = "Isolated";  // what becomes of a match
  bool is_inverted = false;           // what does not match is taken for what matches

  Pieces operator()(const Pieces& pieces) const {
    Pieces result;
    for (const std::string& piece : pieces) {
      std::size_t begin = 0;
      std::string waiting;  // what the next part is joined with
      const auto add = [&](std::size_t end, bool matches) {
        std::string part = piece.substr(begin, end - begin);
        begin = end;
        if (part.empty()) return;
        matches = matches != is_inverted;
        if (matches && behavior == "Removed") return;
        if (matches && behavior == "MergedWithNext") {
          if (!waiting.empty()) result.push_back(std::exchange(waiting, {}));
          waiting = part;
        } else if (matches && behavior == "MergedWithPrevious" && !result.empty() && begin > part.size()) {
          result.back() += part;
        } else {
          result.push_back(std::exchange(waiting, {}) + part);
        }
      };
      GMatchInfo* match = nullptr;
      GError* error = nullptr;
      g_regex_match_full(pattern.get(), piece.data(), static_cast<gssize>(piece.size()), 0,
                         GRegexMatchFlags{}, &match, &error);
      for (; error == nullptr && g_match_info_matches(match) != 0; g_match_info_next(match, &error)) {
        gint from = 0, to = 0;
        g_match_info_fetch_pos(match, 0, &from, &to);
        add(static_cast<std::size_t>(from), false);
        add(static_cast<std::size_t>(to), true);
      }
      g_match_info_free(match);
      if (error != nullptr) throw std::runtime_error(taken(error));
      add(piece.size(), false);
      if (!waiting.empty()) result.push_back(waiting);
    }
    return result;
  }
};

Split split_of(const Json& json) {
  const std::string behavior = json.value("behavior", "");
  if (behavior != "Isolated" && behavior != "Removed" && behavior != "MergedWithPrevious" &&
      behavior != "MergedWithNext")
    unknown("the split", behavior, "Isolated, Removed, MergedWithPrevious, MergedWithNext");
  const Json& pattern = json.at("pattern");
  const std::string text =
      pattern.contains("Regex")
          ? pattern.at("Regex").get<std::string>()
          : taken(g_regex_escape_string(pattern.at("String").get<std::string>().c_str(), -1));
  return {compiled(text), behavior, json.value("invert", false)};
}

// A step before the merges: it splits pieces, or changes each. It is told whether the text begins with them.
using Splitter = std::function<Pieces(Pieces, bool)>;

Splitter byte_level_of(const Json& json) {
  const bool has_space_first = json.value("add_prefix_space", true);  // a text without one gets one
  std::optional<Split> split;
  if (json.value("use_regex", true)) split = Split{compiled(kGpt2Pattern)};
  return [=](Pieces pieces, bool) {
    for (std::string& piece : pieces)
      if (has_space_first && !piece.starts_with(' ')) piece.insert(0, 1, ' ');
    if (split) pieces = (*split)(pieces);
    for (std::string& piece : pieces)
      for (const char byte : std::exchange(piece, {})) piece += letters()[static_cast<unsigned char>(byte)];
    return pieces;
  };
}

Splitter metaspace_of(const Json& json) {
  const std::string space = json.value("replacement", kSpaceMark);
  const std::string scheme =
      json.value("prepend_scheme", json.value("add_prefix_space", true) ? "always" : "never");
  std::optional<Split> split;
  if (json.value("split", true)) split = Split{compiled(space), "MergedWithNext"};
  return [=](Pieces pieces, bool is_first) {
    const bool prepends = scheme == "always" || (scheme == "first" && is_first);
    for (std::string& piece : pieces) {
      piece = replaced(piece, " ", space);
      if (prepends && !piece.starts_with(space)) piece.insert(0, space);
    }
    return split ? (*split)(pieces) : pieces;
  };
}

Splitter splitter_of(const Json& json) {
  const std::string type = type_of(json);
  if (type == "ByteLevel") return byte_level_of(json);
  if (type == "Metaspace") return metaspace_of(json);
  if (type != "Split" && type != "Digits")
    unknown("the pre-tokenizer", type, "ByteLevel, Digits, Metaspace, Split");
  const bool is_each = json.value("individual_digits", false);
  const Split split = type == "Split" ? split_of(json) : Split{compiled(is_each ? R"(\p{N})" : R"(\p{N}+)")};
  return [split](const Pieces& pieces, bool) { return split(pieces); };
}

}  // namespace

struct Tokenizer::Rules {
  struct Added {
    std::string text;
    std::uint32_t token;
    bool takes_left, takes_right;  // spaces beside it belong to it
  };
  struct Token {
    std::string text;
    bool is_special = false, is_added = false;
  };
  struct Merge {
    std::uint32_t rank, token;
  };

  std::unordered_map<std::string, std::uint32_t> vocabulary;
  std::unordered_map<std::uint64_t, Merge> merges;  // by the pair of tokens
  std::vector<Token> all;
  std::vector<Added> added;  // the longest first
  std::vector<Normalizer> normalizers;
  std::vector<Splitter> splitters;
  Tokens beginning;
  std::map<char, std::uint32_t> byte_tokens;  // such as <0x0A>, for characters that are no tokens
  std::optional<std::uint32_t> unknown_token;
  bool joins_unknown = false, takes_whole_words = false;
  bool is_byte_level = false;  // tokens are spelled in letters for bytes
  std::string space;           // SentencePiece's mark in tokens

  explicit Rules(const Json& json) {
    read_model(json.at("model"));
    read_added(json.value("added_tokens", Json::array()));
    for (const Json& step : steps_of(json.value("normalizer", Json()), "normalizers"))
      normalizers.push_back(normalizer_of(step));
    for (const Json& step : steps_of(json.value("pre_tokenizer", Json()), "pretokenizers"))
      splitters.push_back(splitter_of(step));
    for (const Json& step : steps_of(json.value("decoder", Json()), "decoders")) read_decoder(step);
    for (const Json& step : steps_of(json.value("post_processor", Json()), "processors"))
      read_beginning(step);
  }

  [[nodiscard]] std::optional<std::uint32_t> token_named(const std::string& text) const {
    const auto found = vocabulary.find(text);
    return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
  }

  Token& token_of(std::uint32_t number) {
    if (number >= all.size()) all.resize(number + std::size_t{1});
    return all[number];
  }

  void read_model(const Json& model) {
    // Old files have no type; only BPE has merges.
    const std::string type = model.value("type", model.contains("merges") ? "BPE" : "");
    if (type != "BPE") unknown("the kind of tokenizer", type, "BPE");
    for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!model.value(name, Json()).is_null() && model.at(name) != "")
        unknown("the setting", name, "none such");
    }
    for (const auto& [text, token] : model.at("vocab").items()) {
      const std::uint32_t number = checked_token(token);
      token_of(number).text = text;
      vocabulary[text] = number;
    }
    std::uint32_t rank = 0;
    for (const Json& merge : model.at("merges")) {
      const std::string line = merge.is_string() ? merge.get<std::string>() : "";
      const std::size_t gap = line.find(' ', 1);
      const auto left = merge.is_string() ? line.substr(0, gap) : merge.at(0).get<std::string>();
      const auto right = merge.is_string() ? line.substr(std::min(gap, line.size() - 1) + 1)
                                           : merge.at(1).get<std::string>();
      const auto a = token_named(left), b = token_named(right), both = token_named(left + right);
      if (!a || !b || !both)
        throw std::runtime_error("the merge of '" + left + "' and '" + right +
                                 "' has a part that is no token");
      merges.try_emplace(pair_key(*a, *b), Merge{rank++, *both});
    }
    const Json none = model.value("unk_token", Json());
    if (none.is_string()) {
      unknown_token = token_named(none.get<std::string>());
      if (!unknown_token)
        throw std::runtime_error("the unk_token '" + none.get<std::string>() +
                                 "' is no token of the vocabulary");
    }
    joins_unknown = model.value("fuse_unk", false);
    for (int byte = 0; model.value("byte_fallback", false) && byte < 256; ++byte) {
      std::array<char, 8> name{};
      std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
      if (const auto found = token_named(name.data())) byte_tokens[static_cast<char>(byte)] = *found;
    }
    takes_whole_words = model.value("ignore_merges", false);
  }

  void read_added(const Json& tokens) {
    for (const Json& token : tokens) {
      const std::uint32_t number = checked_token(token.at("id"));
      Token& made = token_of(number);
      made = {token.at("content").get<std::string>(), token.value("special", false), true};
      if (!made.text.empty())
        added.push_back({made.text, number, token.value("lstrip", false), token.value("rstrip", false)});
    }
    std::ranges::stable_sort(added, std::ranges::greater(),
                             [](const Added& each) { return each.text.size(); });
  }

  void read_decoder(const Json& json) {
    const std::string type = type_of(json);
    if (type == "ByteLevel")
      is_byte_level = true;
    else if (type == "Metaspace")
      space = json.value("replacement", kSpaceMark);
    else if (type == "Replace" && json.at("pattern").contains("String") && json.at("content") == " ")
      space = json.at("pattern").at("String").get<std::string>();
    else if (type != "ByteFallback" && type != "Fuse" && type != "Strip")
      unknown("the decoder", type, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip");
  }

  // Only what stands before a text counts: behind it the model goes on.
  void read_beginning(const Json& json) {
    const std::string type = type_of(json);
    if (type == "ByteLevel") return;
    if (type != "TemplateProcessing") unknown("the post-processor", type, "ByteLevel, TemplateProcessing");
    for (const Json& part : json.at("single")) {
      if (!part.contains("SpecialToken")) break;
      const auto name = part.at("SpecialToken").at("id").get<std::string>();
      for (const Json& token : json.at("special_tokens").at(name).at("ids"))
        beginning.push_back(token.get<std::uint32_t>());
    }
  }

  void encode(std::string text, bool is_first, Tokens& tokens) const {
    for (const Normalizer& step : normalizers) text = step(text);
    Pieces pieces = {std::move(text)};
    for (const Splitter& step : splitters) pieces = step(std::move(pieces), is_first);
    for (const std::string& piece : pieces) encode_word(piece, tokens);
  }

  void encode_word(const std::string& word, Tokens& tokens) const {
    const auto whole = takes_whole_words ? token_named(word) : std::nullopt;
    if (whole) return tokens.push_back(*whole);
    Tokens symbols;
    const auto characters = decoder::characters_of(word);
    if (!characters) throw std::runtime_error(characters.error().message);  // a pattern may cut anywhere
    for (const std::string_view character : *characters) {
      if (const auto found = token_named(std::string(character)))
        symbols.push_back(*found);
      else
        add_unknown(character, symbols);
    }
    merge(symbols);
    tokens.insert(tokens.end(), symbols.begin(), symbols.end());
  }

  void add_unknown(std::string_view character, Tokens& symbols) const {
    Tokens bytes;
    for (const char byte : character) {
      const auto found = byte_tokens.find(byte);
      if (found != byte_tokens.end()) bytes.push_back(found->second);
    }
    if (bytes.size() == character.size())
      return symbols.insert(symbols.end(), bytes.begin(), bytes.end()), void();
    if (!unknown_token || (joins_unknown && !symbols.empty() && symbols.back() == *unknown_token)) return;
    symbols.push_back(*unknown_token);
  }

  // Merges the pair of the lowest rank, the first of several, until there is none.
  void merge(Tokens& symbols) const {
    // The rank, the place of the left token, and the pair that stood there.
    using Candidate = std::tuple<std::uint32_t, std::size_t, std::uint64_t>;
    constexpr std::uint32_t kGone = ~0U;
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    std::vector<std::size_t> next(symbols.size()), previous(symbols.size());
    const auto add = [&](std::size_t place) {
      if (place >= symbols.size() || next[place] >= symbols.size()) return;
      const std::uint64_t pair = pair_key(symbols[place], symbols[next[place]]);
      const auto merge = merges.find(pair);
      if (merge != merges.end()) queue.push({merge->second.rank, place, pair});
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) next[i] = i + 1, previous[i] = i - 1;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) add(i);
    for (; !queue.empty();) {
      const auto [rank, left, pair] = queue.top();
      queue.pop();
      const std::size_t right = next[left];
      if (symbols[left] == kGone || right >= symbols.size() ||
          pair_key(symbols[left], symbols[right]) != pair)
        continue;
      symbols[left] = merges.at(pair).token;
      symbols[right] = kGone;
      next[left] = next[right];
      if (next[left] < symbols.size()) previous[next[left]] = left;
      add(left);
      add(previous[left]);
    }
    std::erase(symbols, kGone);
  }
};

vkattn::Result<Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  const auto text = decoder::file_text(path);
  if (!text) return text.error();
  try {
    Tokenizer tokenizer;
    tokenizer.rules_ = std::make_shared<Rules>(Json::parse(*text));
    return tokenizer;
  } catch (const std::exception& error) {
    return decoder::refusal(path.string() + ": " + error.what());
  }
}

vkattn::Result<std::vector<std::uint32_t>> Tokenizer::encode(std::string_view text) const try {
  if (const auto characters = decoder::characters_of(text); !characters) return characters.error();
  Tokens tokens = rules_->beginning;
  bool is_first = true;
  while (!text.empty()) {
    std::size_t at = text.size();
    const Rules::Added* found = nullptr;
    for (const Rules::Added& each : rules_->added) {  // the longest first, so that it wins at equal places
      const std::size_t place = text.substr(0, std::min(text.size(), at + each.text.size())).find(each.text);
      if (place < at) at = place, found = &each;
    }
    std::string_view section = text.substr(0, at);
    text.remove_prefix(at);
    constexpr std::string_view kSpaces = " \t\n\r";
    if (found != nullptr && found->takes_left)
      section = section.substr(0, section.find_last_not_of(kSpaces) + 1);
    if (!section.empty()) rules_->encode(std::string(section), is_first, tokens);
    is_first = false;
    if (found == nullptr) break;
    tokens.push_back(found->token);
    text.remove_prefix(found->text.size());
    if (found->takes_right) text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  }
  return tokens;
} catch (const std::runtime_error& error) {
  return decoder::refusal(std::string("the text cannot be split: ") + error.what());
}

std::string Tokenizer::bytes(std::uint32_t token) const {
  if (token >= rules_->all.size() || rules_->all[token].is_special) return {};
  const std::string& text = rules_->all[token].text;
  if (rules_->all[token].is_added) return text;
  if (!rules_->is_byte_level) {
    for (const auto& [byte, other] : rules_->byte_tokens)
      if (other == token) return std::string(1, byte);
    return replaced(text, rules_->space, " ");
  }
  std::string result;
  const auto characters = decoder::characters_of(text);
  for (const std::string_view letter : *characters) {
    const auto byte = std::ranges::find(letters(), letter);
    result += byte == letters().end() ? std::string(letter)
                                      : std::string(1, static_cast<char>(byte - letters().begin()));
  }
  return result;
}

std::string Tokenizer::name(std::uint32_t token) const {
  if (token >= rules_->all.size()) return std::to_string(token);
  return decoder::visible(rules_->all[token].is_added ? rules_->all[token].text : bytes(token));
}

}  // namespace generate
