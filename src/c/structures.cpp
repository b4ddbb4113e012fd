// Defaults of the C interface's structures: those of C++.
#include <algorithm>
#include <cstring>

#include "c/fields.hpp"
#include "c/handles.hpp"

namespace vkattn::c {

namespace {

/// Gives the caller, who knows the first `bytes` of the structure, its defaults: of what only he knows,
/// zeros.
template <class Struct>
void set_defaults(Struct* target, std::size_t bytes, Struct defaults) {
  if (target == nullptr || bytes < sizeof(defaults.struct_size)) return;
  defaults.struct_size = static_cast<std::uint32_t>(bytes);
  std::memset(static_cast<void*>(target), 0, bytes);
  std::memcpy(static_cast<void*>(target), &defaults, std::min(bytes, sizeof(Struct)));
}

vkattn_device_desc device_defaults() {
  vkattn_device_desc made{};
  made.log_least = VKATTN_LOG_LEVEL_INFO;
  return made;
}

vkattn_record_options record_defaults() {
  vkattn_record_options made{};
  made.dispatch_count = RecordOptions{}.dispatch_count;
  return made;
}

template <class Structure, class Desc>
Structure defaults_of() {
  Structure made{};
  write_fields(Desc{}, made);
  return made;
}

}  // namespace

}  // namespace vkattn::c

#define VKATTN_INIT(STRUCTURE, ...)                                    \
  void STRUCTURE##_init_sized(STRUCTURE* structure, size_t bytes) {    \
    vkattn::c::set_defaults<STRUCTURE>(structure, bytes, __VA_ARGS__); \
  }
VKATTN_INIT(vkattn_error, vkattn_error{})
VKATTN_INIT(vkattn_physical_device, vkattn_physical_device{})
VKATTN_INIT(vkattn_device_desc, vkattn::c::device_defaults())
VKATTN_INIT(vkattn_plan_options, vkattn_plan_options{})
VKATTN_INIT(vkattn_score_function_desc, vkattn_score_function_desc{})
VKATTN_INIT(vkattn_requirements, vkattn_requirements{})
VKATTN_INIT(vkattn_memory, vkattn_memory{})
VKATTN_INIT(vkattn_support, vkattn_support{})
VKATTN_INIT(vkattn_execution, vkattn_execution{})
VKATTN_INIT(vkattn_record_options, vkattn::c::record_defaults())

// Defaults of problems are those of their descriptors.
#define VKATTN_VALUE(STRUCTURE, DESC)
#define VKATTN_DESC(STRUCTURE, DESC) \
  VKATTN_INIT(vkattn_##STRUCTURE, vkattn::c::defaults_of<vkattn_##STRUCTURE, vkattn::DESC>())
#define VKATTN_FIELD_AS(MEMBER, PATH)
#define VKATTN_END
#include "common/fields.def"
#undef VKATTN_INIT

uint32_t vkattn_version(void) {
  return (VKATTN_VERSION_MAJOR << 22U) | (VKATTN_VERSION_MINOR << 12U) | VKATTN_VERSION_PATCH;
}
