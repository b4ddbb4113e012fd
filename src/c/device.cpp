// Devices, their features, and pipeline caches, in C.
#include <vkattn/device_features.hpp>

#include "c/enumerators.hpp"
#include "c/handles.hpp"
#include "common/device_members.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

/// A description with the names that it refers to. Moving it leaves the names where they are.
struct PhysicalDevice {
  PhysicalDevice() = default;
  PhysicalDevice(PhysicalDevice&&) = default;
  std::vector<std::string_view> disabled;
  vkattn::PhysicalDeviceDesc desc;
};

Result<PhysicalDevice> physical_device(const vkattn_physical_device* given) {
  const auto device = c::read(given, vkattn_physical_device_init, "vkattn_physical_device");
  if (!device) return device.error();
  if (Result<void> s = c::check_list(device->disabled_extensions, device->disabled_extension_count,
                                     "vkattn_physical_device::disabled_extensions");
      !s)
    return s.error();
  PhysicalDevice all;
  for (const char* name : std::span(device->disabled_extensions, device->disabled_extension_count)) {
    if (name == nullptr) {
      return c::invalid("vkattn_physical_device::disabled_extensions[", all.disabled.size(), "] is null");
    }
    all.disabled.emplace_back(name);
  }
  if (Result<void> s = vkattn::detail::check_members(*device, "vkattn_physical_device"); !s) return s.error();
  all.desc = {
      device->instance, device->physical_device, device->get_instance_proc_addr, device->api_version, {}};
  all.desc.disabled_extensions = all.disabled;
  return all;
}

struct CallersLog {
  vkattn_log write;
  void* user;
};

vkattn::Log log_of(const vkattn_device_desc& desc) {
  const auto callers = std::make_shared<CallersLog>(CallersLog{desc.log, desc.log_user});
  const auto write = [](void* user, vkattn::LogLevel level, const char* text) {
    const auto* const log = static_cast<const CallersLog*>(user);
    log->write(log->user, static_cast<vkattn_log_level>(level), text);
  };
  return {write, callers.get(), static_cast<vkattn::LogLevel>(desc.log_least), callers};
}

}  // namespace

vkattn_result vkattn_query_wanted(const vkattn_physical_device* device, vkattn_wanted_feature* features,
                                  uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{count, "count"}}); !s) return s;
    const auto described = physical_device(device);
    if (!described) return described.error();
    const auto wanted = vkattn::wanted_features(described->desc);
    if (!wanted) return wanted.error();
    c::copy_list(*wanted, features, count, [](const vkattn::WantedFeature& each) {
      // These are literals, which end in a 0, or empty.
      const auto text = [](std::string_view view) { return view.empty() ? "" : view.data(); };
      return vkattn_wanted_feature{text(each.name), text(each.extension), text(each.gain),
                                   each.is_supported ? 1U : 0U};
    });
    return {};
  });
}

vkattn_result vkattn_enable_wanted(const vkattn_physical_device* device, VkDeviceCreateInfo* info,
                                   vkattn_enable_memory* memory, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{info, "info"}, {memory, "memory"}}); !s) return s;
    const auto described = physical_device(device);
    if (!described) return described.error();
    // Both are arrays of as many words.
    static_assert(sizeof(vkattn_enable_memory) == sizeof(vkattn::EnableMemory));
    return vkattn::enable_wanted(described->desc, *info,
                                 *reinterpret_cast<vkattn::EnableMemory*>(memory->words));
  });
}

vkattn_result vkattn_device_create(const vkattn_device_desc* desc, vkattn_device** device,
                                   vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}}); !s) return s;
    *device = nullptr;
    const auto given = c::read(desc, vkattn_device_desc_init, "vkattn_device_desc");
    if (!given) return given.error();
    vkattn::DeviceDesc made;
    made.instance = given->instance;
    made.physical_device = given->physical_device;
    made.device = given->device;
    made.get_instance_proc_addr = given->get_instance_proc_addr;
    made.api_version = given->api_version;
    if (Result<void> s = c::check_list(given->enabled_extensions, given->enabled_extension_count,
                                       "vkattn_device_desc::enabled_extensions");
        !s)
      return s;
    made.enabled_extensions = {given->enabled_extensions, given->enabled_extension_count};
    made.enabled_features = given->enabled_features;
    made.enabled_core_features = given->enabled_core_features;
    made.allocator = given->allocator;
    made.parameter_buffer = given->parameter_buffer;
    made.parameter_offset = given->parameter_offset;
    made.parameter_size = given->parameter_size;
    made.parameter_data = given->parameter_data;
    if (given->buffer_reserved != 0) {
      return c::invalid("vkattn_device_desc::buffer_reserved is ", given->buffer_reserved, " but must be 0");
    }
    made.buffer_addresses = given->buffer_addresses != 0;
    const auto least = c::enumerator<vkattn::LogLevel>(given->log_least, "vkattn_device_desc::log_least");
    if (!least) return least.error();
    if (given->log != nullptr) made.log = log_of(*given);
    if (Result<void> s = vkattn::detail::check_members(*given, "vkattn_device_desc"); !s) return s.error();
    auto borrowed = vkattn::Device::borrow(made);
    if (!borrowed) return borrowed.error();
    c::give(std::make_unique<vkattn_device>(*std::move(borrowed)), device);
    return {};
  });
}

size_t vkattn_device_describe(const vkattn_device* device, char* text, size_t capacity) {
  return c::copy_words(device, text, capacity, [](const vkattn_device& it) { return it.device.describe(); });
}

vkattn_result vkattn_device_retain(vkattn_device* device) {
  return c::retain(device);
}

vkattn_result vkattn_device_release(vkattn_device* device) {
  return c::release(device);
}

vkattn_result vkattn_pipeline_cache_create(vkattn_device* device, const void* blob, size_t blob_bytes,
                                           char* ignored, size_t ignored_capacity,
                                           vkattn_pipeline_cache** cache, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {cache, "cache"}}); !s) return s;
    *cache = nullptr;
    if (Result<void> s = c::check_list(blob, blob_bytes, "blob"); !s) return s;
    auto made =
        vkattn::PipelineCache::create(device->device, {static_cast<const std::byte*>(blob), blob_bytes});
    if (!made) return made.error();
    c::copy_text(made->ignored(), ignored, ignored_capacity);
    c::give(std::make_unique<vkattn_pipeline_cache>(vkattn_pipeline_cache{*std::move(made)}), cache);
    return {};
  });
}

VkPipelineCache vkattn_pipeline_cache_handle(const vkattn_pipeline_cache* cache) {
  return c::is_alive(cache) ? cache->cache.handle() : VkPipelineCache{};
}

vkattn_result vkattn_pipeline_cache_save(const vkattn_pipeline_cache* cache, void* blob, size_t* bytes,
                                         vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{cache, "cache"}, {bytes, "bytes"}}); !s) return s;
    const auto saved = cache->cache.save();
    if (!saved) return saved.error();
    return c::copy_blob(*saved, "the cache", blob, bytes);
  });
}

vkattn_result vkattn_pipeline_cache_destroy(vkattn_pipeline_cache* cache) {
  return c::destroy(cache);
}
