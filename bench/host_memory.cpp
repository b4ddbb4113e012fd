// Peak resident memory: from /proc on Linux, which can start it anew, else from getrusage.
#include "host_memory.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace vkattn::bench {

namespace {

/// A line of /proc/self/status, 0 where there is none.
std::uint64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field, 0) != 0) continue;
    std::uint64_t kibibytes = 0;
    std::istringstream(line.substr(field.size())) >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t peak_memory_bytes() {
  if (const std::uint64_t peak = status_bytes("VmHWM:"); peak != 0) return peak;
#if defined(__unix__) || defined(__APPLE__)
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
#if defined(__APPLE__)
    return static_cast<std::uint64_t>(usage.ru_maxrss);
#else
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
#endif
  }
#endif
  return 0;
}

std::uint64_t resident_memory_bytes() {
  return status_bytes("VmRSS:");
}

bool reset_peak_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);  // what earlier work freed is not this one's
#endif
  std::ofstream control("/proc/self/clear_refs");
  control << "5\n";  // the code for the peak alone: no page's state is touched
  control.flush();
  return control.good();
}

}  // namespace vkattn::bench
