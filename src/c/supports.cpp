// What a plan would be on a device that is not there, in C.
#include <vkattn/capabilities_file.hpp>
#include <vkattn/supports.hpp>

#include <string>
#include <utility>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

vkattn_result vkattn_capabilities_create(const char* text, size_t bytes, uint32_t device,
                                         vkattn_capabilities** capabilities, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{text, "text"}, {capabilities, "capabilities"}}); !s) return s;
    *capabilities = nullptr;
    auto devices = vkattn::parse_capabilities({text, bytes});
    if (!devices) return devices.error();
    if (device >= devices->size()) {
      return c::invalid("device is ", device, ", but the text has ", devices->size(), " that can be used");
    }
    c::give(std::make_unique<vkattn_capabilities>(vkattn_capabilities{std::move((*devices)[device])}),
            capabilities);
    return {};
  });
}

size_t vkattn_capabilities_get_name(const vkattn_capabilities* capabilities, char* text, size_t capacity) {
  return c::copy_words(capabilities, text, capacity,
                       [](const vkattn_capabilities& it) { return it.device.device_name; });
}

vkattn_result vkattn_capabilities_destroy(vkattn_capabilities* capabilities) {
  return c::destroy(capabilities);
}

namespace {

void copy_names(const std::vector<vkattn::WantedFeature>& features, char* text, std::size_t capacity) {
  std::string names;
  for (const vkattn::WantedFeature& feature : features) {
    names += vkattn::detail::message(names.empty() ? "" : ", ", feature.name);
  }
  c::copy_text(names, text, capacity);
}

/// Asks for an operation. `to_desc` and `to_options` are its conversions.
template <class Given, class Desc, class Options>
vkattn_result ask(const vkattn_capabilities* capabilities, const Given* desc,
                  const vkattn_plan_options* options, vkattn_support* support, vkattn_error* error,
                  Result<Desc> (*to_desc)(const Given*),
                  Result<Options> (*to_options)(const vkattn_plan_options&, const char*)) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{capabilities, "capabilities"}}); !s) return s;
    const auto target = c::read(support, vkattn_support_init, "vkattn_support");
    if (!target) return target.error();
    const auto problem = to_desc(desc);
    if (!problem) return problem.error();
    const auto given = c::plan_options(options);
    if (!given) return given.error();
    const auto how = to_options(*given, c::Kind<typename Desc::Plan>::kName);
    if (!how) return how.error();
    const auto told = vkattn::supports(*problem, capabilities->device, *how);
    if (!told) return told.error();
    vkattn_support all = *target;
    all.workspace_bytes = told->workspace_bytes;
    all.storage_buffers = told->storage_buffers;
    all.push_constant_bytes = told->push_constant_bytes;
    all.dispatches = told->dispatches;
    c::copy_text(told->kernel, all.kernel, sizeof(all.kernel));
    c::copy_text(told->summary, all.summary, sizeof(all.summary));
    copy_names(told->uses, all.uses, sizeof(all.uses));
    copy_names(told->lacks, all.lacks, sizeof(all.lacks));
    c::copy_text(told->better, all.better, sizeof(all.better));
    c::write_back(all, support);
    return {};
  });
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                                                   \
  vkattn_result vkattn_supports_##NAME(const vkattn_capabilities* capabilities,                              \
                                       const vkattn_##NAME##_desc* desc, const vkattn_plan_options* options, \
                                       vkattn_support* support, vkattn_error* error) {                       \
    return ask(capabilities, desc, options, support, error, c::NAME##_desc, c::OPTIONS);                     \
  }
#include "common/operations.def"
