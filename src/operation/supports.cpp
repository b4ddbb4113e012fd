// What a plan would be, without a device.
#include <vkattn/supports.hpp>

#include <string>
#include <utility>

#include "operation/plan_state.hpp"
#include "operation/try_kernels.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn::detail {

namespace {

/// The capabilities with every feature of the table off, or on.
Capabilities with_all_features(const Capabilities& given, bool are_on) {
  Capabilities capabilities = given;
  for (const DeviceFeatureRow& row : device_feature_table()) capabilities.*row.member = are_on;
  // A property, which is told only with its feature.
  capabilities.required_subgroup_size =
      are_on && (given.required_subgroup_size || !given.subgroup_size_control);
  return capabilities;
}

std::vector<WantedFeature> in_words(const MissedFeatures& features, std::uint32_t api_version,
                                    bool is_supported) {
  std::vector<WantedFeature> words;
  for (const DeviceFeatureRow* const row : features.rows) {
    const char* const extension = extension_of(*row, api_version);
    words.push_back({row->name, extension != nullptr ? extension : "", row->gain, is_supported});
  }
  return words;
}

}  // namespace

Result<Support> support_of(Operation& operation, const PlanOptions& options,
                           const Capabilities& capabilities) {
  TuningNote note;
  PlanOptions last = options;  // of the attempt that succeeds
  const auto program =
      try_kernels(operation, options, capabilities, Log{}, note,
                  [&](const PlanOptions& attempt, std::string_view& kernel) -> Result<ProgramDesc> {
                    last = attempt;
                    auto made = operation.build(attempt, capabilities, kernel);
                    if (!made) return made;
                    if (Result<void> s = check_device(*made, attempt.push_descriptors, capabilities); !s)
                      return s.error();
                    return made;
                  });
  if (!program) return program.error();
  Support support;
  const ChosenKernel chosen = operation.chosen();
  support.kernel = chosen.name;
  support.summary = message(chosen.summary, chosen.more_words);
  support.kernels.assign(chosen.considered.begin(), chosen.considered.end());
  support.workspace_bytes = program->workspace_bytes;
  support.dispatches = static_cast<std::uint32_t>(program->steps.size());
  if (program->steps.empty()) return support;
  const ProgramNeeds needs = needs_of(*program);
  support.storage_buffers = needs.storage_buffers;
  support.push_constant_bytes = needs.push_constant_bytes;
  const FormOn form = [&](const Capabilities& other) { return operation.form_on(last, other); };
  support.uses = in_words(missed_features(with_all_features(capabilities, false), capabilities, form),
                          capabilities.api_version, true);
  if (!options.kernel.empty()) return support;
  const MissedFeatures lacks = missed_features(capabilities, with_all_features(capabilities, true), form);
  support.lacks = in_words(lacks, capabilities.api_version, false);
  support.better = lacks.form;
  return support;
}

}  // namespace vkattn::detail
