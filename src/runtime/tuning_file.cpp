// The tuning file: see tuning_file.hpp. Everything read is checked: a file may be torn, foreign or made by
// hand.
#include "runtime/tuning_file.hpp"

#include <algorithm>
#include <fstream>
#include <type_traits>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "common/path_text.hpp"
#include "kernels/tile_table.hpp"
#include "runtime/files.hpp"
#include "runtime/json.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::detail {

namespace {

constexpr std::string_view kFormat = "vkattn tuning";
constexpr int kVersion = 3;
constexpr std::uintmax_t kMaxTuningBytes = std::uintmax_t{16} << 20U;  // larger files are not ours
constexpr std::size_t kMaxDepth = 16;

std::optional<std::uint32_t> as_number(const Json* value) {
  const auto* const wide = value != nullptr ? value->as<std::uint64_t>() : nullptr;
  if (wide == nullptr || *wide > ~std::uint32_t{0}) return std::nullopt;
  return static_cast<std::uint32_t>(*wide);
}

std::optional<std::uint32_t> number(const Json& json, std::string_view name) {
  return as_number(json.member(name));
}

std::string_view text(const Json& json, std::string_view name) {
  const Json* const value = json.member(name);
  const auto* const found = value != nullptr ? value->as<std::string>() : nullptr;
  return found != nullptr ? std::string_view(*found) : std::string_view();
}

// Null where it is none.
const Json::Array* list(const Json& json, std::string_view name) {
  const Json* const value = json.member(name);
  return value != nullptr ? value->as<Json::Array>() : nullptr;
}

// Its entries for devices; nothing where the text is no tuning file.
std::optional<Json::Array> devices_of(std::string_view file) {
  const auto json = parse_json(file, kMaxDepth);
  const Json::Array* const devices = json ? list(*json, "devices") : nullptr;
  const bool is_tuning =
      devices != nullptr && text(*json, "format") == kFormat && number(*json, "version") == kVersion;
  return is_tuning ? std::optional(*devices) : std::nullopt;
}

bool is_device(const Json& entry, const Capabilities& device) {
  return number(entry, "vendor_id") == device.vendor_id && number(entry, "device_id") == device.device_id &&
         text(entry, "name") == device.device_name;
}

Json tile_json(const TileSizes& tile) {
  Json::Object json;
  for_each_size(tile, [&](const char* name, std::uint32_t size) {
    if (size != 0) json.emplace_back(name, size);
  });
  return json;
}

// Nothing where a value is there and is no number.
std::optional<TileSizes> tile_of(const Json& json) {
  if (json.as<Json::Object>() == nullptr) return std::nullopt;
  TileSizes tile;
  bool good = true;
  for_each_size(tile, [&](const char* name, std::uint32_t& size) {
    if (json.member(name) == nullptr) return;
    const auto found = number(json, name);
    good = good && found.has_value();
    size = found.value_or(0);
  });
  return good ? std::optional(tile) : std::nullopt;
}

// What Tuning::nearest() looks at beside features, by name.
template <class Desc, class Visit>
void for_each_member(Desc& desc, Visit&& visit) {
  visit("batch", desc.batch);
  visit("query_heads", desc.query_heads);
  visit("kv_heads", desc.kv_heads);
  visit("query_length", desc.query_length);
  visit("kv_length", desc.kv_length);
  visit("head_dim", desc.head_dim);
  visit("value_dim", desc.value_dim);
  visit("query_type", desc.query.type);
  visit("key_type", desc.key.type);
  visit("value_type", desc.value.type);
  visit("output_type", desc.output.type);
  visit("causal", desc.causal);
  visit("window_left", desc.window.left);
  visit("window_right", desc.window.right);
}

template <class T>
Json value_json(const T& value) {
  if constexpr (std::is_same_v<T, DataType>) {
    return name(value);
  } else {
    return value;
  }
}

// False where the value is of another kind or out of any range that a descriptor could have.
bool read_value(const Json& json, std::int64_t& value) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;  // products of two fit 63 bits
  if (const auto* const negative = json.as<std::int64_t>()) {
    value = *negative;
    return value >= kUnlimited;
  }
  const auto* const number = json.as<std::uint64_t>();
  if (number == nullptr || *number > std::uint64_t{kMost}) return false;
  value = static_cast<std::int64_t>(*number);
  return true;
}

bool read_value(const Json& json, bool& value) {
  const auto* const found = json.as<bool>();
  if (found != nullptr) value = *found;
  return found != nullptr;
}

bool read_value(const Json& json, DataType& value) {
  const auto* const found = json.as<std::string>();
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kQ8_0,
                              DataType::kQ4_0, DataType::kFloat8E4m3}) {
    value = type;
    if (found != nullptr && *found == name(type)) return true;
  }
  return false;
}

Json attention_json(const AttentionDesc& desc) {
  Json::Object json;
  for_each_member(desc,
                  [&](const char* key, const auto& value) { json.emplace_back(key, value_json(value)); });
  return json;
}

// Nothing where a value is missing or is none that its member takes.
std::optional<AttentionDesc> attention_of(const Json& json) {
  AttentionDesc desc;
  bool good = true;
  for_each_member(desc, [&](const char* key, auto& value) {
    const Json* const found = json.member(key);
    good = good && found != nullptr && read_value(*found, value);
  });
  return good ? std::optional(desc) : std::nullopt;
}

// The kind of each by its name.
Json features_json(const AttentionDesc& desc) {
  Json::Object json;
  for (const FeatureRow& row : feature_table()) {
    if (row.is_used(desc)) json.emplace_back(row.name, row.kind != nullptr ? row.kind(desc) : 0);
  }
  return json;
}

// Nothing where one is no number.
std::optional<std::vector<TunedFeature>> features_of(const Json& json) {
  const Json* const found = json.member("features");
  const auto* const members = found != nullptr ? found->as<Json::Object>() : nullptr;
  if (members == nullptr) return std::nullopt;
  std::vector<TunedFeature> features;
  for (const auto& [name, value] : *members) {
    const auto kind = as_number(&value);
    if (!kind) return std::nullopt;
    features.push_back({name, *kind});
  }
  return features;
}

std::optional<TunedProblem> problem_of(const Json& json) {
  const Json* const tile = json.member("tile");
  const Json* const attention = json.member("attention");
  const std::string kernel(text(json, "kernel"));
  const auto splits = number(json, "kv_splits");
  if (attention == nullptr || kernel.empty() || tile == nullptr || !splits) return std::nullopt;
  const auto desc = attention_of(*attention);
  const auto shape = tile_of(*tile);
  const auto features = features_of(json);
  if (!desc || !shape || !features) return std::nullopt;
  return TunedProblem{std::string(text(json, "problem")), *desc, {kernel, *shape}, *splits, *features};
}

Json result_json(const TuningResult& result) {
  return Json::Object{{"problem", result.tuned.problem},
                      {"attention", attention_json(result.tuned.desc)},
                      {"features", features_json(result.tuned.desc)},
                      {"kernel", result.tuned.best.kernel},
                      {"tile", tile_json(result.tuned.best.tile)},
                      {"kv_splits", result.tuned.kv_splits},
                      {"median_ns", result.median_ns},
                      {"default_kernel", result.default_kernel},
                      {"default_median_ns", result.default_median_ns}};
}

// Puts results in the place of older ones of the same problems.
Json::Array merged_problems(const Json::Array& old, const std::vector<TuningResult>& results) {
  Json::Array problems;
  for (const Json& entry : old) {
    const bool again = std::any_of(results.begin(), results.end(), [&](const TuningResult& result) {
      return result.tuned.problem == text(entry, "problem");
    });
    if (!again) problems.push_back(entry);
  }
  for (const TuningResult& result : results) problems.push_back(result_json(result));
  return problems;
}

}  // namespace

Tuning parse_tuning(std::string_view file, const std::string& source, const Capabilities& device) {
  Tuning tuning;
  tuning.source = source;
  const auto devices = devices_of(file);
  if (!devices) {
    tuning.warning = message("ignored ", source, ", which is no vkattn tuning file of version ", kVersion);
    return tuning;
  }
  tuning.warning = message("ignored ", source, ", which has nothing measured on ", device.device_name);
  for (const Json& entry : *devices) {
    if (!is_device(entry, device)) continue;
    if (number(entry, "driver_version") != device.driver_version) {
      tuning.warning = message("ignored ", source, ", which was measured with another driver version on ",
                               device.device_name, ": run vkattn tune again");
      continue;
    }
    const Json::Array* const problems = list(entry, "problems");
    if (problems == nullptr) continue;
    for (const Json& problem : *problems) {
      if (auto tuned = problem_of(problem)) tuning.problems.push_back(*std::move(tuned));
    }
    if (tuning.problems.empty() && !problems->empty()) {
      tuning.warning = message("ignored ", source, ", none of whose ", problems->size(), " entries for ",
                               device.device_name, " can be read");
    }
  }
  if (!tuning.problems.empty()) tuning.warning.clear();
  return tuning;
}

Result<std::string> merge_tuning(std::string_view old_text, const Capabilities& device,
                                 const std::vector<TuningResult>& results) {
  Json::Array devices, old_problems;
  if (!old_text.empty()) {
    const auto old = devices_of(old_text);
    if (!old) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   message("the file that is there is no vkattn tuning file of version ", kVersion)};
    }
    for (const Json& entry : *old) {
      if (!is_device(entry, device)) {
        devices.push_back(entry);
      } else if (const Json::Array* const problems = list(entry, "problems");
                 problems != nullptr && number(entry, "driver_version") == device.driver_version) {
        old_problems = *problems;
      }
    }
  }
  devices.push_back(Json::Object{{"name", device.device_name},
                                 {"vendor_id", device.vendor_id},
                                 {"device_id", device.device_id},
                                 {"driver_version", device.driver_version},
                                 {"driver", message(device.driver_name, " ", device.driver_info)},
                                 {"problems", merged_problems(old_problems, results)}});
  const Json all = Json::Object{{"format", kFormat}, {"version", kVersion}, {"devices", std::move(devices)}};
  return to_text(all) + "\n";
}

void load_tuning(RuntimeState& state, const RuntimeOptions& options) {
  const std::filesystem::path path =
      options.tuning_file.empty() ? environment_path("VKATTN_TUNING") : options.tuning_file;
  if (path.empty()) return;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  std::string text(!error && bytes <= kMaxTuningBytes ? static_cast<std::size_t>(bytes) : 0, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  auto tuning = std::make_shared<Tuning>();
  if (error || !file.good() || bytes > kMaxTuningBytes) {
    tuning->warning = message("ignored ", path_text(path),
                              bytes > kMaxTuningBytes && !error ? ", which is too large to be a tuning file"
                                                                : ", which cannot be read");
  } else {
    *tuning = parse_tuning(text, path_text(path), state.device->capabilities());
  }
  state.tuning = std::move(tuning);
}

}  // namespace vkattn::detail
