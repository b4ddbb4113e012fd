// Two programs that keep their pipelines in one file.
#include "runtime/kept_pipelines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>

namespace vkattn::detail {
namespace {

using PipelineBytes = KeptPipelines::Bytes;

/// In this test a pipeline is a byte, and a cache has them in order.
PipelineBytes pipelines_of(std::initializer_list<int> numbers) {
  PipelineBytes bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

/// A cache that is read from the file, and written to it as the runtime does.
class CacheOfOneFile {
 public:
  explicit CacheOfOneFile(PipelineBytes& file) : file_(&file), own_(file), kept_(file) {}

  void compile(int number) {
    own_.push_back(static_cast<std::byte>(number));
    std::sort(own_.begin(), own_.end());
  }
  void save(bool driver_merges = true) {
    if (kept_.has(own_)) return;
    ++writes;
    const PipelineBytes bytes = kept_.to_write(own_, *file_, [&](const PipelineBytes& there) {
      PipelineBytes both;
      if (driver_merges) {
        std::set_union(own_.begin(), own_.end(), there.begin(), there.end(), std::back_inserter(both));
      }
      return both;
    });
    *file_ = bytes;
    kept_.wrote(own_, bytes);
  }

  int writes = 0;

 private:
  PipelineBytes* file_;
  PipelineBytes own_;
  KeptPipelines kept_;
};

TEST(KeptPipelines, OfTwoProgramsStayHoweverOftenTheyAreWritten) {
  PipelineBytes file = pipelines_of({1});
  CacheOfOneFile one(file), other(file);
  other.compile(3);
  other.save();
  one.compile(2);
  one.save();
  EXPECT_EQ(file, pipelines_of({1, 2, 3}));
  one.save();
  EXPECT_EQ(one.writes, 1) << "nothing is new";
  one.compile(4);
  one.save();
  EXPECT_EQ(file, pipelines_of({1, 2, 3, 4})) << "what the other had is not in the cache of the one";
  other.compile(5);
  other.save();
  EXPECT_EQ(file, pipelines_of({1, 2, 3, 4, 5}));
}

TEST(KeptPipelines, AreTheOwnWhereTheDriverDoesNotMerge) {
  PipelineBytes file;
  CacheOfOneFile one(file), other(file);
  other.compile(3);
  other.save();
  one.compile(2);
  one.save(false);
  EXPECT_EQ(file, pipelines_of({2}));
}

TEST(KeptPipelines, AreNotMergedWhereNobodyElseHasWritten) {
  PipelineBytes file = pipelines_of({1});
  CacheOfOneFile one(file);
  for (const int number : {2, 3}) {
    one.compile(number);
    one.save(false);
  }
  EXPECT_EQ(file, pipelines_of({1, 2, 3}));
}

}  // namespace
}  // namespace vkattn::detail
