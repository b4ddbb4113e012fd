// What a back end of ggml gives to it. ggml's public headers name these three types, take pointers to them
// and leave them incomplete; the header that defines them, src/ggml-backend-impl.h, is in ggml's sources but
// not in Debian's libggml-dev. So this file defines them for this library: the order of the functions is the
// interface, and the version says which order. ggml refuses a back end of another version when it loads it. A
// function that this back end lacks is a null pointer, which ggml takes as "not offered".
#pragma once

#include <ggml-backend.h>

#include <cstddef>

/// The version of ggml's interface that these tables are: that of ggml 0.27.
inline constexpr int kInterfaceVersion = 3;

/// A function of the interface that this back end does not offer.
using NotOffered = void (*)();

/// The library: its devices.
struct ggml_backend_reg {
  int version = kInterfaceVersion;
  const char* (*name)(ggml_backend_reg_t) = nullptr;
  std::size_t (*device_count)(ggml_backend_reg_t) = nullptr;
  ggml_backend_dev_t (*device)(ggml_backend_reg_t, std::size_t index) = nullptr;
  void* (*function)(ggml_backend_reg_t, const char* name) = nullptr;
  void* context = nullptr;
};

/// A device: what it is, and which nodes it computes on which memory.
struct ggml_backend_device {
  const char* (*name)(ggml_backend_dev_t) = nullptr;
  const char* (*description)(ggml_backend_dev_t) = nullptr;
  void (*memory)(ggml_backend_dev_t, std::size_t* free, std::size_t* total) = nullptr;
  enum ggml_backend_dev_type (*type)(ggml_backend_dev_t) = nullptr;
  void (*properties)(ggml_backend_dev_t, ggml_backend_dev_props*) = nullptr;
  ggml_backend_t (*make_backend)(ggml_backend_dev_t, const char* parameters) = nullptr;
  ggml_backend_buffer_type_t (*buffer_type)(ggml_backend_dev_t) = nullptr;
  NotOffered host_buffer_type = nullptr;
  ggml_backend_buffer_t (*buffer_of)(ggml_backend_dev_t, void* memory, std::size_t bytes,
                                     std::size_t largest_tensor) = nullptr;
  bool (*computes)(ggml_backend_dev_t, const ggml_tensor*) = nullptr;
  bool (*takes_memory_of)(ggml_backend_dev_t, ggml_backend_buffer_type_t) = nullptr;
  NotOffered takes_from_elsewhere = nullptr;
  NotOffered events[3] = {};
  ggml_backend_reg_t library = nullptr;
  void* context = nullptr;
};

/// A stream of work on a device. ggml compares `identity` to know whose it is.
struct ggml_backend {
  ggml_guid_t identity = nullptr;
  const char* (*name)(ggml_backend_t) = nullptr;
  void (*destroy)(ggml_backend_t) = nullptr;
  NotOffered copies_behind_the_back[5] = {};
  NotOffered wait = nullptr;
  NotOffered plans[4] = {};
  enum ggml_status (*compute)(ggml_backend_t, ggml_cgraph*) = nullptr;
  NotOffered events[2] = {};
  NotOffered reorder = nullptr;
  ggml_backend_dev_t device = nullptr;
  void* context = nullptr;
};

static_assert(offsetof(ggml_backend_reg, context) == 5 * sizeof(void*));
static_assert(offsetof(ggml_backend_device, library) == 15 * sizeof(void*));
static_assert(offsetof(ggml_backend, device) == 17 * sizeof(void*));

extern "C" {
/// What ggml looks up when it loads the library: null, and no back end, if there is no Vulkan device.
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init();
/// 0 tells ggml that this system has no device for the library.
__attribute__((visibility("default"))) int ggml_backend_score();
}
