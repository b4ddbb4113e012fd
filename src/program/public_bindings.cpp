// The public handle of bindings.
#include <vkattn/bindings.hpp>

#include <utility>

#include "program/program.hpp"

namespace vkattn {

Bindings::Bindings(Shared<detail::BindingsState> state) : state_(std::move(state)) {}
Bindings::Bindings(Bindings&&) noexcept = default;
Bindings& Bindings::operator=(Bindings&&) noexcept = default;
Bindings::~Bindings() = default;

}  // namespace vkattn
