// Enables features and extensions: see device_features.hpp.
#include <vkattn/device_features.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "common/device_members.hpp"
#include "common/message.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/functions.hpp"

namespace vkattn {

namespace detail {

namespace {

/// The offer of a physical device, before there is a VkDevice.
class Offer {
 public:
  [[nodiscard]] static Result<Offer> of(const PhysicalDeviceDesc& desc);

  /// Supported and not disabled; `core_version` is when it need not be named any more (0: never).
  [[nodiscard]] bool has_extension(std::string_view name) const {
    return detail::has_extension(extensions_, name);
  }
  [[nodiscard]] bool is_disabled(std::string_view name) const {
    return std::find(desc_.disabled_extensions.begin(), desc_.disabled_extensions.end(), name) !=
           desc_.disabled_extensions.end();
  }
  [[nodiscard]] bool is_core(std::uint32_t core_version) const {
    return core_version != 0 && version_ >= core_version;
  }
  /// Whether the device knows the feature's structure, and the feature is not disabled.
  [[nodiscard]] bool knows(const DeviceFeatureRow& row) const {
    if (is_disabled(row.name) || (row.extension != nullptr && is_disabled(row.extension))) return false;
    if (row.needs != nullptr && (is_disabled(row.needs) || !has_extension(row.needs))) return false;
    return is_core(row.core_version) ||
           (row.as_extension && row.extension != nullptr && has_extension(row.extension));
  }
  [[nodiscard]] bool has(const DeviceFeatureRow& row) const {
    return supported_.*row.member && knows(row) && (row.needs_feature == nullptr || has(row.needs_feature));
  }
  [[nodiscard]] bool has(bool Capabilities::*feature) const {
    const auto rows = device_feature_table();
    return std::any_of(rows.begin(), rows.end(),
                       [&](const DeviceFeatureRow& row) { return row.member == feature && has(row); });
  }
  [[nodiscard]] bool has(const DeviceExtensionRow& row) const {
    return has_extension(row.extension) && !is_disabled(row.extension);
  }

 private:
  void query_features(const InstanceFunctions& vk);

  PhysicalDeviceDesc desc_;
  std::uint32_t version_ = 0;
  std::vector<VkExtensionProperties> extensions_;
  Capabilities supported_;  ///< only the members of the table's rows
};

// Asks with a structure for each place of a row that the device knows.
void Offer::query_features(const InstanceFunctions& vk) {
  std::vector<std::vector<std::uint64_t>> structures;  // in whole words, for their alignment
  std::vector<VkStructureType> types;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    const bool is_there = std::find(types.begin(), types.end(), row.place.type) != types.end();
    if (is_there || !knows(row)) continue;
    types.push_back(row.place.type);
    structures.emplace_back((row.place.bytes + 7) / 8);
  }
  // VkPhysicalDeviceFeatures2 comes first, whatever the table's order.
  const auto core = std::find(types.begin(), types.end(), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  if (core == types.end()) return;
  std::iter_swap(types.begin(), core);
  std::swap(structures[0], structures[static_cast<std::size_t>(core - types.begin())]);
  for (std::size_t i = 0; i < types.size(); ++i) {
    VkBaseOutStructure head{types[i], nullptr};
    if (i + 1 < types.size()) head.pNext = reinterpret_cast<VkBaseOutStructure*>(structures[i + 1].data());
    std::memcpy(structures[i].data(), &head, sizeof(head));
  }
  auto* const chain = reinterpret_cast<VkPhysicalDeviceFeatures2*>(structures[0].data());
  vk.vkGetPhysicalDeviceFeatures2(desc_.physical_device, chain);
  read_features(chain, supported_);
}

Result<Offer> Offer::of(const PhysicalDeviceDesc& desc) {
  if (Result<void> s = check_members(desc, "PhysicalDeviceDesc"); !s) return s.error();
  auto vk = load_instance_functions(desc.instance, desc.get_instance_proc_addr);
  if (!vk) return vk.error();
  Offer offer;
  offer.desc_ = desc;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  vk->vkGetPhysicalDeviceProperties2(desc.physical_device, &properties);
  offer.version_ = std::min(desc.api_version, properties.properties.apiVersion);
  if (offer.version_ < VK_API_VERSION_1_1) {
    return Error{ErrorCode::kUnsupported, VK_ERROR_INCOMPATIBLE_DRIVER,
                 message(properties.properties.deviceName, " offers Vulkan 1.0; vkattn needs 1.1")};
  }
  auto extensions = device_extensions(*vk, desc.physical_device);
  if (!extensions) return extensions.error();
  offer.extensions_ = *std::move(extensions);
  offer.query_features(*vk);
  return offer;
}

/// Hands out pieces of an EnableMemory.
class Pieces {
 public:
  explicit Pieces(EnableMemory& memory) : bytes_(std::as_writable_bytes(std::span(memory))) {}

  static constexpr std::size_t piece(std::size_t bytes) { return (bytes + 7) / 8 * 8; }
  [[nodiscard]] std::size_t room() const { return bytes_.size(); }
  /// Zeros; needs room for piece(bytes).
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    std::byte* const taken = bytes_.data();
    bytes_ = bytes_.subspan(piece(bytes));
    std::memset(taken, 0, bytes);
    return taken;
  }

 private:
  std::span<std::byte> bytes_;
};

/// A VkDeviceCreateInfo that is added to. Nothing of it is written before write().
class Creation {
 public:
  Creation(VkDeviceCreateInfo& info, EnableMemory& memory) : info_(info), pieces_(memory) {}

  void add_extension(const char* name) {
    if (!has_extension(name)) added_.push_back(name);
  }
  void set(const DeviceFeatureRow& row) { rows_.push_back(&row); }
  [[nodiscard]] Result<void> write();

 private:
  [[nodiscard]] bool has_extension(std::string_view name) const {
    const std::span<const char* const> callers(info_.ppEnabledExtensionNames, info_.enabledExtensionCount);
    return detail::has_extension(callers, name) || detail::has_extension(added_, name);
  }
  [[nodiscard]] std::byte* find(VkStructureType type) const;
  /// The row's bit in a structure that the caller or write_structure() put there; null where there is none.
  [[nodiscard]] std::byte* bit(const DeviceFeatureRow& row) const;
  [[nodiscard]] std::size_t names_bytes() const {
    return added_.empty() ? 0 : (info_.enabledExtensionCount + added_.size()) * sizeof(const char*);
  }
  [[nodiscard]] std::size_t needed_bytes() const;
  void write_structure(const DeviceFeatureRow& row);
  void write_names();

  VkDeviceCreateInfo& info_;
  Pieces pieces_;
  std::vector<const char*> added_;
  std::vector<const DeviceFeatureRow*> rows_;
};

std::byte* Creation::find(VkStructureType type) const {
  // The caller's structures, which enable_wanted() says must be writable.
  auto* base = static_cast<VkBaseOutStructure*>(const_cast<void*>(info_.pNext));
  for (; base != nullptr; base = base->pNext) {
    if (base->sType == type) return reinterpret_cast<std::byte*>(base);
  }
  return nullptr;
}

std::byte* Creation::bit(const DeviceFeatureRow& row) const {
  if (row.place.type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 && info_.pEnabledFeatures != nullptr) {
    auto* const features = const_cast<VkPhysicalDeviceFeatures*>(info_.pEnabledFeatures);
    return reinterpret_cast<std::byte*>(features) + row.place.byte -
           offsetof(VkPhysicalDeviceFeatures2, features);
  }
  if (row.core_place.is_somewhere()) {
    if (std::byte* const all = find(row.core_place.type)) return all + row.core_place.byte;
  }
  std::byte* const own = find(row.place.type);
  return own == nullptr ? nullptr : own + row.place.byte;
}

std::size_t Creation::needed_bytes() const {
  std::size_t bytes = Pieces::piece(names_bytes());
  std::vector<VkStructureType> counted;
  for (const DeviceFeatureRow* row : rows_) {
    const VkStructureType type = row->place.type;
    if (bit(*row) != nullptr || std::find(counted.begin(), counted.end(), type) != counted.end()) continue;
    counted.push_back(type);
    bytes += Pieces::piece(row->place.bytes);
  }
  return bytes;
}

void Creation::write_structure(const DeviceFeatureRow& row) {
  std::byte* const added = pieces_.take(row.place.bytes);
  const VkBaseOutStructure head{row.place.type, nullptr};
  std::memcpy(added, &head, sizeof(head));
  auto* last = static_cast<VkBaseOutStructure*>(const_cast<void*>(info_.pNext));
  while (last != nullptr && last->pNext != nullptr) last = last->pNext;
  if (last == nullptr) {
    info_.pNext = added;
  } else {
    last->pNext = reinterpret_cast<VkBaseOutStructure*>(added);
  }
}

void Creation::write_names() {
  const std::size_t before = info_.enabledExtensionCount;
  auto** const names = reinterpret_cast<const char**>(pieces_.take(names_bytes()));
  std::copy_n(info_.ppEnabledExtensionNames, before, names);
  std::copy(added_.begin(), added_.end(), names + before);
  info_.ppEnabledExtensionNames = names;
  info_.enabledExtensionCount = static_cast<std::uint32_t>(before + added_.size());
}

Result<void> Creation::write() {
  const std::size_t needed = needed_bytes();
  if (needed > pieces_.room()) {
    return limit_exceeded("EnableMemory has no room for this many extensions: ", needed,
                          " bytes are needed, it has ", pieces_.room());
  }
  const VkBool32 yes = VK_TRUE;
  for (const DeviceFeatureRow* row : rows_) {
    if (bit(*row) == nullptr) write_structure(*row);
    std::memcpy(bit(*row), &yes, sizeof(yes));
  }
  if (!added_.empty()) write_names();
  return {};
}

Result<void> enable(const PhysicalDeviceDesc& device, VkDeviceCreateInfo& info, EnableMemory& memory) {
  const auto offer = Offer::of(device);
  if (!offer) return offer.error();
  Creation creation(info, memory);
  for (const DeviceFeatureRow& row : device_feature_table()) {
    if (!offer->has(row)) continue;
    if (!offer->is_core(row.core_version)) creation.add_extension(row.extension);
    creation.set(row);
  }
  for (const DeviceExtensionRow& row : device_extension_table()) {
    if (offer->has(row) && !offer->is_core(row.core_version)) creation.add_extension(row.extension);
  }
  return creation.write();
}

Result<std::vector<WantedFeature>> list(const PhysicalDeviceDesc& device) {
  const auto offer = Offer::of(device);
  if (!offer) return offer.error();
  std::vector<WantedFeature> all;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    const bool is_core = row.extension == nullptr || offer->is_core(row.core_version);
    all.push_back({row.name, is_core ? std::string_view() : row.extension, row.gain, offer->has(row)});
  }
  for (const DeviceExtensionRow& row : device_extension_table()) {
    if (!offer->is_core(row.core_version)) all.push_back({{}, row.extension, row.gain, offer->has(row)});
  }
  return all;
}

}  // namespace

}  // namespace detail

Result<std::vector<WantedFeature>> wanted_features(const PhysicalDeviceDesc& device) {
  return detail::without_exceptions([&] { return detail::list(device); });
}

Result<void> enable_wanted(const PhysicalDeviceDesc& device, VkDeviceCreateInfo& info, EnableMemory& memory) {
  return detail::without_exceptions([&] { return detail::enable(device, info, memory); });
}

}  // namespace vkattn
