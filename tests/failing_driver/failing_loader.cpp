// The layer as a library with the name libvulkan.so.1. A program finds it before the system's loader if
// LD_LIBRARY_PATH has its folder. Environment variables replace what a test would call:
//   VKATTN_TEST_LOADER  is the system's loader, which gets the calls.
//   VKATTN_TEST_FAULT   is a Fault, "FUNCTION CALL ERROR". If it is not set, there is no fault.
//   VKATTN_TEST_REPORT  is the file that this library writes at the end of the program. Its lines are "called
//                       FUNCTION TIMES" for each function that returns a VkResult, "fired" if the fault's
//                       call has come, "left NUMBER TYPE" and "misuse SENTENCE".
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"

namespace vkattn::tests {

// The program has an operator new of its own, so nothing is counted here.
UncountedMemory::UncountedMemory() noexcept = default;
UncountedMemory::~UncountedMemory() = default;

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? value : "";
}

/// Lives from the loading of this library to the end of the program.
class Session {
 public:
  Session() {
    void* const loader = dlopen(variable("VKATTN_TEST_LOADER").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loader == nullptr) return;
    the_layer().use(reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr")));
    Fault fault;
    int error = 0;
    std::istringstream words(variable("VKATTN_TEST_FAULT"));
    if (words >> fault.function >> fault.call >> error) {
      fault.error = static_cast<VkResult>(error);
      the_layer().arm(fault);
    }
    (void)functions_with_results();  // its table must outlive this object, as the layer does
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    const Layer& layer = the_layer();
    std::ofstream report(variable("VKATTN_TEST_REPORT"));
    for (const std::string& function : functions_with_results()) {
      const auto found = layer.calls().find(function);
      if (found != layer.calls().end()) report << "called " << function << " " << found->second << "\n";
    }
    if (layer.has_fired()) report << "fired\n";
    for (const auto& [type, count] : layer.live()) report << "left " << count << " " << type << "\n";
    for (const std::string& misuse : layer.misuses()) report << "misuse " << misuse << "\n";
  }
};

const Session session;

}  // namespace
}  // namespace vkattn::tests

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (vkattn::tests::the_layer().driver() == nullptr) return nullptr;
  return vkattn::tests::layer_get_instance_proc_addr(instance, name);
}
