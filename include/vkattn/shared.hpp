/// @file
/// Shared ownership without the standard header of it, which would be a third of what this library's are.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

namespace vkattn {

namespace detail {

/// What keeps an object alive, and how many share it.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  virtual ~Keeper() = default;

  /// Of one that may be null, from any thread.
  static void share(Keeper* keeper) noexcept;
  /// The last of them destroys it.
  static void leave(Keeper* keeper) noexcept;

 private:
  long sharers_ = 1;  ///< changed at once, by atomic operations only
};

/// One with what it keeps: the object, or a pointer of any kind that owns it.
template <class Kept>
class KeeperOf final : public Keeper {
 public:
  explicit KeeperOf(Kept&& given) : kept(std::move(given)) {}

  Kept kept;
};

}  // namespace detail

/// Shares an object that lives as long as anyone shares it, like std::shared_ptr, of which it can be made, as
/// of any other owning pointer. Any thread may make and destroy copies.
template <class Object>
class Shared {
 public:
  /// Shares nothing.
  /// @{
  Shared() noexcept = default;
  Shared(std::nullptr_t) noexcept {}
  /// @}
  /// Takes over the share of a std::shared_ptr or std::unique_ptr. Of a null pointer it keeps nothing, not
  /// even the deleter.
  template <class Pointer>
  requires requires(const Pointer& pointer) {
    { pointer.get() } -> std::convertible_to<Object*>;
  }
  Shared(Pointer pointer) : object_(pointer.get()) {
    if (object_ != nullptr) keeper_ = new detail::KeeperOf<Pointer>(std::move(pointer));
  }
  /// A new object, with its first share.
  template <class Made>
  [[nodiscard]] static Shared make(Made made) {
    auto* const keeper = new detail::KeeperOf<Made>(std::move(made));
    Shared shared;
    shared.object_ = &keeper->kept;
    shared.keeper_ = keeper;
    return shared;
  }
  /// Shares what `other` does.
  /// @{
  Shared(const Shared& other) noexcept : object_(other.object_), keeper_(other.keeper_) {
    detail::Keeper::share(keeper_);
  }
  Shared(Shared&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), keeper_(std::exchange(other.keeper_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(keeper_, other.keeper_);
    return *this;
  }
  /// @}
  ~Shared() { detail::Keeper::leave(keeper_); }

  /// The object, which lives as long as it is shared, or null, for which `->` and `*` must not be used.
  /// @{
  [[nodiscard]] Object* get() const noexcept { return object_; }
  [[nodiscard]] Object* operator->() const noexcept { return object_; }
  [[nodiscard]] auto& operator*() const noexcept { return *object_; }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }
  /// @}
  /// Whether both share the same object.
  [[nodiscard]] friend bool operator==(const Shared& x, const Shared& y) noexcept {
    return x.object_ == y.object_;
  }

 private:
  Object* object_ = nullptr;
  detail::Keeper* keeper_ = nullptr;
};

}  // namespace vkattn
