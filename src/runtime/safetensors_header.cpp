// See safetensors_header.hpp. Everything read is checked: a file may be torn, foreign or made to do harm.
#include "runtime/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "common/checked.hpp"
#include "common/message.hpp"
#include "runtime/json.hpp"

namespace vkattn::detail {

namespace {

constexpr std::string_view kMetadataName = "__metadata__";

struct TypeRow {
  std::string_view name;
  std::uint32_t bytes;
};

// In the order of StoredType.
constexpr std::array<TypeRow, 15> kTypes = {{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"F8_E5M2", 1},
                                             {"F8_E4M3", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8},
                                             {"U64", 8}}};

// Takes the header as the parser reads it, and keeps nothing that does not belong to one. So memory is a
// small multiple of the text, and nothing is nested deeper than three levels.
class HeaderReader {
 public:
  using Number = nlohmann::json;

  SafetensorsHeader header;
  std::string refusal;  // the first one

  bool start_object(std::size_t) {
    if (place_ == Place::kStart) return go_to(Place::kTensors);
    if (place_ != Place::kTensors) return refuse_value("an object");
    if (key_ == kMetadataName) return go_to(Place::kMetadata);
    header.tensors.push_back({.name = key_});
    has_type_ = has_shape_ = has_offsets_ = false;
    return go_to(Place::kTensor);
  }

  bool key(std::string& name) {
    key_ = name;
    if (place_ == Place::kTensors) {
      if (names_.insert(name).second) return true;
      return refuse("the header has ", quoted_name(name), " twice");
    }
    if (place_ == Place::kMetadata) {
      if (header.metadata.emplace(name, std::string()).second) return true;
      return refuse("the header's metadata have ", quoted_name(name), " twice");
    }
    const bool is_new = name == "dtype"          ? !std::exchange(has_type_, true)
                        : name == "shape"        ? !std::exchange(has_shape_, true)
                        : name == "data_offsets" ? !std::exchange(has_offsets_, true)
                                                 : false;
    if (is_new) return true;
    return refuse("tensor ", quoted_name(tensor().name), " has ", quoted_name(name),
                  name == "dtype" || name == "shape" || name == "data_offsets"
                      ? " twice"
                      : ", which is none of dtype, shape and data_offsets");
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return refuse_value("a text");
    const auto found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& row) { return row.name == value; });
    if (found == kTypes.end())
      return refuse("tensor ", quoted_name(tensor().name), " has the unknown dtype ", quoted_name(value));
    tensor().type = static_cast<StoredType>(found - kTypes.begin());
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kTensor || (key_ != "shape" && key_ != "data_offsets"))
      return refuse_value("an array");
    offsets_.clear();
    return go_to(key_ == "shape" ? Place::kShape : Place::kOffsets);
  }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return refuse_value("a number");
    if (value > static_cast<std::uint64_t>(kMaxInt64))
      return refuse("tensor ", quoted_name(tensor().name), " has the ", key_ == "shape" ? "size " : "offset ",
                    value, ", which does not fit 63 bits");
    if (place_ == Place::kShape)
      tensor().shape.push_back(static_cast<std::int64_t>(value));
    else if (offsets_.push_back(value); offsets_.size() > 2)
      return refuse("tensor ", quoted_name(tensor().name), " has more than two data_offsets");
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() != 2)
        return refuse("tensor ", quoted_name(tensor().name), " has ", offsets_.size(),
                      " data_offsets, not two");
      if (offsets_[0] > offsets_[1])
        return refuse("tensor ", quoted_name(tensor().name), " ends at byte ", offsets_[1],
                      " and begins behind it, at ", offsets_[0]);
      tensor().offset = offsets_[0];
      tensor().bytes = offsets_[1] - offsets_[0];
    }
    return go_to(Place::kTensor);
  }

  bool end_object() {
    if (place_ == Place::kTensors) return go_to(Place::kEnd);
    return (place_ == Place::kMetadata || check_tensor()) && go_to(Place::kTensors);
  }

  bool null() { return refuse_value("null"); }
  bool boolean(bool) { return refuse_value("true or false"); }
  bool number_integer(std::int64_t) { return refuse_value("a negative number"); }
  bool number_float(double, const std::string&) { return refuse_value("a fraction"); }
  bool binary(nlohmann::json::binary_t&) { return refuse_value("bytes"); }
  template <class Failure>
  bool parse_error(std::size_t byte, const std::string&, const Failure&) {
    return refuse("the header is no JSON from its byte ", byte, " on");
  }

 private:
  // The part of the header that the next value belongs to.
  enum class Place { kStart, kTensors, kMetadata, kTensor, kShape, kOffsets, kEnd };

  StoredTensor& tensor() { return header.tensors.back(); }

  bool go_to(Place place) {
    place_ = place;
    return true;
  }

  template <class... Parts>
  bool refuse(const Parts&... parts) {
    if (refusal.empty()) refusal = message(parts...);
    return false;
  }

  bool refuse_value(std::string_view what) {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        return refuse("the header is ", what, ", not an object of tensors");
      case Place::kTensors:
        return refuse(quoted_name(key_), " is ", what, ", not an object");
      case Place::kMetadata:
        return refuse("the header's metadata have ", what, " as ", quoted_name(key_), ", not a text");
      case Place::kTensor:
        return refuse("tensor ", quoted_name(tensor().name), " has ", what, " as its ", key_);
      case Place::kShape:
      case Place::kOffsets:
        break;
    }
    return refuse("tensor ", quoted_name(tensor().name), " has ", what, " in its ", key_);
  }

  bool check_tensor() {
    const StoredTensor& read = tensor();
    if (!has_type_ || !has_shape_ || !has_offsets_)
      return refuse("tensor ", quoted_name(read.name), " has no ",
                    !has_type_    ? "dtype"
                    : !has_shape_ ? "shape"
                                  : "data_offsets");
    const std::optional<std::uint64_t> bytes = stored_bytes(read.type, read.shape);
    if (bytes == read.bytes) return true;
    return refuse("tensor ", quoted_name(read.name), " of shape ", shape_text(read.shape), " and dtype ",
                  vkattn::name(read.type), " takes ", bytes ? message(*bytes) : "more than 2^63",
                  " bytes, but its data_offsets give it ", read.bytes);
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<std::uint64_t> offsets_;
};

// Checks that the tensors cover the data without overlap or hole.
Result<void> check_cover(const std::vector<StoredTensor>& sorted, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : sorted) {
    if (tensor.offset + tensor.bytes > data_bytes)
      return invalid("tensor ", quoted_name(tensor.name), " ends at byte ", tensor.offset + tensor.bytes,
                     " of the data, of which the file has ", data_bytes);
    if (tensor.offset < end)
      return invalid("tensor ", quoted_name(tensor.name), " begins at byte ", tensor.offset,
                     " of the data, before ", quoted_name(before->name), " ends at ", end);
    if (tensor.offset > end)
      return invalid("bytes ", end, " to ", tensor.offset - 1, " of the data belong to no tensor");
    end = tensor.offset + tensor.bytes;
    before = &tensor;
  }
  if (end < data_bytes)
    return invalid("bytes ", end, " to ", data_bytes - 1, " of the data belong to no tensor");
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  if (text.empty() || text.front() != '{') return invalid("the header does not begin with {");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
    return invalid(reader.refusal.empty() ? "the header is no JSON" : reader.refusal);
  std::vector<StoredTensor>& tensors = reader.header.tensors;
  std::ranges::stable_sort(tensors, {},
                           [](const StoredTensor& tensor) { return std::pair(tensor.offset, tensor.bytes); });
  if (Result<void> status = check_cover(tensors, data_bytes); !status) return status.error();
  return std::move(reader.header);
}

std::string safetensors_header_text(std::span<const StoredTensor> tensors,
                                    const std::map<std::string, std::string>& metadata) {
  const auto list = [](const auto& numbers) {
    std::string text;
    for (const auto number : numbers) text += (text.empty() ? "" : ",") + message(number);
    return "[" + text + "]";
  };
  std::string all;
  const auto add = [](std::string& text, const std::string& name, const std::string& value) {
    text += (text.empty() ? "" : ",") + json_quoted(name) + ":" + value;
  };
  if (!metadata.empty()) {
    std::string texts;
    for (const auto& [name, text] : metadata) add(texts, name, json_quoted(text));
    add(all, std::string(kMetadataName), "{" + texts + "}");
  }
  for (const StoredTensor& tensor : tensors) {
    const std::array<std::uint64_t, 2> offsets{tensor.offset, tensor.offset + tensor.bytes};
    add(all, tensor.name,
        message("{\"dtype\":\"", vkattn::name(tensor.type), "\",\"shape\":", list(tensor.shape),
                ",\"data_offsets\":", list(offsets), "}"));
  }
  all = "{" + all + "}";
  all.resize((all.size() + 7) / 8 * 8, ' ');
  return all;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (const std::int64_t size : shape.first(std::min(shape.size(), kMost)))
    text += (text.empty() ? "" : ", ") + message(size);
  if (shape.size() > kMost) text += ", …";
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::int64_t> shape) {
  // A size of 0 makes any product 0, also behind sizes whose product is none.
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) return std::nullopt;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::optional<std::int64_t> bytes = vkattn::element_bytes(type);
  for (const std::int64_t size : shape) {
    if (bytes) bytes = checked_multiply(*bytes, size);
  }
  if (!bytes) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

}  // namespace vkattn::detail

namespace vkattn {

std::string_view name(StoredType type) {
  return detail::kTypes.at(static_cast<std::size_t>(type)).name;
}

std::uint32_t element_bytes(StoredType type) {
  return detail::kTypes.at(static_cast<std::size_t>(type)).bytes;
}

}  // namespace vkattn
