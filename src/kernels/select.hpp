// Choosing the kernel: an ordered list, each accepts or says why not. Plain data, no Vulkan calls.
#pragma once

#include <vkattn/kernels.hpp>
#include <vkattn/plan.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "kernels/kernel.hpp"

namespace vkattn::detail {

/// Refuses a list of refusals that names an unknown kernel. The names of attention's kernels include those of
/// gradients and products, and a program may keep one list for a driver: any of the names is right for any
/// kind of plan.
[[nodiscard]] Result<void> check_refusals(std::span<const KernelRefusal> refusals,
                                          std::string_view list = "refusals");

/// The error: the list refuses the kernel, with this reason.
[[nodiscard]] Result<void> check_not_refused(std::string_view kernel,
                                             std::span<const KernelRefusal> refusals);

/// The chosen configuration, and the considered kernels in order. A kernel with an empty reason accepts.
template <class Config>
struct SelectionOf {
  Config config;
  std::vector<KernelSupport> considered;
};

/// Errors of selection: no kernel accepts (with every reason, and the code of the last), or no kernel has the
/// name that was asked for.
[[nodiscard]] Error nothing_accepts(std::span<const KernelSupport> considered, ErrorCode code,
                                    std::string_view problem);
[[nodiscard]] Error no_such_kernel(std::string_view wanted, std::string_view kernels,
                                   std::string_view problem);

/// Chooses for every operation: the first of its kernels, best first, that accepts the problem and is not
/// refused, or the one that is asked for. `configure(kernel)` is the configuration of one, or the reason
/// against it as an Error; `problem` is "this problem" in words.
template <class Kernels, class Configure>
[[nodiscard]] auto select_first(const Kernels& kernels, const PlanOptions& options, std::string_view problem,
                                Configure&& configure)
    -> Result<SelectionOf<std::decay_t<decltype(*configure(*kernels.begin()))>>> {
  using Config = std::decay_t<decltype(*configure(*kernels.begin()))>;
  if (Result<void> s = check_refusals(options.refusals); !s) return s.error();
  std::vector<KernelSupport> considered;
  considered.reserve(kernels.size());
  std::optional<Config> chosen;
  ErrorCode code = ErrorCode::kNotFound;
  std::string names;
  for (const auto& kernel : kernels) {
    names += message(names.empty() ? "" : ", ", kernel.name);
    if (!options.kernel.empty() && kernel.name != options.kernel) continue;
    const Result<void> allowed = check_not_refused(kernel.name, options.refusals);
    auto config = allowed ? configure(kernel) : Result<Config>(allowed.error());
    considered.push_back({kernel.name, config ? std::string() : config.error().message});
    if (!config) code = config.error().code;
    if (config && !chosen) chosen = *std::move(config);
  }
  if (chosen) return SelectionOf<Config>{*std::move(chosen), std::move(considered)};
  if (considered.empty()) return no_such_kernel(options.kernel, names, problem);
  return nothing_accepts(considered, code, problem);
}

/// For kernel_support(): every kernel with the reason against it. If the descriptor is not `valid`, that is
/// the reason against all.
template <class Kernels, class Configure>
[[nodiscard]] std::vector<KernelSupport> support_of(const Kernels& kernels, const Result<void>& valid,
                                                    Configure&& configure) {
  std::vector<KernelSupport> support;
  for (const auto& kernel : kernels) {
    std::string reason = valid ? std::string() : valid.error().message;
    if (valid) {
      const auto config = configure(kernel);
      if (!config) reason = config.error().message;
    }
    support.push_back({kernel.name, std::move(reason)});
  }
  return support;
}

using Selection = SelectionOf<KernelConfig>;
[[nodiscard]] Result<Selection> select_kernel(const AttentionDesc& desc, const Capabilities& capabilities,
                                              const PlanOptions& options);

/// Lines of describe(): why each kernel but the chosen one was refused, or that it is not needed.
[[nodiscard]] std::string describe_others(std::span<const KernelSupport> considered, std::string_view chosen);

}  // namespace vkattn::detail
