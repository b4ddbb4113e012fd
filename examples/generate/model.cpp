#include "generate/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>

#include "decoder/text.hpp"

namespace generate {

namespace {

using Json = nlohmann::json;

const std::array<Family, 5>& families() {
  static const std::array<Family, 5> all = {{{},
                                             {.architecture = "MistralForCausalLM"},
                                             {.architecture = "Qwen2ForCausalLM", .has_qkv_biases = true},
                                             {.architecture = "Gemma2ForCausalLM",
                                              .post_attention = "post_attention_layernorm",
                                              .mlp_norm = "pre_feedforward_layernorm",
                                              .post_mlp = "post_feedforward_layernorm",
                                              .is_gemma = true},
                                             {.architecture = "GPT2LMHeadModel",
                                              .embedding = "wte",
                                              .positions = "wpe",
                                              .last_norm = "ln_f",
                                              .layer = "h.",
                                              .attention_norm = "ln_1",
                                              .mlp_norm = "ln_2",
                                              .qkv = {"attn.c_attn"},
                                              .up = {"mlp.c_fc"},
                                              .out = "attn.c_proj",
                                              .down = "mlp.c_proj",
                                              .has_means = true,
                                              .is_input_first = true,
                                              .has_all_biases = true,
                                              .has_qkv_biases = true}}};
  return all;
}

// It becomes the error of read_model().
[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what);
}

// A value of the configuration; null counts as missing.
template <class T>
T value(const Json& config, const char* name, T otherwise) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return otherwise;
  if (std::is_same_v<T, std::int64_t> && !found->is_number_integer())
    fail(std::string(name) + " is no whole number");
  try {
    return found->get<T>();
  } catch (const Json::type_error&) {
    const char* const kind = std::is_same_v<T, bool>          ? "true or false"
                             : std::is_arithmetic_v<T>        ? "a number"
                             : std::is_same_v<T, std::string> ? "a string"
                                                              : "a list of strings";
    fail(std::string(name) + " is " + found->dump() + " but must be " + kind);
  }
}

constexpr std::int64_t kMostSize = 1 << 24;

// A size that must be there.
std::int64_t size(const Json& config, const char* name, std::int64_t most, std::int64_t otherwise = 0) {
  const auto found = value<std::int64_t>(config, name, otherwise);
  if (found < 1 || found > most)
    fail(std::string(name) + " is " + std::to_string(found) + " but must be from 1 to " +
         std::to_string(most));
  return found;
}

// Frequencies of rotary embedding with the published scalings.
void set_frequencies(Model& model, const Json& config) {
  const Json none = Json::object();
  const auto given = config.find("rope_scaling"), newer = config.find("rope_parameters");
  const Json& scaling = newer != config.end() && newer->is_object()   ? *newer
                        : given != config.end() && given->is_object() ? *given
                                                                      : none;
  const double base = value(config, "rope_theta", value(scaling, "rope_theta", 10000.0));
  const double factor = value(scaling, "factor", 1.0);
  const std::string kind =
      value<std::string>(scaling, "rope_type", value<std::string>(scaling, "type", "default"));
  const double original =
      value(scaling, "original_max_position_embeddings", static_cast<double>(model.context));
  const auto dims = static_cast<double>(model.head_dim);
  if (kind == "yarn") {
    model.rotary_magnitude =
        value(scaling, "attention_factor", static_cast<float>(0.1 * std::log(factor) + 1));
  } else if (kind != "default" && kind != "linear" && kind != "llama3") {
    fail("rotary scaling '" + kind + "' is not known; linear, llama3 and yarn are");
  }
  if (!(base > 1 && base < 1e30 && factor >= 1 && factor < 1e6 && original >= 1))
    fail("no rotary embedding has the base " + std::to_string(base) + ", the factor " +
         std::to_string(factor) + " and an original context of " + std::to_string(original));
  // YaRN: the pair that makes so many turns within the original context.
  const auto pair_of = [&](double turns) {
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  for (std::int64_t i = 0; i < model.head_dim / 2; ++i) {
    const double plain = std::pow(base, -2 * static_cast<double>(i) / dims);
    double kept = kind == "default" ? 1 : 0;  // the share of the frequency that is not divided by the factor
    if (kind == "llama3") {
      const double low = value(scaling, "low_freq_factor", 1.0),
                   high = value(scaling, "high_freq_factor", 4.0);
      kept = std::clamp((original * plain / (2 * std::numbers::pi) - low) / (high - low), 0.0, 1.0);
    } else if (kind == "yarn") {
      const double first = std::max(std::floor(pair_of(value(scaling, "beta_fast", 32.0))), 0.0);
      const double last = std::min(std::ceil(pair_of(value(scaling, "beta_slow", 1.0))), dims - 1);
      kept = 1 - std::clamp((static_cast<double>(i) - first) / std::max(last - first, 0.001), 0.0, 1.0);
    }
    model.frequencies.push_back(static_cast<float>(kept * plain + (1 - kept) * plain / factor));
  }
}

void set_windows(Model& model, const Json& config) {
  const auto window = value<std::int64_t>(config, "sliding_window", 0);
  const std::string architecture = model.family->architecture;
  const bool is_qwen = architecture == "Qwen2ForCausalLM";
  const bool has_windows = !is_qwen || value(config, "use_sliding_window", false);
  const auto first = is_qwen ? value<std::int64_t>(config, "max_window_layers", 0) : 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool is_local = model.family->is_gemma ? layer % 2 == 0 : layer >= first;
    model.windows.push_back(has_windows && is_local ? window : 0);
  }
}

void add_ends(Model& model, const Json& config) {
  const auto end = config.find("eos_token_id");
  if (end == config.end() || end->is_null()) return;
  for (const Json& token : end->is_array() ? *end : Json::array({*end}))
    if (token.is_number_unsigned()) model.ends.push_back(token.get<std::uint32_t>());
}

void set_sizes(Model& model, const Json& config) {
  const bool is_gpt2 = model.family->positions != nullptr;
  model.vocabulary = size(config, "vocab_size", kMostSize);
  model.context = size(config, is_gpt2 ? "n_positions" : "max_position_embeddings", kMostSize);
  model.layers = size(config, is_gpt2 ? "n_layer" : "num_hidden_layers", 1024);
  model.width = size(config, is_gpt2 ? "n_embd" : "hidden_size", kMostSize);
  model.heads = size(config, is_gpt2 ? "n_head" : "num_attention_heads", 4096);
  model.hidden = is_gpt2 ? size(config, "n_inner", kMostSize, 4 * model.width)
                         : size(config, "intermediate_size", kMostSize);
  model.kv_heads = size(config, "num_key_value_heads", model.heads, model.heads);
  model.head_dim = size(config, "head_dim", 576, model.width / model.heads);
  if (model.heads % model.kv_heads != 0 || (!is_gpt2 && model.head_dim % 2 != 0))
    fail("no model has " + std::to_string(model.heads) + " heads of " + std::to_string(model.head_dim) +
         " elements over " + std::to_string(model.kv_heads) + " heads of keys");
}

void set_numbers(Model& model, const Json& config) {
  const bool is_gpt2 = model.family->positions != nullptr;
  const std::string activation =
      value<std::string>(config, is_gpt2 ? "activation_function" : "hidden_activation",
                         value<std::string>(config, "hidden_act", is_gpt2 ? "gelu_new" : "silu"));
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh")
    model.activation = decoder::Activation::kGelu;
  else if (activation != "silu")
    fail("the activation '" + activation + "' is not known; silu, gelu_new and gelu_pytorch_tanh are");
  model.is_tied = value(config, "tie_word_embeddings", model.family->is_gemma || is_gpt2);
  model.epsilon = is_gpt2 ? value(config, "layer_norm_epsilon", 1e-5F) : value(config, "rms_norm_eps", 1e-6F);
  model.scale = static_cast<float>(
      1 / std::sqrt(value(config, "query_pre_attn_scalar", static_cast<double>(model.head_dim))));
  model.softcap = value(config, "attn_logit_softcapping", 0.0F);
  model.last_softcap = value(config, "final_logit_softcapping", 0.0F);
  if (value(config, "attention_bias", false) || value(config, "mlp_bias", false) ||
      value(config, "partial_rotary_factor", 1.0) != 1)
    fail("attention_bias, mlp_bias and partial_rotary_factor are not known");
  if (is_gpt2 &&
      (!value(config, "scale_attn_weights", true) || value(config, "scale_attn_by_inverse_layer_idx", false)))
    fail("scale_attn_weights that is false and scale_attn_by_inverse_layer_idx are not known");
  if (!is_gpt2) set_frequencies(model, config);
}

Model model_of(const Json& config) {
  const auto architectures = value<std::vector<std::string>>(config, "architectures", {});
  const std::string name = architectures.empty() ? "" : architectures.front();
  std::string known;
  Model model;
  for (const Family& each : families()) {
    if (name == each.architecture) model.family = &each;
    known += (known.empty() ? "" : ", ") + std::string(each.architecture);
  }
  if (model.family == nullptr) fail("the architecture '" + name + "' is not known; known are " + known);
  model.is_gated = model.family->up.size() > 1;
  model.scales_embedding = model.family->is_gemma;
  set_sizes(model, config);
  set_numbers(model, config);
  set_windows(model, config);
  add_ends(model, config);
  return model;
}

Json object_of(const std::filesystem::path& path) {
  const auto text = decoder::file_text(path);
  if (!text) throw text.error();
  Json json = Json::parse(*text);
  if (!json.is_object()) fail("it is no JSON object");
  return json;
}

}  // namespace

vkattn::Result<Model> read_model(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "config.json";
  try {
    Model model = model_of(object_of(path));
    // Models for dialogues have their ends in this file, if there is one.
    path = folder / "generation_config.json";
    std::error_code error;
    if (std::filesystem::exists(path, error)) add_ends(model, object_of(path));
    return model;
  } catch (const vkattn::Error& error) {
    return error;
  } catch (const Json::exception& error) {
    return decoder::refusal(path.string() + " is no configuration: " + error.what());
  } catch (const std::runtime_error& error) {
    return decoder::refusal(path.string() + ": " + error.what());
  }
}

}  // namespace generate
