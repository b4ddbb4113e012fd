// Peak resident memory: from /proc on Linux, where it can be reset, otherwise from getrusage.
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

/// The bytes in a line of /proc/self/status; 0 if the line does not exist.
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
  malloc_trim(0);  // memory that earlier work freed does not belong to this peak
#endif
  std::ofstream control("/proc/self/clear_refs");
  control << "5\n";  // resets the peak alone and changes the state of no page
  control.flush();
  return control.good();
}

}  // namespace vkattn::bench
