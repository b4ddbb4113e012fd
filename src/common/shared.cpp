// Counts the owners of an object.
#include <vkattn/shared.hpp>

#include <atomic>

namespace vkattn::detail {

namespace {

/// The number before `change` was added. C++ libraries of Clang before 19 have no std::atomic_ref.
long add(long& number, long change) noexcept {
#ifdef __cpp_lib_atomic_ref
  return std::atomic_ref<long>(number).fetch_add(change, std::memory_order_acq_rel);
#else
  return __atomic_fetch_add(&number, change, __ATOMIC_ACQ_REL);
#endif
}

}  // namespace

void Keeper::share(Keeper* keeper) noexcept {
  if (keeper != nullptr) add(keeper->sharers_, 1);
}

void Keeper::leave(Keeper* keeper) noexcept {
  if (keeper != nullptr && add(keeper->sharers_, -1) == 1) delete keeper;
}

}  // namespace vkattn::detail
