#include "generate/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <stdexcept>

#include "decoder/files.hpp"
#include "generate/utf8_stream.hpp"

namespace generate {

namespace {

// A part of tokenizer.json that is not known; it becomes the refusal.
[[noreturn]] void unknown(const std::string& what, const std::string& name, const std::string& known) {
  throw std::runtime_error(what + " '" + name + "' is not known; known: " + known);
}

std::string type_of(const nlohmann::json& json) {
  return json.value("type", "");
}

std::string utf8(gunichar code) {
  std::array<gchar, 6> bytes{};
  return {bytes.data(), static_cast<std::size_t>(g_unichar_to_utf8(code, bytes.data()))};
}

// Bytes of the character at the beginning of a sound text.
std::size_t character_bytes(std::string_view text) {
  return static_cast<std::size_t>(g_utf8_next_char(text.data()) - text.data());
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); !from.empty() && at != std::string::npos;
       at = text.find(from, begin)) {
    result += text.substr(begin, at - begin) + to;
    begin = at + from.size();
  }
  return result + text.substr(begin);
}

// The steps of a sequence, or the step itself; none for null.
std::vector<nlohmann::json> steps_of(const nlohmann::json& json, const char* member, int depth = 0) {
  constexpr int kMostDepth = 16;
  if (depth > kMostDepth) throw std::runtime_error("sequences lie deeper than 16 in one another");
  if (json.is_null()) return {};
  if (type_of(json) != "Sequence") return {json};
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& each : json.at(member)) {
    for (const nlohmann::json& step : steps_of(each, member, depth + 1)) steps.push_back(step);
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

std::shared_ptr<GRegex> compiled(const std::string& pattern) {
  GError* error = nullptr;
  GRegex* const regex = g_regex_new(pattern.c_str(), G_REGEX_OPTIMIZE, GRegexMatchFlags{}, &error);
  if (regex != nullptr) return {regex, g_regex_unref};
  throw std::runtime_error("the pattern '" + pattern + "' cannot be read: " + taken(error));
}

// The byte of a token such as <0x0A>, or nothing.
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>' || !g_ascii_isxdigit(token[3]) ||
      !g_ascii_isxdigit(token[4]))
    return std::nullopt;
  return static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
}

std::uint32_t checked_token(const nlohmann::json& number) {
  constexpr std::uint64_t kMost = 1U << 24U;
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > kMost)
    throw std::runtime_error("the token " + number.dump() + " is not from 0 to " + std::to_string(kMost));
  return number.get<std::uint32_t>();
}

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

vkattn::Result<Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  const auto text = decoder::file_text(path);
  if (!text) return text.error();
  try {
    Tokenizer tokenizer;
    tokenizer.read(Json::parse(*text));
    return tokenizer;
  } catch (const std::exception& error) {
    return refusal(path.string() + ": " + error.what());
  }
}

void Tokenizer::read(const Json& json) {
  for (unsigned byte = 0, other = 256; byte < 256; ++byte) {
    const bool is_printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    letters_[byte] = utf8(is_printable ? byte : other++);
    bytes_of_letters_[letters_[byte]] = static_cast<char>(byte);
  }
  read_model(json.at("model"));
  read_added(json.value("added_tokens", Json::array()));
  for (const Json& step : steps_of(json.value("normalizer", Json()), "normalizers")) read_normalizer(step);
  for (const Json& step : steps_of(json.value("pre_tokenizer", Json()), "pretokenizers")) read_splitter(step);
  for (const Json& step : steps_of(json.value("decoder", Json()), "decoders")) read_decoder(step);
  for (const Json& step : steps_of(json.value("post_processor", Json()), "processors")) read_beginning(step);
}

void Tokenizer::read_model(const Json& model) {
  // Old files have no type; only BPE has merges.
  const std::string type = model.value("type", model.contains("merges") ? "BPE" : "");
  if (type != "BPE") unknown("the kind of tokenizer", type, "BPE");
  for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.value(name, Json()).is_null() && model.at(name) != "")
      unknown("the setting", name, "none such");
  }
  for (const auto& [text, token] : model.at("vocab").items()) {
    const std::uint32_t number = checked_token(token);
    if (number >= texts_.size()) texts_.resize(number + std::size_t{1});
    texts_[number] = text;
    vocabulary_[text] = number;
  }
  std::uint32_t rank = 0;
  for (const Json& merge : model.at("merges")) {
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = line.find(' ', 1);
    const auto left = merge.is_string() ? line.substr(0, space) : merge.at(0).get<std::string>();
    const auto right = merge.is_string() ? line.substr(std::min(space, line.size() - 1) + 1)
                                         : merge.at(1).get<std::string>();
    const auto a = vocabulary_.find(left), b = vocabulary_.find(right), both = vocabulary_.find(left + right);
    if (a == vocabulary_.end() || b == vocabulary_.end() || both == vocabulary_.end())
      throw std::runtime_error("the merge of '" + left + "' and '" + right + "' has a part that is no token");
    merges_.try_emplace(pair_key(a->second, b->second), Merge{rank++, both->second});
  }
  const Json none = model.value("unk_token", Json());
  if (none.is_string()) {
    const auto found = vocabulary_.find(none.get<std::string>());
    if (found == vocabulary_.end())
      throw std::runtime_error("the unk_token '" + none.get<std::string>() +
                               "' is no token of the vocabulary");
    unknown_ = found->second;
  }
  joins_unknown_ = model.value("fuse_unk", false);
  falls_back_to_bytes_ = model.value("byte_fallback", false);
  takes_whole_words_ = model.value("ignore_merges", false);
}

void Tokenizer::read_added(const Json& tokens) {
  is_special_.resize(texts_.size());
  is_added_.resize(texts_.size());
  for (const Json& token : tokens) {
    const std::uint32_t number = checked_token(token.at("id"));
    if (number >= texts_.size()) {
      texts_.resize(number + std::size_t{1});
      is_special_.resize(texts_.size());
      is_added_.resize(texts_.size());
    }
    texts_[number] = token.at("content").get<std::string>();
    is_special_[number] = token.value("special", false);
    is_added_[number] = true;
    if (!texts_[number].empty())
      added_.push_back({texts_[number], number, token.value("lstrip", false), token.value("rstrip", false)});
  }
  std::ranges::stable_sort(added_, std::ranges::greater(),
                           [](const Added& each) { return each.text.size(); });
}

void Tokenizer::read_normalizer(const Json& json) {
  const std::string type = type_of(json);
  Normalizer step;
  if (type == "Prepend") {
    step.prepended = json.at("prepend").get<std::string>();
  } else if (type == "Replace" && json.at("pattern").contains("String")) {
    step.replaced = json.at("pattern").at("String").get<std::string>();
    step.content = json.at("content").get<std::string>();
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    step.has_form = true;
    step.form = type == "NFC"    ? G_NORMALIZE_NFC
                : type == "NFD"  ? G_NORMALIZE_NFD
                : type == "NFKC" ? G_NORMALIZE_NFKC
                                 : G_NORMALIZE_NFKD;
  } else {
    unknown("the normalizer", type, "Prepend, Replace of a string, NFC, NFD, NFKC, NFKD");
  }
  normalizers_.push_back(step);
}

void Tokenizer::add_split(const Json& json) {
  static const std::unordered_map<std::string, Behavior> behaviors = {
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext}};
  const auto behavior = behaviors.find(json.value("behavior", ""));
  if (behavior == behaviors.end())
    unknown("the split", json.value("behavior", ""), "Isolated, Removed, MergedWithPrevious, MergedWithNext");
  Splitter step;
  const Json& pattern = json.at("pattern");
  if (pattern.contains("Regex")) {
    step.pattern = compiled(pattern.at("Regex").get<std::string>());
  } else {
    gchar* const escaped = g_regex_escape_string(pattern.at("String").get<std::string>().c_str(), -1);
    step.pattern = compiled(escaped);
    g_free(escaped);
  }
  step.behavior = behavior->second;
  step.is_inverted = json.value("invert", false);
  splitters_.push_back(step);
}

void Tokenizer::read_splitter(const Json& json) {
  const std::string type = type_of(json);
  Splitter step;
  if (type == "Split") return add_split(json);
  if (type == "ByteLevel") {
    step.spells_bytes = true;
    step.has_space_first = json.value("add_prefix_space", true);
    if (json.value("use_regex", true)) step.pattern = compiled(kGpt2Pattern);
  } else if (type == "Digits") {
    step.pattern = compiled(json.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "Metaspace") {
    step.space = json.value("replacement", "\xe2\x96\x81");
    const std::string scheme =
        json.value("prepend_scheme", json.value("add_prefix_space", true) ? "always" : "never");
    if (scheme != "never") step.space_first = step.space;
    step.only_at_start = scheme == "first";
    if (json.value("split", true)) {
      step.pattern = compiled(step.space);
      step.behavior = Behavior::kMergedWithNext;
    }
  } else {
    unknown("the pre-tokenizer", type, "ByteLevel, Digits, Metaspace, Split");
  }
  splitters_.push_back(step);
}

void Tokenizer::read_decoder(const Json& json) {
  const std::string type = type_of(json);
  if (type == "ByteLevel")
    is_byte_level_ = true;
  else if (type == "Metaspace")
    space_ = json.value("replacement", "\xe2\x96\x81");
  else if (type == "Replace" && json.at("pattern").contains("String") && json.at("content") == " ")
    space_ = json.at("pattern").at("String").get<std::string>();
  else if (type != "ByteFallback" && type != "Fuse" && type != "Strip")
    unknown("the decoder", type, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip");
}

// Only what stands before a text counts: behind it the model goes on.
void Tokenizer::read_beginning(const Json& json) {
  const std::string type = type_of(json);
  if (type == "ByteLevel") return;
  if (type != "TemplateProcessing") unknown("the post-processor", type, "ByteLevel, TemplateProcessing");
  for (const Json& part : json.at("single")) {
    if (!part.contains("SpecialToken")) break;
    const auto name = part.at("SpecialToken").at("id").get<std::string>();
    for (const Json& token : json.at("special_tokens").at(name).at("ids"))
      beginning_.push_back(token.get<std::uint32_t>());
  }
}

vkattn::Result<std::vector<std::uint32_t>> Tokenizer::encode(std::string_view text) const try {
  const gchar* end = nullptr;
  if (g_utf8_validate(text.data(), static_cast<gssize>(text.size()), &end) == 0)
    return refusal("the text is no UTF-8 at its byte " + std::to_string(end - text.data()));
  std::vector<std::uint32_t> tokens = beginning_;
  bool is_first = true;
  while (!text.empty()) {
    std::size_t at = text.size();
    const Added* found = nullptr;
    for (const Added& each : added_) {  // the longest first, so that it wins at equal places
      const std::size_t place = text.substr(0, std::min(text.size(), at + each.text.size())).find(each.text);
      if (place < at) at = place, found = &each;
    }
    std::string_view section = text.substr(0, at);
    text.remove_prefix(at);
    constexpr std::string_view kSpaces = " \t\n\r";
    if (found != nullptr && found->takes_left)
      section = section.substr(0, section.find_last_not_of(kSpaces) + 1);
    if (!section.empty()) encode_section(section, is_first, tokens);
    is_first = false;
    if (found == nullptr) break;
    tokens.push_back(found->token);
    text.remove_prefix(found->text.size());
    if (found->takes_right) text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  }
  return tokens;
} catch (const std::runtime_error& error) {
  return refusal(std::string("the text cannot be split: ") + error.what());
}

std::string Tokenizer::normalized(std::string text) const {
  for (const Normalizer& step : normalizers_) {
    text = step.prepended + replaced(text, step.replaced, step.content);
    if (!step.has_form) continue;
    gchar* const formed = g_utf8_normalize(text.data(), static_cast<gssize>(text.size()), step.form);
    if (formed == nullptr) throw std::runtime_error("it has no form of Unicode");
    text = formed;
    g_free(formed);
  }
  return text;
}

void Tokenizer::encode_section(std::string_view text, bool is_first,
                               std::vector<std::uint32_t>& tokens) const {
  std::vector<std::string> pieces = {normalized(std::string(text))};
  for (const Splitter& step : splitters_) {
    for (std::string& piece : pieces) {
      if (step.has_space_first && !piece.starts_with(' ')) piece.insert(0, 1, ' ');
      if (step.space.empty()) continue;
      piece = replaced(piece, " ", step.space);
      if ((is_first || !step.only_at_start) && !piece.starts_with(step.space))
        piece.insert(0, step.space_first);
    }
    if (step.pattern) pieces = split(step, pieces);
    if (!step.spells_bytes) continue;
    for (std::string& piece : pieces) {
      std::string spelled;
      for (const char byte : piece) spelled += letters_[static_cast<unsigned char>(byte)];
      piece = spelled;
    }
  }
  for (const std::string& piece : pieces) encode_word(piece, tokens);
}

std::vector<std::string> Tokenizer::split(const Splitter& splitter,
                                          const std::vector<std::string>& pieces) const {
  std::vector<std::string> result;
  for (const std::string& piece : pieces) {
    std::size_t begin = 0;
    std::string waiting;  // what the next part is joined with
    const auto add = [&](std::size_t end, bool matches) {
      std::string part = piece.substr(begin, end - begin);
      begin = end;
      if (part.empty()) return;
      matches = matches != splitter.is_inverted;
      if (matches && splitter.behavior == Behavior::kRemoved) return;
      if (matches && splitter.behavior == Behavior::kMergedWithNext) {
        if (!waiting.empty()) result.push_back(std::exchange(waiting, {}));
        waiting = part;
      } else if (matches && splitter.behavior == Behavior::kMergedWithPrevious && !result.empty() &&
                 begin > part.size()) {
        result.back() += part;
      } else {
        result.push_back(std::exchange(waiting, {}) + part);
      }
    };
    GMatchInfo* match = nullptr;
    GError* error = nullptr;
    g_regex_match_full(splitter.pattern.get(), piece.data(), static_cast<gssize>(piece.size()), 0,
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

void Tokenizer::encode_word(const std::string& word, std::vector<std::uint32_t>& tokens) const {
  if (takes_whole_words_) {
    const auto whole = vocabulary_.find(word);
    if (whole != vocabulary_.end()) return tokens.push_back(whole->second);
  }
  std::vector<std::uint32_t> symbols;
  for (std::string_view rest = word; !rest.empty();) {
    const std::string_view character = rest.substr(0, character_bytes(rest));
    rest.remove_prefix(character.size());
    const auto found = vocabulary_.find(std::string(character));
    if (found != vocabulary_.end())
      symbols.push_back(found->second);
    else
      add_unknown(character, symbols);
  }
  merge(symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

void Tokenizer::add_unknown(std::string_view character, std::vector<std::uint32_t>& symbols) const {
  if (falls_back_to_bytes_) {
    std::vector<std::uint32_t> all;
    for (const char byte : character) {
      std::array<char, 8> name{};
      std::snprintf(name.data(), name.size(), "<0x%02X>",
                    static_cast<unsigned>(static_cast<unsigned char>(byte)));
      const auto found = vocabulary_.find(name.data());
      if (found != vocabulary_.end()) all.push_back(found->second);
    }
    if (all.size() == character.size()) return symbols.insert(symbols.end(), all.begin(), all.end()), void();
  }
  const auto none = static_cast<std::uint32_t>(unknown_);
  if (unknown_ < 0 || (joins_unknown_ && !symbols.empty() && symbols.back() == none)) return;
  symbols.push_back(none);
}

// Merges the pair of the lowest rank, the first of several, until there is none.
void Tokenizer::merge(std::vector<std::uint32_t>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t place;
    std::uint64_t pair;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  constexpr std::uint32_t kGone = ~0U;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  std::vector<std::size_t> next(symbols.size()), previous(symbols.size());
  const auto add = [&](std::size_t place) {
    if (place >= symbols.size() || next[place] >= symbols.size()) return;
    const std::uint64_t pair = pair_key(symbols[place], symbols[next[place]]);
    const auto merge = merges_.find(pair);
    if (merge != merges_.end()) queue.push({merge->second.rank, place, pair});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) next[i] = i + 1, previous[i] = i - 1;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) add(i);
  for (; !queue.empty();) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t left = best.place, right = next[left];
    if (symbols[left] == kGone || right >= symbols.size() ||
        pair_key(symbols[left], symbols[right]) != best.pair)
      continue;
    symbols[left] = merges_.at(best.pair).token;
    symbols[right] = kGone;
    next[left] = next[right];
    if (next[left] < symbols.size()) previous[next[left]] = left;
    add(left);
    add(previous[left]);
  }
  std::erase(symbols, kGone);
}

std::string Tokenizer::bytes(std::uint32_t token) const {
  if (token >= texts_.size() || is_special_[token]) return {};
  const std::string& text = texts_[token];
  if (is_added_[token]) return text;
  if (!is_byte_level_) {
    const std::optional<char> byte = falls_back_to_bytes_ ? byte_of(text) : std::nullopt;
    return byte ? std::string(1, *byte) : replaced(text, space_, " ");
  }
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string letter(rest.substr(0, character_bytes(rest)));
    const auto byte = bytes_of_letters_.find(letter);
    result += byte == bytes_of_letters_.end() ? letter : std::string(1, byte->second);
    rest.remove_prefix(letter.size());
  }
  return result;
}

std::string Tokenizer::name(std::uint32_t token) const {
  if (token >= texts_.size()) return std::to_string(token);
  if (is_added_[token]) return texts_[token];
  std::string text = replaced(replaced(bytes(token), " ", "\xc2\xb7"), "\n", "\\n");
  Utf8Stream stream;
  text = stream.add(text);
  return text + stream.finish();
}

}  // namespace generate
