// The handles of the C interface, and how its functions end.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "c/live_handles.hpp"
#include "c/operations.hpp"
#include "common/message.hpp"

struct vkattn_device {
  std::atomic<std::uint32_t> references{1};
  vkattn::Device device;
  explicit vkattn_device(vkattn::Device borrowed) : device(std::move(borrowed)) {}
};

struct vkattn_plan {
  std::atomic<std::uint32_t> references{1};
  vkattn::c::AnyPlan plan;
  explicit vkattn_plan(vkattn::c::AnyPlan made) : plan(std::move(made)) {}
};

struct vkattn_bindings {
  vkattn::c::AnyPlan plan;  ///< that has made them
  vkattn::Bindings bindings;
};

struct vkattn_score_function {
  std::atomic<std::uint32_t> references{1};
  vkattn::Shared<const vkattn::ScoreShaders> shaders;
  explicit vkattn_score_function(vkattn::Shared<const vkattn::ScoreShaders> made)
      : shaders(std::move(made)) {}
};

struct vkattn_self_test {
  vkattn::SelfTest test;
  std::optional<vkattn::Bindings> bindings;
};

struct vkattn_pipeline_cache {
  vkattn::PipelineCache cache;
};

struct vkattn_capabilities {
  vkattn::Capabilities device;
};

namespace vkattn::c {

/// Writes an outcome to the caller's memory, and returns its code. `target` may be null.
vkattn_result finish(const Error& error, vkattn_error* target);
vkattn_result succeed(vkattn_error* target);

/// Runs the body of a function that can fail, which returns a Result<void>.
template <class Body>
vkattn_result run(vkattn_error* target, Body&& body) {
  const Result<void> done = detail::without_exceptions([&]() -> Result<void> { return body(); });
  return done ? succeed(target) : finish(done.error(), target);
}

using detail::invalid;

template <class T, class... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);
template <class T>
inline constexpr bool kIsHandle =
    kIsOneOf<T, vkattn_device, vkattn_plan, vkattn_bindings, vkattn_score_function, vkattn_self_test,
             vkattn_pipeline_cache, vkattn_sequence, vkattn_frame_budget, vkattn_capabilities>;

/// Whether a handle was given out and not taken back. Does not look behind the pointer.
template <class Handle>
[[nodiscard]] bool is_alive(const Handle* handle) noexcept {
  static_assert(kIsHandle<Handle>);
  return handle != nullptr && live_handles().contains(handle);
}

/// An argument of a call, by its name.
struct Given {
  const void* pointer;
  const char* name;
  bool is_handle;

  template <class T>
  Given(const T* given, const char* called) : pointer(given), name(called), is_handle(kIsHandle<T>) {}
};
/// The Error for a handle that was taken back or never given out.
[[nodiscard]] Error not_alive(std::string_view name);
/// Checks that no argument is null, and that handles are alive. The first that fails is the error.
[[nodiscard]] Result<void> check_given(std::initializer_list<Given> arguments);
/// Checks that a list is not null if it has elements.
[[nodiscard]] Result<void> check_list(const void* list, std::size_t count, const char* name);

/// Gives up one reference; the last one destroys the handle. Null is allowed.
template <class Handle>
vkattn_result release(Handle* handle) {
  if (handle == nullptr) return VKATTN_SUCCESS;
  bool is_last = false;
  const bool was_alive =
      live_handles().with(handle, [&] { return is_last = handle->references.fetch_sub(1) == 1; });
  if (is_last) delete handle;
  return was_alive ? VKATTN_SUCCESS : VKATTN_ERROR_INVALID_ARGUMENT;
}

template <class Handle>
vkattn_result retain(Handle* handle) {
  const bool was_alive = live_handles().with(handle, [&] {
    handle->references.fetch_add(1);
    return false;
  });
  return was_alive ? VKATTN_SUCCESS : VKATTN_ERROR_INVALID_ARGUMENT;
}

/// Destroys a handle that has no references. Null is allowed.
template <class Handle>
vkattn_result destroy(Handle* handle) {
  if (handle == nullptr) return VKATTN_SUCCESS;
  if (!live_handles().remove(handle)) return VKATTN_ERROR_INVALID_ARGUMENT;
  delete handle;
  return VKATTN_SUCCESS;
}

/// Gives a new handle out.
template <class Handle>
void give(std::unique_ptr<Handle> made, Handle** target) {
  live_handles().add(made.get());
  *target = made.release();
}

/// A plan of any kind as a Plan.
[[nodiscard]] const Plan& plan_of(const vkattn_plan& plan);
/// The plan of attention that a plan is, or that a layer has; null for others.
[[nodiscard]] const AttentionPlan* attention_of(const vkattn_plan& plan);
/// The plan whose kernel counts as a plan's own: of a layer that of its attention.
[[nodiscard]] const Plan& kernel_plan(const vkattn_plan& plan);

/// Copies as much of a text as fits, with a 0 at its end. Returns the bytes that the whole text takes.
std::size_t copy_text(std::string_view text, char* target, std::size_t capacity);

/// Copies the text that `tell` gives of a handle; an empty text if the handle is not alive or memory runs
/// out.
template <class Handle, class Tell>
std::size_t copy_words(const Handle* handle, char* target, std::size_t capacity, const Tell& tell) {
  std::size_t bytes = 0;
  (void)run(nullptr, [&]() -> Result<void> {
    bytes = copy_text(is_alive(handle) ? tell(*handle) : std::string(), target, capacity);
    return {};
  });
  return bytes;
}

/// Copies bytes to `blob`, which has *bytes, and sets *bytes to the number that is needed. `blob` may be
/// null.
[[nodiscard]] Result<void> copy_blob(std::span<const std::byte> from, const char* name, void* blob,
                                     std::size_t* bytes);

/// Writes at most *count elements of a list, converted, and sets *count to how many there are; `target` may
/// be null.
template <class List, class Target, class Convert>
void copy_list(const List& list, Target* target, std::uint32_t* count, const Convert& convert) {
  for (std::size_t i = 0; target != nullptr && i < list.size() && i < *count; ++i) {
    target[i] = convert(list[i]);
  }
  *count = static_cast<std::uint32_t>(list.size());
}

/// A caller's structure as this version has it. Members that an earlier version lacked are as the init
/// function leaves them.
template <class Struct>
[[nodiscard]] Result<Struct> read(const Struct* given, void (*init)(Struct*), const char* name) {
  if (given == nullptr) return invalid(name, " is null");
  constexpr std::uint32_t kLeast = offsetof(Struct, next) + sizeof(void*);
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  // No version of it has a size between multiples of a pointer's alignment, where half of one might be read.
  if (size < kLeast || size > sizeof(Struct) || size % alignof(void*) != 0) {
    return invalid(name, "::struct_size is ", size, " and this library knows up to ", sizeof(Struct),
                   size > sizeof(Struct) ? ": it is older than the header that the program was made with"
                                         : ": call its init function first");
  }
  Struct copy;
  init(&copy);
  std::memcpy(&copy, given, size);
  if (copy.next != nullptr) {
    return invalid(name, "::next must be null: no structure can follow in this version");
  }
  if constexpr (requires { copy.reserved; }) {
    if (copy.reserved != 0) {
      return invalid(name, "::reserved is ", copy.reserved,
                     " but must be 0: call the structure's init function first");
    }
  }
  return copy;
}

/// Writes a copy that read() gave, with other members, to the caller's structure: as much as that has.
template <class Struct>
void write_back(const Struct& copy, Struct* given) noexcept {
  std::memcpy(given, &copy, copy.struct_size);
}

}  // namespace vkattn::c
