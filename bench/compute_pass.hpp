// A program of one compute shader and its buffers, for the kernels that measure peaks.
#pragma once

#include <vkattn/bindings.hpp>
#include <vkattn/runtime.hpp>

#include <cstddef>
#include <memory>
#include <span>

#include "program/program.hpp"

namespace vkattn::bench {

/// A pipeline and one descriptor set of storage buffers. The buffers and the Runtime must outlive the pass.
class ComputePass {
 public:
  /// Buffers take bindings 0, 1, 2 and so on of set 0. Each binding starts at the buffer's start and has
  /// range.size bytes. Addresses of buffers go to the push constants where `addresses` says.
  [[nodiscard]] static Result<ComputePass> create(const Runtime& runtime, const detail::ShaderCode& code,
                                                  std::span<const detail::SpecializationValue> specialization,
                                                  std::span<const BufferRange> buffers,
                                                  std::uint32_t push_constant_bytes,
                                                  std::span<const detail::AddressWord> addresses = {});

  /// Records one dispatch of `groups` workgroups. It runs after everything that was recorded before it.
  void record(VkCommandBuffer commands, std::span<const std::byte> push_constants,
              std::uint32_t groups) const;

 private:
  ComputePass(std::shared_ptr<const detail::Program> program, Bindings bindings)
      : program_(std::move(program)), bindings_(std::move(bindings)) {}

  std::shared_ptr<const detail::Program> program_;
  Bindings bindings_;
};

}  // namespace vkattn::bench
