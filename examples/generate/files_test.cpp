// The tests of generate that need no device: the tokenizer, and files that are refused.
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>

#include "decoder/text.hpp"
#include "generate/generate_test.hpp"
#include "generate/weights.hpp"

namespace generate {

using Json = nlohmann::json;

void test_tokenizer(const Path& folder, const Expected& expected) {
  const auto tokenizer = Tokenizer::open(folder / "tokenizer.json");
  if (!tokenizer) return expect(false, tokenizer.error().message);
  const std::string name = folder.filename().string();
  expect(decoder::checked(tokenizer->encode(expected.prompt)) == expected.prompt_tokens,
         name + ": the prompt's tokens are those of the script");
  // Every text comes back, however its bytes are cut into tokens.
  for (const std::string text :
       {"plain words", "  two  spaces ", " a 1234567 b12", "\n\n\ttabs\r\n",
        "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 emoji", "x",
        "don't WE'LL", "\xc2\xa0hard\xe2\x80\x83spaces"}) {
    decoder::Utf8Stream stream;
    std::string back;
    for (const std::uint32_t token : decoder::checked(tokenizer->encode(text)))
      back += stream.add(tokenizer->bytes(token));
    back += stream.finish();
    // SentencePiece puts a space in front.
    expect(back == text || back == " " + text, name + ": '" + text + "' comes back as '" + back + "'");
  }
  const auto broken = tokenizer->encode("ab\xff");
  expect(!broken.ok() && broken.error().message.find("no UTF-8 at its byte 2") != std::string::npos,
         "a prompt that is no UTF-8 is refused");
}

namespace {

// A tokenizer of the alphabet with these steps, and what it makes of a text: texts of tokens with bars
// between.
std::string pieces_of(const Path& folder, const Json& changes, const std::string& text) {
  Json file = Json::parse(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []})");
  std::istringstream words(
      "\xe2\x96\x81 \xc4\xa0 \xc4\x8a a b ' s S 1 2 3 4 ! \xc3\x83 \xc2\xa9 ab abb 12 123 's aa "
      "\xc4\xa0\x61");
  int token = 0;
  for (std::string word; words >> word;) file["model"]["vocab"][word] = token++;
  for (const char* const merge : {"a b", "ab b", "1 2", "12 3", "' s", "a a", "\xc4\xa0 a"})
    file["model"]["merges"].push_back(merge);
  file.merge_patch(changes);
  std::ofstream(folder / "tokenizer.json") << file;
  const auto tokenizer = Tokenizer::open(folder / "tokenizer.json");
  if (!tokenizer) return tokenizer.error().message;
  std::string all;
  for (const std::uint32_t each : decoder::checked(tokenizer->encode(text)))
    all += (all.empty() ? "" : "|") + tokenizer->name(each);
  return all;
}

void test_steps(const Path& folder) {
  const char* const bytes =
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})";
  const char* const digits =
      R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false}]}, "decoder": {"type": "ByteLevel"}})";
  const char* const llama3 =
      R"JSON({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated",
    "pattern": {"Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}, "decoder": {"type": "ByteLevel"}})JSON";
  const char* const added =
      R"({"added_tokens": [{"id": 30, "content": "<b>", "special": true, "rstrip": true}, {"id": 31, "content": "<b>>"}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})";
  const char* const metaspace =
      R"({"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}, "decoder": {"type": "Metaspace"}})";
  for (const auto& [changes, text, pieces] :
       std::initializer_list<std::array<const char*, 3>>{{bytes, "abb abab", "abb|\xc2\xb7|ab|ab"},
                                                         {bytes, "a  a", "a|\xc2\xb7|\xc2\xb7\x61"},
                                                         {bytes, "ab's 1234!", "ab|'s|\xc2\xb7|123|4|!"},
                                                         {bytes, "a\n\n", "a|\\n|\\n"},
                                                         {digits, "ab123", "ab|1|2|3"},
                                                         {llama3, "a'S1234", "a|'|S|123|4"},
                                                         {added, "a<b>  a<b>>a", "a|<b>|a|<b>>|a"},
                                                         {metaspace, "ab ab", "\xc2\xb7|ab|\xc2\xb7|ab"}}) {
    const std::string got = pieces_of(folder, Json::parse(changes), text);
    expect(got == pieces, std::string("'") + text + "' becomes '" + got + "', not '" + pieces + "'");
  }
  // e and its accent, in one character and in two.
  const Json nfc = Json::parse(bytes).patch(
      Json::parse(R"([{"op": "add", "path": "/normalizer", "value": {"type": "NFC"}}])"));
  expect(pieces_of(folder, nfc, "e\xcc\x81") == pieces_of(folder, nfc, "\xc3\xa9"),
         "NFC makes both one text");
  for (const auto& [changes, words] : std::initializer_list<std::array<const char*, 2>>{
           {R"({"model": {"type": "WordPiece"}})",
            "the kind of tokenizer 'WordPiece' is not known; known: BPE"},
           {R"({"normalizer": {"type": "Lowercase"}})", "the normalizer 'Lowercase' is not known"},
           {R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})",
            "the pre-tokenizer 'BertPreTokenizer' is not known"},
           {R"({"decoder": {"type": "WordPiece"}})", "the decoder 'WordPiece' is not known"},
           {R"({"model": {"merges": ["a z"]}})", "the merge of 'a' and 'z' has a part that is no token"},
           {R"({"model": {"vocab": 3}})", "tokenizer.json: "},
           {R"({"model": {"unk_token": "<unk>"}})", "the unk_token '<unk>' is no token of the vocabulary"},
           {R"({"model": {"vocab": {"z": 4000000000}}})",
            "the token 4000000000 is not from 0 to 16777216"}}) {
    const std::string got = pieces_of(folder, Json::parse(changes), "a");
    expect(got.find(words) != std::string::npos, "'" + got + "' says '" + words + "'");
  }

  decoder::Utf8Stream stream;
  expect(stream.add("a\xf0\x9f") == "a" && stream.add("\x91\xa9z") == "\xf0\x9f\x91\xa9z",
         "a character waits for its last byte");
  expect(stream.add("\xe2\x82").empty() && stream.add("!") == "\xef\xbf\xbd\xef\xbf\xbd!",
         "bytes that are no character are shown as such");
  expect(stream.add("\xc3").empty() && stream.finish() == "\xef\xbf\xbd", "also at the end");
  expect(decoder::visible("a b\n\r\x7f\xff") == "a\xc2\xb7\x62\\n\\x0d\\x7f\xef\xbf\xbd",
         "a name for a picture is one line");
}

void test_writable(const Path& folder) {
  const Path at = folder / "writable";
  std::filesystem::create_directories(at);
  std::ofstream(at / "old") << "old";
  expect(decoder::check_writable(at / "old").ok() && *decoder::file_text(at / "old") == "old",
         "a file that can be written stays as it is");
  expect(decoder::check_writable(at / "new").ok() && !exists(at / "new"), "a new file is not left");
  expect(!decoder::check_writable(at).ok(), "a folder cannot be written");
  expect(!decoder::check_writable(at / "none" / "new").ok(), "nor a file in a folder that is not there");
  std::error_code no_links;
  create_symlink(at / "nowhere", at / "link", no_links);
  expect(no_links || (decoder::check_writable(at / "link").ok() && is_symlink(at / "link") &&
                      !exists(at / "nowhere")),
         "a link that leads nowhere is not tried");
}

// Copies a checkpoint, changes a file, and returns why it is refused.
std::string refusal_of(const Path& from, const Path& to, const std::function<void(const Path&)>& change) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to);
  change(to);
  const auto model = read_model(to);
  if (!model) return model.error().message;
  auto checkpoint = vkattn::SafetensorsFile::open_folder(to);
  if (!checkpoint) return checkpoint.error().message;
  const auto weights = Weights::find(*model, *checkpoint, std::nullopt);
  return weights.ok() ? "" : weights.error().message;
}

void change_json(const Path& path, const Json& changes) {
  std::ifstream in(path);
  Json file = Json::parse(in);
  in.close();
  file.merge_patch(changes);
  std::ofstream(path) << file;
}

using ExpectRefusal = std::function<void(const std::string&, const std::function<void(const Path&)>&)>;

void test_tensor_files(const ExpectRefusal& expect_refusal) {
  expect_refusal("has no model.safetensors and no model.safetensors.index.json",
                 [](const Path& at) { std::filesystem::remove(at / "model.safetensors"); });
  expect_refusal("model.safetensors: ", [](const Path& at) {
    std::filesystem::resize_file(at / "model.safetensors",
                                 std::filesystem::file_size(at / "model.safetensors") / 2);
  });
  expect_refusal("has the tensor '", [](const Path& at) {
    std::filesystem::rename(at / "model.safetensors", at / "a.safetensors");
    std::filesystem::copy(at / "a.safetensors", at / "b.safetensors");
    std::ofstream(at / "model.safetensors.index.json")
        << R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})";
  });
  expect_refusal("shard-2.safetensors", [](const Path& at) {
    std::filesystem::remove(at / "model.safetensors");
    std::ofstream(at / "model.safetensors.index.json") << R"({"weight_map": {"a": "shard-2.safetensors"}})";
  });
  expect_refusal("names no file for the tensor 'a'", [](const Path& at) {
    std::filesystem::remove(at / "model.safetensors");
    std::ofstream(at / "model.safetensors.index.json") << R"({"weight_map": {"a": "../model.safetensors"}})";
  });
}

}  // namespace

void test_refusals(const Path& checkpoint) {
  const decoder::TemporaryFolder folder;
  test_steps(folder.path());
  test_writable(folder.path());
  const Path to = folder / "model";
  const auto expect_refusal = [&](const std::string& words, const std::function<void(const Path&)>& change) {
    const std::string got = refusal_of(checkpoint, to, change);
    expect(got.find(words) != std::string::npos && got.find('\n') == std::string::npos,
           "'" + got + "' says '" + words + "'");
  };
  const auto with_config = [](Json changes) {
    return [changes](const Path& at) { change_json(at / "config.json", changes); };
  };
  expect(refusal_of(checkpoint, to, [](const Path&) {}).empty(),
         "a checkpoint that was not changed is taken");
  expect_refusal("the architecture 'BertModel' is not known; known are LlamaForCausalLM, ",
                 with_config({{"architectures", {"BertModel"}}}));
  expect_refusal("vocab_size is 0 but must be from 1", with_config({{"vocab_size", 0}}));
  expect_refusal("vocab_size is no whole number", with_config({{"vocab_size", 1e300}}));
  expect_refusal("layer_norm_epsilon is \"small\" but must be a number",
                 with_config({{"layer_norm_epsilon", "small"}}));
  expect_refusal("is no configuration",
                 [](const Path& at) { std::ofstream(at / "config.json") << "{\"architectures\": 3"; });
  expect_refusal("config.json cannot be read",
                 [](const Path& at) { std::filesystem::remove(at / "config.json"); });
  expect_refusal("config.json cannot be read", [](const Path& at) {
    std::filesystem::remove(at / "config.json");
    std::filesystem::create_directory(at / "config.json");
  });
  expect_refusal("generation_config.json is no configuration", [](const Path& at) {
    std::ofstream(at / "generation_config.json") << "{\"eos_token_id\": 3";
  });
  expect_refusal("generation_config.json cannot be read", [](const Path& at) {
    std::filesystem::remove(at / "generation_config.json");
    std::filesystem::create_directory(at / "generation_config.json");
  });
  for (const auto& [name, other] :
       {std::pair{"scale_attn_weights", false}, std::pair{"scale_attn_by_inverse_layer_idx", true}})
    expect_refusal("scale_attn_by_inverse_layer_idx are not known", with_config({{name, other}}));
  expect_refusal("the checkpoint has no tensor 'lm_head.weight'",
                 with_config({{"tie_word_embeddings", false}}));
  expect_refusal("and config.json makes it", with_config({{"vocab_size", 77}}));
  expect_refusal("the checkpoint has no tensor '", with_config({{"num_hidden_layers", 3}, {"n_layer", 3}}));
  test_tensor_files(expect_refusal);
  expect_refusal(
      "the activation 'relu' is not known",
      with_config({{"hidden_act", "relu"}, {"hidden_activation", "relu"}, {"activation_function", "relu"}}));
}

// smollm2 has 32 numbers of a key in each of two layers, and its largest tensor is the embedding of 307
// tokens in 16 bits.
void test_room(const Path& checkpoint) {
  const Model model = decoder::checked(read_model(checkpoint));
  auto file = decoder::checked(vkattn::SafetensorsFile::open_folder(checkpoint));
  const Weights weights = decoder::checked(Weights::find(model, file, std::nullopt));
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 40U, kCache = std::uint64_t{1} << 30U;
  decoder::Room room{"a GPU", kCache, kMuch, "ask for less"};
  decoder::GraphOptions options;
  const auto expect_refusal = [&](const std::string& words, std::uint64_t workspaces = 0) {
    const auto status = check_room(room, model, weights, options, workspaces);
    const std::string got = status.ok() ? "" : status.error().message;
    expect(got == words, "'" + got + "' is '" + words + "'");
  };
  options.context = 1 << 24;
  expect_refusal("");
  --room.range;
  expect_refusal(
      "a layer's cache of 16777216 keys takes 1073741824 bytes, and maxStorageBufferRange of a GPU is "
      "1073741823; ask for less");
  options.context = 64;
  room.range = 32768;
  expect_refusal("");
  --room.range;
  expect_refusal(
      "the largest buffer of a pass of 64 tokens and 1 prompt takes 32768 bytes, and maxStorageBufferRange "
      "of a GPU is 32767; ask for less");
  room.range = 19647;
  expect_refusal(
      "the tensor 'model.embed_tokens.weight' takes 19648 bytes, and maxStorageBufferRange of a GPU is "
      "19647; ask for less");
  options.context = 1 << 24;
  room.range = kMuch;
  room.memory = 4 * kCache + (std::uint64_t{1} << 20U);
  expect_refusal("");
  expect_refusal(
      "weights, cache, the numbers of a pass and workspaces take 4297229392 bytes, and the memory of a GPU "
      "has 4296015872; ask for less",
      std::uint64_t{2} << 20U);
}

}  // namespace generate
