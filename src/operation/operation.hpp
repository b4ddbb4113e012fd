// An operation can be planned. It knows its descriptor, its tensors, its kernels and the words for them. The
// common part of all plans (options, tuning, the next kernel, bindings, recording, reports) is in plan.cpp
// and knows no operation.
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

/// The chosen kernel of an operation. The views refer to the operation. Without a name: the operation has one
/// kernel alone.
struct ChosenKernel {
  std::string_view name;
  std::string_view summary;       ///< block sizes in words: part of the configuration
  std::string_view more_words{};  ///< for describe(), behind the summary
  std::span<const KernelSupport> considered{};
  bool uses_matrix_units = false;
};

/// The most tensors of an execution: a layer's gradients.
inline constexpr std::size_t kMostTensors = 64;

/// The tensors of one execution in the order of the program's tensors. ProgramCall refers to it.
struct OperationCall {
  std::array<BufferRange, kMostTensors> ranges{};
  std::size_t count = 0;
  std::array<std::uint32_t, 3> words{};  ///< of CallWord
  PassRange skipped{};                   ///< as ProgramCall::skipped

  void add(const BufferRange& range) noexcept { ranges[count++] = range; }
  /// Adds the tensors of all rows of their table.
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

  /// For refusals of options: "gradients of attention".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The options that it uses besides those of every plan.
  [[nodiscard]] virtual OptionSet used_options() const { return {}; }
  /// Checks options and limits that hold for every kernel, before any kernel is looked at.
  [[nodiscard]] virtual Result<void> check(const PlanOptions& /*options*/,
                                           const Capabilities& /*capabilities*/) const {
    return {};
  }
  /// The options by a measured problem like this one, if they can be used. `note` tells what became of them.
  [[nodiscard]] virtual std::optional<TunedOptions> tuned(const PlanOptions& /*options*/,
                                                          const Capabilities& /*capabilities*/,
                                                          std::string& /*note*/) const {
    return std::nullopt;
  }
  /// Chooses a kernel, keeps it and describes its program. `kernel` is set before anything else can fail.
  [[nodiscard]] virtual Result<ProgramDesc> build(const PlanOptions& options,
                                                  const Capabilities& capabilities,
                                                  std::string_view& kernel) = 0;
  /// Whether another kernel may succeed after this error of build() or of the driver.
  [[nodiscard]] virtual bool is_of_kernel(const Error& error) const { return is_not_compiled(error); }

  /// The kernel that the last build() chose.
  [[nodiscard]] virtual ChosenKernel chosen() const { return {}; }
  /// Kernel, types and dims, for configuration().
  [[nodiscard]] virtual std::string configuration() const { return {}; }
  /// The passes that are the kernel's own.
  [[nodiscard]] virtual std::span<const ProgramPass> kernel_passes(std::span<const ProgramPass> all) const {
    return all;
  }
  /// Advice that makes dispatches shorter. Empty: dispatches have no estimates.
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

/// An operation with its types.
template <class Desc, class Tensors>
class TypedOperation : public Operation {
 public:
  explicit TypedOperation(Desc resolved) : desc_(std::move(resolved)) {}

  [[nodiscard]] const Desc& desc() const { return desc_; }
  /// Adds the tensors in the order of the program's tensors. An error: they cannot be those of one execution.
  [[nodiscard]] virtual Result<void> add_tensors(const Tensors& tensors, OperationCall& call) const = 0;
  /// The place of a member among the program's tensors.
  [[nodiscard]] virtual std::size_t tensor_index(BufferRange Tensors::*tensor) const = 0;

 private:
  Desc desc_;
};

/// The base class of every operation; `Own` is the operation's class.
template <class Own, class OwnDesc, class OwnTensors>
class OperationOf : public TypedOperation<OwnDesc, OwnTensors> {
 public:
  using Desc = OwnDesc;
  using Tensors = OwnTensors;
  using TypedOperation<Desc, Tensors>::TypedOperation;

  [[nodiscard]] static Result<std::unique_ptr<Own>> make(const Device& /*device*/, const Desc& given,
                                                         const PlanOptions& /*options*/) {
    return make(given);
  }
  /// Checks every rule that needs no device.
  [[nodiscard]] static Result<std::unique_ptr<Own>> make(const Desc& given) {
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
