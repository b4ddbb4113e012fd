// Outcomes and handles of the C interface.
#include "c/handles.hpp"

#include <cstddef>

namespace vkattn::c {

namespace {

vkattn_result code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return VKATTN_ERROR_INVALID_ARGUMENT;
    case ErrorCode::kUnsupported:
      return VKATTN_ERROR_UNSUPPORTED;
    case ErrorCode::kLimitExceeded:
      return VKATTN_ERROR_LIMIT_EXCEEDED;
    case ErrorCode::kOutOfMemory:
      return VKATTN_ERROR_OUT_OF_MEMORY;
    case ErrorCode::kDeviceLost:
      return VKATTN_ERROR_DEVICE_LOST;
    case ErrorCode::kVulkan:
      return VKATTN_ERROR_VULKAN;
    case ErrorCode::kNotFound:
      return VKATTN_ERROR_NOT_FOUND;
    case ErrorCode::kIo:
      break;
  }
  return VKATTN_ERROR_IO;
}

// Writes only the members that the caller's version of the structure has.
void write(std::int32_t vk_result, std::string_view text, vkattn_error* target) {
  constexpr std::size_t kBefore = offsetof(vkattn_error, message);
  if (target == nullptr || target->struct_size <= kBefore) return;
  target->vk_result = vk_result;
  copy_text(text, target->message,
            std::min<std::size_t>(target->struct_size - kBefore, sizeof(target->message)));
}

}  // namespace

vkattn_result succeed(vkattn_error* target) {
  write(0, {}, target);
  return VKATTN_SUCCESS;
}

vkattn_result finish(const Error& error, vkattn_error* target) {
  write(error.vk_result, error.message, target);
  return code_of(error.code);
}

Error not_alive(std::string_view name) {
  return invalid(name, " is no handle that is alive: it was released or destroyed, or never made");
}

Result<void> check_given(std::initializer_list<Given> arguments) {
  for (const Given& argument : arguments) {
    if (argument.pointer == nullptr) return invalid(argument.name, " is null");
    if (argument.is_handle && !live_handles().contains(argument.pointer)) return not_alive(argument.name);
  }
  return {};
}

Result<void> check_list(const void* list, std::size_t count, const char* name) {
  if (list != nullptr || count == 0) return {};
  return invalid(name, " is null, but its count is ", count);
}

const AttentionPlan* attention_of(const vkattn_plan& plan) {
#ifndef VKATTN_WITHOUT_MATMUL
  if (const auto* const layer = std::get_if<MultiHeadAttentionPlan>(&plan.plan)) return &layer->attention();
#endif
  return std::get_if<AttentionPlan>(&plan.plan);
}

const Plan& plan_of(const vkattn_plan& plan) {
  return std::visit([](const auto& it) -> const Plan& { return it; }, plan.plan);
}

const Plan& kernel_plan(const vkattn_plan& plan) {
  const AttentionPlan* const attention = attention_of(plan);
  return attention != nullptr ? *attention : plan_of(plan);
}

Result<void> copy_blob(std::span<const std::byte> from, const char* name, void* blob, std::size_t* bytes) {
  const std::size_t capacity = *bytes;
  *bytes = from.size();
  if (blob == nullptr) return {};
  if (capacity < from.size()) {
    return invalid(name, " takes ", from.size(), " bytes and there are ", capacity, ": give more");
  }
  std::copy(from.begin(), from.end(), static_cast<std::byte*>(blob));
  return {};
}

std::size_t copy_text(std::string_view text, char* target, std::size_t capacity) {
  if (target != nullptr && capacity != 0) {
    const std::size_t bytes = std::min(text.size(), capacity - 1);
    text.copy(target, bytes);  // a null view is fine here, but not for memcpy
    target[bytes] = 0;
  }
  return text.size() + 1;
}

}  // namespace vkattn::c
