// What the machine has, and has to do beside a report.
#pragma once

namespace vkattn::cli {

/// Cores that this program may use; at least 1.
[[nodiscard]] unsigned machine_cores();
/// Processes that want a core, on average over the last minute; below 0 where the system does not tell.
[[nodiscard]] double machine_load();

}  // namespace vkattn::cli
