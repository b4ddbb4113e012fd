// The outputs of `vkattn inspect` in each mode: a table or JSON, and a picture.
#pragma once

#include "command.hpp"
#include "inspect/arguments.hpp"
#include "inspect/weights.hpp"
#include "json.hpp"

namespace vkattn::cli {

/// For --text, and for --query with --key.
int inspect_heads(const InspectArguments& arguments, InspectMode mode, const Invocation& invocation);
/// For --sweep-dim.
int inspect_scaling(const InspectArguments& arguments, const Invocation& invocation);
/// For --memory.
int inspect_memory(const InspectArguments& arguments, const Invocation& invocation);

/// The first members of every JSON output.
[[nodiscard]] Json json_head(const Runtime& runtime, const Invocation& invocation);
/// The line "device" in text.
[[nodiscard]] std::string device_line(const Runtime& runtime);
/// The device for the caption of a picture.
[[nodiscard]] std::string device_caption(const Runtime& runtime, const Invocation& invocation);

[[nodiscard]] Json statistics_json(const WeightStatistics& statistics);
[[nodiscard]] Json check_json(const WeightCheck& check);
/// Fails if the weights are not within tolerance.
void require_passed(const WeightCheck& check);

/// "1/sqrt(64) = 0.125", or the number of --scale.
[[nodiscard]] std::string scale_text(const AttentionDesc& desc);

}  // namespace vkattn::cli
