// The tuning file: see tuning_file.hpp. Everything read is checked: a file may be torn, foreign or made by
// hand.
#include "runtime/tuning_file.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "common/path_text.hpp"
#include "kernels/tile_table.hpp"
#include "runtime/files.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::detail {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "vkattn tuning";
constexpr int kVersion = 3;
constexpr std::uintmax_t kMaxTuningBytes = std::uintmax_t{16} << 20U;  // larger files are not ours
constexpr int kMaxDepth = 16;

// A parsed text, or null where it is no JSON or is nested as no file of ours is.
Json parse_json(std::string_view text) {
  bool too_deep = false;
  // The parser itself takes any depth. What is too deep is dropped as it is read, for copies recurse.
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json json = Json::parse(text, keep, false);
  return json.is_discarded() || too_deep ? Json() : json;
}

const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found != json.end() ? &*found : nullptr;
}

std::optional<std::uint32_t> number(const Json& json, const char* name) {
  const Json* const value = member(json, name);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  const auto wide = value->get<std::uint64_t>();
  if (wide > ~std::uint32_t{0}) return std::nullopt;
  return static_cast<std::uint32_t>(wide);
}

std::string text(const Json& json, const char* name) {
  const Json* const value = member(json, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_tuning(const Json& json) {
  const Json* const devices = member(json, "devices");
  return text(json, "format") == kFormat && number(json, "version") == kVersion && devices != nullptr &&
         devices->is_array();
}

bool is_device(const Json& entry, const Capabilities& device) {
  return number(entry, "vendor_id") == device.vendor_id && number(entry, "device_id") == device.device_id &&
         text(entry, "name") == device.device_name;
}

Json tile_json(const TileSizes& tile) {
  Json json = Json::object();
  for_each_size(tile, [&](const char* name, std::uint32_t size) {
    if (size != 0) json[name] = size;
  });
  return json;
}

// Nothing where a value is there and is no number.
std::optional<TileSizes> tile_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  TileSizes tile;
  bool good = true;
  for_each_size(tile, [&](const char* name, std::uint32_t& size) {
    if (member(json, name) == nullptr) return;
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
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{kMost}) return false;
  value = json.get<std::int64_t>();
  return value >= kUnlimited && value <= kMost;
}

bool read_value(const Json& json, bool& value) {
  if (json.is_boolean()) value = json.get<bool>();
  return json.is_boolean();
}

bool read_value(const Json& json, DataType& value) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kQ8_0,
                              DataType::kQ4_0, DataType::kFloat8E4m3}) {
    value = type;
    if (json == name(type)) return true;
  }
  return false;
}

Json attention_json(const AttentionDesc& desc) {
  Json json = Json::object();
  for_each_member(desc, [&](const char* key, const auto& value) { json[key] = value_json(value); });
  return json;
}

// Nothing where a value is missing or is none that its member takes.
std::optional<AttentionDesc> attention_of(const Json& json) {
  AttentionDesc desc;
  bool good = true;
  for_each_member(desc, [&](const char* key, auto& value) {
    const Json* const found = member(json, key);
    good = good && found != nullptr && read_value(*found, value);
  });
  return good ? std::optional(desc) : std::nullopt;
}

// The kind of each by its name.
Json features_json(const AttentionDesc& desc) {
  Json json = Json::object();
  for (const FeatureRow& row : feature_table()) {
    if (row.is_used(desc)) json[std::string(row.name)] = row.kind != nullptr ? row.kind(desc) : 0;
  }
  return json;
}

// Nothing where one is no number.
std::optional<std::vector<TunedFeature>> features_of(const Json& json) {
  const Json* const found = member(json, "features");
  if (found == nullptr || !found->is_object()) return std::nullopt;
  std::vector<TunedFeature> features;
  for (const auto& [name, value] : found->items()) {
    const auto kind = number(*found, name.c_str());
    if (!kind) return std::nullopt;
    features.push_back({name, *kind});
  }
  return features;
}

std::optional<TunedProblem> problem_of(const Json& json) {
  const Json* const tile = member(json, "tile");
  const Json* const attention = member(json, "attention");
  const std::string kernel = text(json, "kernel");
  const auto splits = number(json, "kv_splits");
  if (attention == nullptr || kernel.empty() || tile == nullptr || !splits) return std::nullopt;
  const auto desc = attention_of(*attention);
  const auto shape = tile_of(*tile);
  const auto features = features_of(json);
  if (!desc || !shape || !features) return std::nullopt;
  return TunedProblem{text(json, "problem"), *desc, {kernel, *shape}, *splits, *features};
}

// Driver strings may be no UTF-8.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json result_json(const TuningResult& result) {
  return Json{{"problem", result.tuned.problem},
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
Json merged_problems(const Json& old, const std::vector<TuningResult>& results) {
  Json problems = Json::array();
  if (old.is_array()) {
    for (const Json& entry : old) {
      const bool again = std::any_of(results.begin(), results.end(), [&](const TuningResult& result) {
        return result.tuned.problem == text(entry, "problem");
      });
      if (!again) problems.push_back(entry);
    }
  }
  for (const TuningResult& result : results) problems.push_back(result_json(result));
  return problems;
}

}  // namespace

Tuning parse_tuning(std::string_view file, const std::string& source, const Capabilities& device) {
  Tuning tuning;
  tuning.source = source;
  const Json json = parse_json(file);
  if (!is_tuning(json)) {
    tuning.warning = message("ignored ", source, ", which is no vkattn tuning file of version ", kVersion);
    return tuning;
  }
  tuning.warning = message("ignored ", source, ", which has nothing measured on ", device.device_name);
  for (const Json& entry : json["devices"]) {
    if (!is_device(entry, device)) continue;
    if (number(entry, "driver_version") != device.driver_version) {
      tuning.warning = message("ignored ", source, ", which was measured with another driver version on ",
                               device.device_name, ": run vkattn tune again");
      continue;
    }
    const Json* const problems = member(entry, "problems");
    if (problems == nullptr || !problems->is_array()) continue;
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
  Json json = Json{{"format", kFormat}, {"version", kVersion}, {"devices", Json::array()}};
  if (!old_text.empty()) {
    json = parse_json(old_text);
    if (!is_tuning(json)) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   message("the file that is there is no vkattn tuning file of version ", kVersion)};
    }
  }
  Json devices = Json::array();
  Json old_problems;
  for (const Json& entry : json["devices"]) {
    if (!is_device(entry, device)) {
      devices.push_back(entry);
    } else if (const Json* const problems = member(entry, "problems");
               problems != nullptr && number(entry, "driver_version") == device.driver_version) {
      old_problems = *problems;
    }
  }
  devices.push_back(Json{{"name", device.device_name},
                         {"vendor_id", device.vendor_id},
                         {"device_id", device.device_id},
                         {"driver_version", device.driver_version},
                         {"driver", message(device.driver_name, " ", device.driver_info)},
                         {"problems", merged_problems(old_problems, results)}});
  json["devices"] = std::move(devices);
  return dumped(json);
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
