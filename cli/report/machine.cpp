// Load and cores: see machine.hpp.
#include "report/machine.hpp"

#include <algorithm>
#include <thread>

#ifndef _WIN32
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): <cstdlib> lacks getloadavg
#endif

namespace vkattn::cli {

unsigned machine_cores() {
  return std::max(std::thread::hardware_concurrency(), 1U);
}

double machine_load() {
#ifdef _WIN32
  return -1;
#else
  double load = -1;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
#endif
}

}  // namespace vkattn::cli
