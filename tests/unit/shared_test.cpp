// Shared ownership without std::shared_ptr in the headers.
#include <gtest/gtest.h>

#include <vkattn/shared.hpp>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace vkattn {
namespace {

struct Base {
  virtual ~Base() = default;
};

/// Counts its living objects.
struct Counted : Base {
  explicit Counted(int& living) : living_(&living) { ++*living_; }
  Counted(Counted&& other) noexcept : living_(other.living_) { ++*living_; }
  ~Counted() override { --*living_; }

 private:
  int* living_;
};

TEST(Shared, LivesAsLongAsAnyoneSharesIt) {
  int living = 0;
  auto first = Shared<const Counted>::make(Counted(living));
  EXPECT_EQ(living, 1);
  Shared<const Counted> second = first;
  EXPECT_EQ(first, second);
  first = nullptr;
  EXPECT_FALSE(first);
  EXPECT_EQ(living, 1);
  Shared<const Base> base = std::move(second);  // through its base class
  EXPECT_EQ(living, 1);
  base = Shared<const Base>();
  EXPECT_EQ(living, 0);
}

TEST(Shared, IsMadeOfPointersThatOwn) {
  int living = 0;
  const auto standard = std::make_shared<Counted>(living);
  Shared<const Base> shared = standard;
  EXPECT_EQ(shared.get(), standard.get());
  EXPECT_EQ(standard.use_count(), 2);
  const Shared<const void> untyped = shared;
  EXPECT_EQ(untyped.get(), shared.get());
  shared = std::make_unique<Counted>(living);
  EXPECT_EQ(living, 2);
  EXPECT_EQ(standard.use_count(), 2) << "untyped shares it";
  shared = std::shared_ptr<Counted>();
  EXPECT_EQ(shared, nullptr);
  EXPECT_EQ(living, 1);
}

TEST(Shared, ByManyThreadsAtOnce) {
  int living = 0;
  auto shared = Shared<Counted>::make(Counted(living));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([mine = shared] {
      for (int i = 0; i < 10000; ++i) {
        Shared<Counted> copy = mine;
        Shared<Counted> moved = std::move(copy);
        EXPECT_TRUE(moved);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(living, 1);
  shared = nullptr;
  EXPECT_EQ(living, 0);
}

}  // namespace
}  // namespace vkattn
