/// @file
/// Tensors bound to a plan.
#pragma once

#include <vkattn/shared.hpp>

namespace vkattn {

namespace detail {
struct BindingsState;
}  // namespace detail

/// Descriptor sets and parameters for one set of tensors, made by a plan. Reusable: record it as often as
/// wanted; rewrite it only while no recorded use is pending. Keeps what it needs of its plan alive, and must
/// be idle when it is destroyed. Move-only; not thread-safe by itself.
class Bindings {
 public:
  /// Bindings that were moved from may be destroyed and assigned to; those assigned to must be idle.
  /// @{
  Bindings(Bindings&&) noexcept;
  Bindings& operator=(Bindings&&) noexcept;
  /// @}
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;
  ~Bindings();

  /// For the library's own files.
  /// @{
  explicit Bindings(Shared<detail::BindingsState> state);
  [[nodiscard]] detail::BindingsState& state() const { return *state_; }
  [[nodiscard]] const Shared<detail::BindingsState>& shared_state() const { return state_; }
  /// @}

 private:
  Shared<detail::BindingsState> state_;
};

}  // namespace vkattn
