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

template <class Tile>
Json tile_json(const Tile& tile) {
  Json json = Json::object();
  for_each_size(tile, [&](const char* name, std::uint32_t size) {
    if (size != 0) json[name] = size;
  });
  return json;
}

// Nothing where there is none, or a value of it is no number.
template <class Tile>
std::optional<Tile> tile_of(const Json& json) {
  const Json* const sizes = member(json, "tile");
  if (sizes == nullptr || !sizes->is_object()) return std::nullopt;
  Tile tile;
  bool good = true;
  for_each_size(tile, [&](const char* name, std::uint32_t& size) {
    if (member(*sizes, name) == nullptr) return;
    const auto found = number(*sizes, name);
    good = good && found.has_value();
    size = found.value_or(0);
  });
  return good ? std::optional(tile) : std::nullopt;
}

// What Tuning::nearest() looks at beside features, by name.
template <class Desc, class Visit>
requires requires(Desc desc) {
  desc.head_dim;
}
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

// What Tuning::nearest_matmul() looks at, in place of strides how an operand lies.
struct MatmulMembers {
  MatmulDesc desc;
  bool a_transposed = false, b_transposed = false;
};

template <class Members, class Visit>
requires requires(Members members) {
  members.a_transposed;
}
void for_each_member(Members& members, Visit&& visit) {
  visit("batch", members.desc.batch);
  visit("rows", members.desc.rows);
  visit("columns", members.desc.columns);
  visit("inner", members.desc.inner);
  visit("a_type", members.desc.a.type);
  visit("b_type", members.desc.b.type);
  visit("output_type", members.desc.output.type);
  visit("a_is_ones", members.desc.a_is_ones);
  visit("a_transposed", members.a_transposed);
  visit("b_transposed", members.b_transposed);
}

// Of (rows, columns) matrices whose columns lie in one piece.
MatrixStrides transposed(std::int64_t rows, std::int64_t columns) {
  return {rows * columns, 1, rows};
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

template <class Members>
Json members_json(const Members& members) {
  Json json = Json::object();
  for_each_member(members, [&](const char* key, const auto& value) { json[key] = value_json(value); });
  return json;
}

// Nothing where a value is missing or is none that its member takes.
template <class Members>
std::optional<Members> members_of(const Json* json) {
  Members members;
  bool good = json != nullptr;
  for_each_member(members, [&](const char* key, auto& value) {
    const Json* const found = good ? member(*json, key) : nullptr;
    good = good && found != nullptr && read_value(*found, value);
  });
  return good ? std::optional(members) : std::nullopt;
}

Json matmul_json(const MatmulDesc& given) {
  const MatmulDesc desc = given.resolved();
  return members_json(MatmulMembers{desc, desc.a.strides->is_transposed(), desc.b.strides->is_transposed()});
}

std::optional<MatmulDesc> matmul_of(const Json* json) {
  const auto members = members_of<MatmulMembers>(json);
  if (!members) return std::nullopt;
  MatmulDesc desc = members->desc;
  if (members->a_transposed) desc.a.strides = transposed(desc.rows, desc.inner);
  if (members->b_transposed) desc.b.strides = transposed(desc.inner, desc.columns);
  return desc;
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
  const auto desc = members_of<AttentionDesc>(member(json, "attention"));
  const std::string kernel = text(json, "kernel");
  const auto tile = tile_of<TileSizes>(json);
  const auto splits = number(json, "kv_splits");
  const auto features = features_of(json);
  DataType arithmetic = DataType::kFloat32;
  const Json* const given = member(json, "arithmetic_type");
  const bool is_type = given == nullptr || read_value(*given, arithmetic);
  if (!desc || kernel.empty() || !tile || !splits || !features || !is_type) return std::nullopt;
  return TunedProblem{text(json, "problem"), *desc, {kernel, *tile}, *splits, *features, arithmetic};
}

std::optional<TunedBackward> backward_of(const Json& json) {
  const auto desc = members_of<AttentionDesc>(member(json, "backward"));
  const std::string kernel = text(json, "kernel");
  const auto chunk_keys = number(json, "chunk_keys");
  const auto features = features_of(json);
  if (!desc || kernel.empty() || !chunk_keys || !features) return std::nullopt;
  return TunedBackward{text(json, "problem"), *desc, kernel, *chunk_keys, *features};
}

std::optional<TunedMatmul> product_of(const Json& json) {
  const auto desc = matmul_of(member(json, "matmul"));
  const std::string kernel = text(json, "kernel");
  const auto tile = tile_of<MatmulTile>(json);
  const auto splits = number(json, "inner_splits");
  if (!desc || kernel.empty() || !tile || !splits) return std::nullopt;
  return TunedMatmul{text(json, "problem"), *desc, {kernel, *tile}, *splits};
}

// Reads one line of the file into its list; nothing where it is of no kind.
void add_line(const Json& json, Tuning& tuning) {
  if (auto problem = problem_of(json)) {
    tuning.problems.push_back(*std::move(problem));
  } else if (auto gradients = backward_of(json)) {
    tuning.gradients.push_back(*std::move(gradients));
  } else if (auto product = product_of(json)) {
    tuning.products.push_back(*std::move(product));
  }
}

bool is_empty(const Tuning& tuning) {
  return tuning.problems.empty() && tuning.gradients.empty() && tuning.products.empty();
}

// Driver strings may be no UTF-8.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json tuned_json(const TunedProblem& tuned) {
  return Json{{"problem", tuned.problem},
              {"attention", members_json(tuned.desc)},
              {"arithmetic_type", name(tuned.arithmetic_type)},
              {"features", features_json(tuned.desc)},
              {"kernel", tuned.best.kernel},
              {"tile", tile_json(tuned.best.tile)},
              {"kv_splits", tuned.kv_splits}};
}

Json tuned_json(const TunedBackward& tuned) {
  return Json{{"problem", tuned.problem},
              {"backward", members_json(tuned.desc)},
              {"features", features_json(tuned.desc)},
              {"kernel", tuned.kernel},
              {"chunk_keys", tuned.chunk_keys}};
}

Json tuned_json(const TunedMatmul& tuned) {
  return Json{{"problem", tuned.problem},
              {"matmul", matmul_json(tuned.desc)},
              {"kernel", tuned.best.kernel},
              {"tile", tile_json(tuned.best.tile)},
              {"inner_splits", tuned.inner_splits}};
}

// That two lines are of the same problem, which one of them replaces.
bool is_again(const Json& line, const Json& other) {
  const auto arithmetic = [](const Json& json) {
    const std::string type = text(json, "arithmetic_type");
    return type.empty() ? std::string(name(DataType::kFloat32)) : type;
  };
  return text(line, "problem") == text(other, "problem") && arithmetic(line) == arithmetic(other);
}

Json result_json(const TuningResult& result) {
  Json json = std::visit([](const auto& tuned) { return tuned_json(tuned); }, result.tuned);
  json["median_ns"] = result.median_ns;
  json["default_kernel"] = result.default_kernel;
  json["default_median_ns"] = result.default_median_ns;
  return json;
}

// Puts results in the place of older ones of the same problems.
Json merged_problems(const Json& old, const std::vector<TuningResult>& results) {
  Json problems = Json::array(), added = Json::array();
  for (const TuningResult& result : results) added.push_back(result_json(result));
  if (old.is_array()) {
    for (const Json& entry : old) {
      const bool again =
          std::any_of(added.begin(), added.end(), [&](const Json& line) { return is_again(line, entry); });
      if (!again) problems.push_back(entry);
    }
  }
  for (Json& line : added) problems.push_back(std::move(line));
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
    for (const Json& line : *problems) add_line(line, tuning);
    if (is_empty(tuning) && !problems->empty()) {
      tuning.warning = message("ignored ", source, ", none of whose ", problems->size(), " entries for ",
                               device.device_name, " can be read");
    }
  }
  if (!is_empty(tuning)) tuning.warning.clear();
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
