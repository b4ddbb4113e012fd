// The tool's output files if host memory runs out: each allocation during the writing of a file fails once.
#include "atomic_file.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/message.hpp"
#include "failing_driver/host_memory.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

Result<void> write_new(const std::filesystem::path& path) {
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  if (Result<void> s = file->write("new"); !s) return s;
  return file->commit();
}

/// If memory runs out, the tool ends with a sentence, as after any error.
TEST(AtomicFileOfNoMemory, IsWholeOrAsItWas) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  const std::filesystem::path target = folder / "sub/out with too long a name for its string",
                              link = folder / "link";
  std::error_code no_links;
  std::filesystem::create_symlink(target, link, no_links);
  const std::filesystem::path& path = no_links ? target : link;
  std::uint64_t n = 1;
  for (bool is_reached = true; is_reached; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    write_file(target, "old");
    const std::int64_t before = live_allocations();
    fail_allocation(n);
    {
      const Result<void> written = detail::without_exceptions([&] { return write_new(path); });
      is_reached = allocation_failed();
      fail_allocation(0);
      EXPECT_EQ(read_file(target), written.ok() ? "new" : "old");
      if (!written.ok()) {
        EXPECT_EQ(written.error().code, ErrorCode::kOutOfMemory) << written.error().message;
      }
      EXPECT_TRUE(written.ok() || is_reached);
    }
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(target.parent_path()))
      files += entry.exists();
    EXPECT_EQ(files, 1U) << "a temporary file is left";
    EXPECT_EQ(live_allocations(), before) << "memory of the host is left";
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 10U) << "allocations were tried";
}

}  // namespace
}  // namespace vkattn::tests
