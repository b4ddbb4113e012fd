// The tuning file: see tuning_file.hpp. Everything read is checked: a file may be torn, foreign or made by
// hand.
#include "runtime/tuning_file.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "common/path_text.hpp"
#include "kernels/tile_table.hpp"
#include "runtime/files.hpp"
#include "runtime/input_file.hpp"
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

template <class Tile>
Json tile_json(const Tile& tile) {
  Json::Object json;
  for_each_size(tile, [&](const char* name, std::uint32_t size) {
    if (size != 0) json.emplace_back(name, size);
  });
  return json;
}

// Nothing where there is none, or a value of it is no number.
template <class Tile>
std::optional<Tile> tile_of(const Json& json) {
  const Json* const sizes = json.member("tile");
  if (sizes == nullptr || sizes->as<Json::Object>() == nullptr) return std::nullopt;
  Tile tile;
  bool good = true;
  for_each_size(tile, [&](const char* name, std::uint32_t& size) {
    if (sizes->member(name) == nullptr) return;
    const auto found = number(*sizes, name);
    good = good && found.has_value();
    size = found.value_or(0);
  });
  return good ? std::optional(tile) : std::nullopt;
}

// The members that Tuning::nearest() compares beside features, by name.
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

// The members that Tuning::nearest_matmul() compares; whether an operand is transposed stands for its
// strides.
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

// Strides of (rows, columns) matrices whose columns lie in one piece.
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

template <class Members>
Json members_json(const Members& members) {
  Json::Object json;
  for_each_member(members,
                  [&](const char* key, const auto& value) { json.emplace_back(key, value_json(value)); });
  return json;
}

// Nothing where a value is missing or is none that its member takes.
template <class Members>
std::optional<Members> members_of(const Json* json) {
  Members members;
  bool good = json != nullptr;
  for_each_member(members, [&](const char* key, auto& value) {
    const Json* const found = good ? json->member(key) : nullptr;
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

std::string label_of(const Json& json) {
  return std::string(text(json, "problem"));
}

std::optional<TunedProblem> problem_of(const Json& json) {
  const auto desc = members_of<AttentionDesc>(json.member("attention"));
  const std::string kernel(text(json, "kernel"));
  const auto tile = tile_of<TileSizes>(json);
  const auto splits = number(json, "kv_splits");
  const auto features = features_of(json);
  DataType arithmetic = DataType::kFloat32;
  const Json* const given = json.member("arithmetic_type");
  const bool is_type = given == nullptr || read_value(*given, arithmetic);
  if (!desc || kernel.empty() || !tile || !splits || !features || !is_type) return std::nullopt;
  return TunedProblem{label_of(json), *desc, {kernel, *tile}, *splits, *features, arithmetic};
}

std::optional<TunedBackward> backward_of(const Json& json) {
  const auto desc = members_of<AttentionDesc>(json.member("backward"));
  const std::string kernel(text(json, "kernel"));
  const auto chunk_keys = number(json, "chunk_keys");
  const auto features = features_of(json);
  if (!desc || kernel.empty() || !chunk_keys || !features) return std::nullopt;
  TunedBackward tuned{label_of(json), *desc, kernel, *chunk_keys, *features};
  if (json.member("tile") != nullptr) {
    tuned.tile = tile_of<TileSizes>(json);
    if (!tuned.tile) return std::nullopt;
  }
  return tuned;
}

std::optional<TunedMatmul> product_of(const Json& json) {
  const auto desc = matmul_of(json.member("matmul"));
  const std::string kernel(text(json, "kernel"));
  const auto tile = tile_of<MatmulTile>(json);
  const auto splits = number(json, "inner_splits");
  if (!desc || kernel.empty() || !tile || !splits) return std::nullopt;
  return TunedMatmul{label_of(json), *desc, {kernel, *tile}, *splits};
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

Json::Object tuned_json(const TunedProblem& tuned) {
  return {{"problem", tuned.problem},
          {"attention", members_json(tuned.desc)},
          {"arithmetic_type", name(tuned.arithmetic_type)},
          {"features", features_json(tuned.desc)},
          {"kernel", tuned.best.kernel},
          {"tile", tile_json(tuned.best.tile)},
          {"kv_splits", tuned.kv_splits}};
}

Json::Object tuned_json(const TunedBackward& tuned) {
  Json::Object line{{"problem", tuned.problem},
                    {"backward", members_json(tuned.desc)},
                    {"features", features_json(tuned.desc)},
                    {"kernel", tuned.kernel},
                    {"chunk_keys", tuned.chunk_keys}};
  if (tuned.tile) line.emplace_back("tile", tile_json(*tuned.tile));
  return line;
}

Json::Object tuned_json(const TunedMatmul& tuned) {
  return {{"problem", tuned.problem},
          {"matmul", matmul_json(tuned.desc)},
          {"kernel", tuned.best.kernel},
          {"tile", tile_json(tuned.best.tile)},
          {"inner_splits", tuned.inner_splits}};
}

// Whether two lines are of the same problem, so that one replaces the other.
bool is_again(const Json& line, const Json& other) {
  const auto arithmetic = [](const Json& json) {
    const std::string_view type = text(json, "arithmetic_type");
    return type.empty() ? name(DataType::kFloat32) : type;
  };
  return text(line, "problem") == text(other, "problem") && arithmetic(line) == arithmetic(other);
}

Json result_json(const TuningResult& result) {
  Json::Object json = std::visit([](const auto& tuned) { return tuned_json(tuned); }, result.tuned);
  json.emplace_back("median_ns", result.median_ns);
  json.emplace_back("default_kernel", result.default_kernel);
  json.emplace_back("default_median_ns", result.default_median_ns);
  return json;
}

// Puts results in the place of older ones of the same problems.
Json::Array merged_problems(const Json::Array& old, const std::vector<TuningResult>& results) {
  Json::Array problems, added;
  for (const TuningResult& result : results) added.push_back(result_json(result));
  for (const Json& entry : old) {
    const bool again =
        std::any_of(added.begin(), added.end(), [&](const Json& line) { return is_again(line, entry); });
    if (!again) problems.push_back(entry);
  }
  for (Json& line : added) problems.push_back(std::move(line));
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
  Json::Array devices, old_problems;
  if (!old_text.empty()) {
    const auto old = devices_of(old_text);
    if (!old) {
      return invalid("the file that is there is no vkattn tuning file of version ", kVersion);
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

Result<std::string> read_tuning(const std::filesystem::path& path) {
  auto text = read_input(path, kMaxTuningBytes);
  if (text || text.error().code == ErrorCode::kNotFound) return text ? *std::move(text) : std::string();
  return Error{text.error().code, VK_SUCCESS,
               message(path_text(path), " cannot be read: ", text.error().message)};
}

Result<void> update_tuning(const std::filesystem::path& path, const Capabilities& device,
                           const std::vector<TuningResult>& results,
                           const std::function<Result<void>(std::string_view text)>& write) {
  FileLock lock;
  if (lock.take(path) == FileLock::Status::kBusy) {
    return Error{ErrorCode::kIo, VK_SUCCESS,
                 message(path_text(path), " has been locked by another program for ",
                         FileLock::kPatience.count(), " seconds")};
  }
  const auto there = read_tuning(path);
  if (!there) return there.error();
  const auto merged = merge_tuning(*there, device, results);
  if (!merged) {
    return Error{merged.error().code, VK_SUCCESS, message(path_text(path), ": ", merged.error().message)};
  }
  return write(*merged);
}

void load_tuning(RuntimeState& state, const RuntimeOptions& options) {
  const std::filesystem::path path =
      options.tuning_file.empty() ? environment_path("VKATTN_TUNING") : options.tuning_file;
  if (path.empty()) return;
  auto tuning = std::make_shared<Tuning>();
  if (const auto text = read_input(path, kMaxTuningBytes)) {
    *tuning = parse_tuning(*text, path_text(path), state.device->capabilities());
  } else {
    tuning->warning = message("ignored ", path_text(path), ", which cannot be read: ", text.error().message);
  }
  state.tuning = std::move(tuning);
}

}  // namespace vkattn::detail
