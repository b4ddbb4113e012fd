// An operation of a problem: what can be planned. It knows its descriptor, its tensors, its kernels and the
// words for them; what all plans have in common (options, tuning, the next kernel where one fails, bindings,
// recording, reports) is in plan.cpp and knows no operation.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/plan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attention/tensor_row.hpp"
#include "operation/next_kernel.hpp"
#include "operation/options.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// What was chosen among an operation's kernels, as views of what the operation keeps; without a name where
/// there is nothing to choose.
struct ChosenKernel {
  std::string_view name;
  std::string_view summary;       ///< block sizes in words: part of the configuration
  std::string_view more_words{};  ///< for describe(), behind the summary
  std::span<const KernelSupport> considered{};
  bool uses_matrix_units = false;
};

/// Of an execution: those of a layer's gradients are the most.
inline constexpr std::size_t kMostTensors = 64;

/// The tensors of one execution in the order of the program's tensors. ProgramCall refers to it.
struct OperationCall {
  std::array<BufferRange, kMostTensors> ranges{};
  std::size_t count = 0;
  std::array<std::uint32_t, 3> words{};  ///< of CallWord
  PassRange skipped{};                   ///< as ProgramCall::skipped

  void add(const BufferRange& range) noexcept { ranges[count++] = range; }
  /// Those of the rows of their table.
  template <class Tensors>
  void add_table(const Tensors& tensors) noexcept {
    static_assert(TensorTable<Tensors>::kCount <= kMostTensors);
    for (const auto& row : tensor_table<Tensors>()) add(tensors.*row.range);
  }
  [[nodiscard]] ProgramCall call(const BufferRange& workspace) const noexcept {
    return {std::span(ranges).first(count), workspace, words, skipped};
  }
};

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// "gradients of attention": for refusals of options.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The options that it uses beside those that every plan takes.
  [[nodiscard]] virtual OptionSet used_options() const { return {}; }
  /// Options and limits that hold for every kernel: kernels are not looked at where one is broken.
  [[nodiscard]] virtual Result<void> check(const PlanOptions& /*options*/,
                                           const Capabilities& /*capabilities*/) const {
    return {};
  }
  /// What was measured for a problem like this one, where it can be used; `note` tells what became of it.
  [[nodiscard]] virtual std::optional<TunedOptions> tuned(const PlanOptions& /*options*/,
                                                          const Capabilities& /*capabilities*/,
                                                          std::string& /*note*/) const {
    return std::nullopt;
  }
  /// Chooses a kernel, which is kept, and says which it took before anything else can fail; describes its
  /// program.
  [[nodiscard]] virtual Result<ProgramDesc> build(const PlanOptions& options,
                                                  const Capabilities& capabilities,
                                                  std::string_view& kernel) = 0;
  /// That another kernel may do where build() or the driver failed so.
  [[nodiscard]] virtual bool is_of_kernel(const Error& error) const { return is_not_compiled(error); }

  /// Of the last build().
  [[nodiscard]] virtual ChosenKernel chosen() const { return {}; }
  /// Kernel, types and dims, for configuration().
  [[nodiscard]] virtual std::string configuration() const { return {}; }
  /// The passes that are the kernel's own.
  [[nodiscard]] virtual std::span<const ProgramPass> kernel_passes(std::span<const ProgramPass> all) const {
    return all;
  }
  /// How its dispatches become shorter; empty where they have no estimates.
  [[nodiscard]] virtual std::string_view way_to_shorten() const { return {}; }
  /// Kernel and shader on a device of these capabilities, for missed_form().
  [[nodiscard]] virtual std::string form_on(const PlanOptions& /*options*/,
                                            const Capabilities& /*capabilities*/) const {
    return {};
  }
  /// The lines of describe() above and below those on the kernel.
  /// @{
  [[nodiscard]] virtual std::string problem_lines() const = 0;
  [[nodiscard]] virtual std::string kernel_lines() const { return {}; }
  [[nodiscard]] virtual std::string program_lines(const ProgramDesc& /*program*/) const { return {}; }
  /// @}
};

/// An operation for those who know its types.
template <class Desc, class Tensors>
class TypedOperation : public Operation {
 public:
  explicit TypedOperation(Desc resolved) : desc_(std::move(resolved)) {}

  [[nodiscard]] const Desc& desc() const { return desc_; }
  /// The tensors in the order of the program's; an error where they cannot be those of one execution.
  [[nodiscard]] virtual Result<void> add_tensors(const Tensors& tensors, OperationCall& call) const = 0;
  /// The place of a member among the program's tensors.
  [[nodiscard]] virtual std::size_t tensor_index(BufferRange Tensors::*tensor) const = 0;

 private:
  Desc desc_;
};

/// What every operation's class derives from: `Own` is that class.
template <class Own, class OwnDesc, class OwnTensors>
class OperationOf : public TypedOperation<OwnDesc, OwnTensors> {
 public:
  using Desc = OwnDesc;
  using Tensors = OwnTensors;
  using TypedOperation<Desc, Tensors>::TypedOperation;

  /// By every rule that needs no device.
  [[nodiscard]] static Result<std::unique_ptr<Own>> make(const Device& /*device*/, const Desc& given,
                                                         const PlanOptions& /*options*/) {
    if (Result<void> s = validate(given); !s) return s.error();
    if constexpr (requires { given.resolved(); }) {
      return std::make_unique<Own>(given.resolved());
    } else {
      return std::make_unique<Own>(given);
    }
  }
};

/// An operation whose program has the tensors of its table and no others.
template <class Own, class OwnDesc, class OwnTensors>
class OperationOfTable : public OperationOf<Own, OwnDesc, OwnTensors> {
 public:
  using OperationOf<Own, OwnDesc, OwnTensors>::OperationOf;

  [[nodiscard]] Result<void> add_tensors(const OwnTensors& tensors, OperationCall& call) const override {
    call.add_table(tensors);
    return {};
  }
  [[nodiscard]] std::size_t tensor_index(BufferRange OwnTensors::*tensor) const override {
    return detail::tensor_index(tensor);
  }
};

}  // namespace vkattn::detail
