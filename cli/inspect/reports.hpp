// What `vkattn inspect` shows, in each way of using it: print as a table or JSON, and draw.
#pragma once

#include "command.hpp"
#include "inspect/arguments.hpp"
#include "inspect/weights.hpp"
#include "json.hpp"

namespace vkattn::cli {

/// --text, and --query with --key.
int inspect_heads(const InspectArguments& arguments, InspectMode mode, const Invocation& invocation);
/// --sweep-dim.
int inspect_scaling(const InspectArguments& arguments, const Invocation& invocation);
/// --memory.
int inspect_memory(const InspectArguments& arguments, const Invocation& invocation);

/// What JSON of all of them begins with.
[[nodiscard]] Json json_head(const Runtime& runtime, const Invocation& invocation);
/// The line "device" of text.
[[nodiscard]] std::string device_line(const Runtime& runtime);
/// For the caption of a picture.
[[nodiscard]] std::string device_caption(const Runtime& runtime, const Invocation& invocation);

[[nodiscard]] Json statistics_json(const WeightStatistics& statistics);
[[nodiscard]] Json check_json(const WeightCheck& check);
/// Fails where the weights are not within tolerance.
void require_passed(const WeightCheck& check);

/// "1/sqrt(64) = 0.125", or the number that --scale gave.
[[nodiscard]] std::string scale_text(const AttentionDesc& desc);

}  // namespace vkattn::cli
