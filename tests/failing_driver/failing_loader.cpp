// The layer as a library of the name libvulkan.so.1, which a program finds before the system's loader where
// LD_LIBRARY_PATH leads to its folder. Environment variables tell it what a test would otherwise:
//   VKATTN_TEST_LOADER  the system's loader, to pass calls on to
//   VKATTN_TEST_FAULT   "FUNCTION CALL ERROR": a Fault; none where it is not set
//   VKATTN_TEST_REPORT  the file for its words at the end of the program: "called FUNCTION TIMES" of each
//                       function that gives a VkResult, "fired" where the fault's call came, "left NUMBER
//                       TYPE", "misuse SENTENCE"
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"

namespace vkattn::tests {

// The program's operator new is its own.
UncountedMemory::UncountedMemory() noexcept = default;
UncountedMemory::~UncountedMemory() = default;

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? value : "";
}

/// From the loading of this library to the end of the program.
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
    (void)functions_with_results();  // its table outlives this, as the layer does
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
