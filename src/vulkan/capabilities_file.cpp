// Reads files of capabilities. Nothing of a file is believed: it may be torn, foreign or made by hand.
#include <vkattn/capabilities_file.hpp>

#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "common/json_reader.hpp"
#include "common/message.hpp"
#include "vulkan/capability_fields.hpp"

namespace vkattn {

namespace {

using detail::invalid;
using detail::JsonReader;
using detail::message;
using detail::printable;

constexpr const char* kWriteAnew = "; write it anew with `vkattn devices --json`";

/// Reads "1.3.230".
bool parse_version(std::string_view text, std::uint32_t& version) {
  constexpr std::uint32_t kMost[] = {127, 1023, 4095};
  std::uint32_t parts[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return false;
    const auto [last, error] = std::from_chars(at, end, parts[i]);
    if (error != std::errc() || parts[i] > kMost[i]) return false;
    at = last;
  }
  version = VK_MAKE_API_VERSION(0, parts[0], parts[1], parts[2]);
  return at == end;
}

bool parse_type(std::string_view text, DeviceType& type) {
  for (const detail::DeviceTypeWord& row : detail::kDeviceTypeWords) {
    type = row.type;
    if (row.word == text) return true;
  }
  return false;
}

/// Reads the devices of a text that is JSON. The first value that is wrong is the error.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), json_(text) {}

  Result<std::vector<Capabilities>> devices();

 private:
  template <class... Words>
  bool refuse(const Words&... words) {
    if (!error_) error_ = invalid(words...);
    return false;
  }
  /// Refuses the value that begins at a byte of the text, and tells it.
  bool refuse_value(const std::string& path, std::size_t byte, std::string_view words) {
    if (error_) return false;
    const std::string_view rest = text_.substr(byte);
    JsonReader value(rest);
    (void)value.skip();  // check_text() has passed over it
    const std::size_t begin = std::min(rest.find_first_not_of(" \t\r\n"), value.byte());
    return refuse(path, " is ", detail::quoted_name(rest.substr(begin, value.byte() - begin)), words);
  }
  bool read_device(const std::string& path);
  bool read_member(const std::string& path, std::string_view group, std::string_view name,
                   Capabilities& device);

  // Each reads a value, or refuses it by its path.
  bool read(const std::string& path, std::string& value) {
    const std::size_t at = json_.byte();
    return json_.read(value) || refuse_value(path, at, ", not a text");
  }
  bool read(const std::string& path, bool& value) {
    const std::size_t at = json_.byte();
    return json_.read(value) || refuse_value(path, at, ", not true or false");
  }
  template <class Number>
  requires(std::is_unsigned_v<Number>) bool read(const std::string& path, Number& value) {
    const std::size_t at = json_.byte();
    std::uint64_t wide = 0;
    constexpr auto kMost = std::numeric_limits<Number>::max();
    if (!json_.read(wide) || wide > kMost)
      return refuse_value(path, at, message(", not a whole number from 0 to ", kMost));
    value = static_cast<Number>(wide);
    return true;
  }
  bool read(const std::string& path, DeviceType& value) {
    const std::size_t at = json_.byte();
    std::string word;
    return (read(path, word) && parse_type(word, value)) ||
           refuse_value(path, at, ", not a type of a device");
  }
  bool read(const std::string& path, std::array<std::uint32_t, 3>& values) {
    const std::size_t at = json_.byte();
    std::size_t count = 0;
    const bool is_good = json_.array([&] {
      if (count == values.size()) return refuse(path, " has more than 3 numbers");
      return read(path, values[count++]);
    });
    return (is_good && count == values.size()) || refuse_value(path, at, ", not a list of 3 numbers");
  }
  template <class Element>
  bool read(const std::string& path, std::vector<Element>& elements) {
    const std::size_t at = json_.byte();
    elements.clear();
    const bool is_good = json_.array([&] {
      const std::string place = message(path, "[", elements.size(), "]");
      return read_element(place, elements.emplace_back());
    });
    return is_good || refuse_value(path, at, ", not a list of objects");
  }
  template <class Element>
  bool read_element(const std::string& path, Element& element);

  std::string_view text_;
  JsonReader json_;
  std::optional<Error> error_;
  std::vector<Capabilities> devices_;
  std::string rejected_;  ///< the last device that cannot be used, and why
};

template <class Element>
bool Reader::read_element(const std::string& path, Element& element) {
  const std::size_t at = json_.byte();
  const bool is_good = json_.object([&](std::string_view name) {
    const std::string place = message(path, ".", printable(name));
    bool is_known = false, is_read = false;
    detail::for_each_field(static_cast<const Element*>(nullptr), [&](std::string_view row, auto member) {
      if (is_known || row != name) return;
      is_known = true;
      is_read = read(place, element.*member);
    });
    return is_known ? is_read : refuse(place, " is no field of this version", kWriteAnew);
  });
  return is_good || refuse_value(path, at, ", not an object");
}

bool Reader::read_member(const std::string& path, std::string_view group, std::string_view name,
                         Capabilities& device) {
  bool is_known = false, is_read = false;
  detail::for_each_capability([&](std::string_view row_group, std::string_view row, auto member) {
    if (is_known || row_group != group || row != name) return;
    is_known = true;
    if constexpr (std::is_same_v<decltype(member), std::uint32_t Capabilities::*>) {
      if (member == &Capabilities::api_version) {
        const std::size_t at = json_.byte();
        std::string words;
        is_read = (json_.read(words) && parse_version(words, device.api_version)) ||
                  refuse_value(path, at, ", not a version of Vulkan such as \"1.3.230\"");
        return;
      }
    }
    is_read = read(path, device.*member);
  });
  return is_known ? is_read : refuse(path, " is no field of this version", kWriteAnew);
}

/// Whether fields of this group lie in an object of their own.
bool is_group(std::string_view name) {
  bool found = false;
  detail::for_each_capability([&](std::string_view group, auto...) { found = found || group == name; });
  return found && !name.empty();
}

/// Checks that no limit is below what Vulkan guarantees.
Result<void> check_limits(const Capabilities& device, const std::string& path) {
  const Capabilities least;
  const auto below = [&](std::string_view name, std::uint64_t value, std::uint64_t guaranteed) {
    return invalid(path, ".limits.", name, " is ", value, ", below the ", guaranteed,
                   " that Vulkan guarantees");
  };
#define VKATTN_AT_LEAST(NAME, MEMBER) \
  if (device.MEMBER < least.MEMBER) return below(NAME, device.MEMBER, least.MEMBER)
  VKATTN_AT_LEAST("max_shared_memory_bytes", max_shared_memory_bytes);
  VKATTN_AT_LEAST("max_workgroup_invocations", max_workgroup_invocations);
  VKATTN_AT_LEAST("max_storage_buffer_range_bytes", max_storage_buffer_range);
  VKATTN_AT_LEAST("max_push_constants_bytes", max_push_constants_bytes);
  VKATTN_AT_LEAST("max_stage_storage_buffers", max_stage_storage_buffers);
#undef VKATTN_AT_LEAST
  for (std::size_t i = 0; i < 3; ++i) {
    if (device.max_workgroup_size[i] < least.max_workgroup_size[i])
      return below("max_workgroup_size", device.max_workgroup_size[i], least.max_workgroup_size[i]);
    if (device.max_workgroup_count[i] < least.max_workgroup_count[i])
      return below("max_workgroup_count", device.max_workgroup_count[i], least.max_workgroup_count[i]);
  }
  constexpr std::uint64_t kLeastBuffer = std::uint64_t{1} << 30U;
  if (device.max_buffer_size < kLeastBuffer)
    return below("max_buffer_size_bytes", device.max_buffer_size, kLeastBuffer);
  if (device.max_memory_allocation_bytes < kLeastBuffer)
    return below("max_memory_allocation_bytes", device.max_memory_allocation_bytes, kLeastBuffer);
  return {};
}

/// Checks that no number is one that no device of Vulkan has: kernels would divide by it, or overflow.
Result<void> check(const Capabilities& device, const std::string& path) {
  if (Result<void> s = check_limits(device, path); !s) return s;
  const Capabilities least;
  const auto is_power = [](std::uint64_t value, std::uint64_t most) {
    return std::has_single_bit(value) && value <= most;
  };
  if (!is_power(device.min_storage_offset_alignment, least.min_storage_offset_alignment)) {
    return invalid(path, ".limits.min_storage_offset_alignment_bytes is ",
                   device.min_storage_offset_alignment, " and must be a power of two up to ",
                   least.min_storage_offset_alignment);
  }
  constexpr std::uint32_t kMostLanes = 128;
  for (const std::uint32_t size :
       {device.subgroup_size, device.min_subgroup_size, device.max_subgroup_size}) {
    const bool is_ordered =
        device.min_subgroup_size <= device.subgroup_size && device.subgroup_size <= device.max_subgroup_size;
    if (is_power(size, kMostLanes) && is_ordered) continue;
    return invalid(path, ".subgroup has sizes ", device.min_subgroup_size, ", ", device.subgroup_size,
                   " and ", device.max_subgroup_size, ": they must be powers of two up to ", kMostLanes,
                   " in this order");
  }
  constexpr std::uint32_t kMostUnits = 1U << 16U;
  if (device.compute_units > kMostUnits) {
    return invalid(path, ".compute_units is ", device.compute_units, "; there can be ", kMostUnits);
  }
  constexpr std::uint32_t kMostRows = 1024;
  const auto is_size = [](std::uint32_t size) { return size > 0 && size <= kMostRows; };
  for (const MatrixShape& shape : device.matrix_shapes) {
    if (is_size(shape.m) && is_size(shape.n) && is_size(shape.k)) continue;
    return invalid(path, ".matrix_shapes has ", shape.m, "x", shape.n, "x", shape.k,
                   ": sizes must be from 1 to ", kMostRows);
  }
  for (const FlexibleMatrix& matrix : device.flexible_matrices) {
    if (is_size(matrix.m_granularity) && is_size(matrix.n_granularity) && is_size(matrix.k_granularity))
      continue;
    return invalid(path, ".flexible_matrices has ", matrix.m_granularity, "x", matrix.n_granularity, "x",
                   matrix.k_granularity, ": sizes must be from 1 to ", kMostRows);
  }
  return {};
}

bool Reader::read_device(const std::string& path) {
  Capabilities device;
  std::string rejected;
  const std::size_t begin = json_.byte();
  const bool is_good = json_.object([&](std::string_view name) {
    const std::string place = message(path, ".", printable(name));
    if (name == "index" || name == "kernels") return json_.skip();  // what the tool has found out
    if (name == "rejected") return read(place, rejected);
    if (!is_group(name)) return read_member(place, "", name, device);
    const std::string group(name);
    const std::size_t at = json_.byte();
    const bool is_object = json_.object([&](std::string_view field) {
      return read_member(message(place, ".", printable(field)), group, field, device);
    });
    return is_object || refuse_value(place, at, ", not an object");
  });
  if (!is_good) return refuse_value(path, begin, ", not an object");
  if (!rejected.empty()) {
    rejected_ = message(printable(device.device_name), ": ", printable(rejected));
    return true;
  }
  const Result<void> plausible = check(device, path);
  if (!plausible) return refuse(plausible.error().message);
  devices_.push_back(std::move(device));
  return true;
}

Result<std::vector<Capabilities>> Reader::devices() {
  std::size_t count = 0;
  const bool is_good = json_.object([&](std::string_view name) {
    if (name != "devices") return json_.skip();
    const std::size_t at = json_.byte();
    const bool is_list = json_.array([&] { return read_device(message("devices[", count++, "]")); });
    return is_list || refuse_value("devices", at, ", not a list");
  });
  if (error_) return *std::move(error_);
  if (is_good && !devices_.empty()) return std::move(devices_);
  if (!rejected_.empty()) return invalid("none of the ", count, " devices can be used: ", rejected_);
  return invalid("there is no device in it", kWriteAnew);
}

/// Checks that the text is JSON of this version.
Result<void> check_text(std::string_view text) {
  JsonReader all(text);
  if (!all.skip() || !all.is_at_end()) {
    if (all.byte() == text.size()) return invalid("it is torn: it ends after ", text.size(), " bytes");
    return invalid("it is no JSON from byte ", all.byte(), " on");
  }
  JsonReader json(text);
  std::optional<std::uint64_t> version;
  const bool is_object = json.object([&](std::string_view name) {
    if (name != detail::kCapabilitiesVersionName) return json.skip();
    return json.read(version.emplace());
  });
  if (!is_object || !version) {
    return invalid("it has no ", detail::kCapabilitiesVersionName,
                   ", so it is none that `vkattn devices --json` wrote");
  }
  if (*version == detail::kCapabilitiesVersion) return {};
  return invalid("it is of version ", *version, " and this library reads version ",
                 detail::kCapabilitiesVersion, kWriteAnew, " of this library's version");
}

}  // namespace

Result<std::vector<Capabilities>> parse_capabilities(std::string_view text) {
  return detail::without_exceptions([&]() -> Result<std::vector<Capabilities>> {
    if (Result<void> s = check_text(text); !s) {
      return invalid("the file of capabilities cannot be used: ", s.error().message);
    }
    auto devices = Reader(text).devices();
    if (devices) return devices;
    return invalid("the file of capabilities cannot be used: ", devices.error().message);
  });
}

}  // namespace vkattn
