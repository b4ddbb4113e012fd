// Opens files for reading. Anything that is not a regular file is refused with a sentence, and is never
// waited for.
#include "runtime/input_file.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "support/must.hpp"
#include "support/temp_folder.hpp"

#ifndef _WIN32
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#endif

namespace vkattn::detail {
namespace {

using tests::is_refused;
using tests::must;

TEST(InputFile, IsReadWhole) {
  const tests::TempFolder folder;
  for (const std::string& text : {std::string(), std::string("a\r\n\0b", 5), std::string(200'000, 'x')}) {
    tests::write_file(folder / "file", text);
    EXPECT_EQ(must(read_input(folder / "file", text.size())), text);
    EXPECT_EQ(must(read_input_or_pipe(folder / "file", text.size())), text);
    InputFile file = must(open_input(folder / "file"));
    EXPECT_EQ(file.bytes, text.size());
    EXPECT_EQ(file.stream.tellg(), 0);
  }
  EXPECT_TRUE(is_refused(read_input(folder / "file", 199'999), ErrorCode::kInvalidArgument,
                         {"more than 199999 bytes"}));
}

TEST(InputFile, IsNoFolderAndIsThere) {
  const tests::TempFolder folder;
  EXPECT_TRUE(is_refused(open_input(folder / "none"), ErrorCode::kNotFound, {"there is no such file"}));
  EXPECT_TRUE(is_refused(open_input(""), ErrorCode::kNotFound, {"there is no such file"}));
  EXPECT_TRUE(is_refused(open_input(folder.path()), ErrorCode::kIo, {"a folder"}));
  tests::write_file(folder / "file", "text");
  EXPECT_FALSE(open_input(folder / "file" / "within").ok());
}

#ifndef _WIN32
TEST(InputFile, IsNoPipeSocketOrDevice) {
  const tests::TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (folder / "socket").string();
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(static_cast<char*>(address.sun_path), path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(socket);
  EXPECT_TRUE(is_refused(open_input(folder / "pipe"), ErrorCode::kIo, {"a named pipe, not a regular file"}));
  EXPECT_TRUE(is_refused(open_input(folder / "link"), ErrorCode::kIo, {"a named pipe"}));
  EXPECT_TRUE(is_refused(read_input(folder / "pipe", 9), ErrorCode::kIo, {"a named pipe"}));
  EXPECT_TRUE(is_refused(open_input(folder / "socket"), ErrorCode::kIo, {"a socket"}));
  EXPECT_TRUE(is_refused(open_input("/dev/zero"), ErrorCode::kIo, {"a device"}));
  EXPECT_TRUE(is_refused(read_input_or_pipe("/dev/zero", 9), ErrorCode::kIo, {"a device"}));
}

TEST(InputFile, APipeIsReadToItsEndAndToALimit) {
  using std::chrono::milliseconds;
  const tests::TempFolder folder;
  const std::filesystem::path path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(is_refused(read_input_or_pipe(path, 9, milliseconds(50)), ErrorCode::kIo,
                         {"nothing has come through this pipe for 50 ms"}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  const std::string text(300'000, 'x');
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    tests::write_file(path, text);
  });
  EXPECT_EQ(must(read_input_or_pipe(path, text.size(), std::chrono::seconds(20))), text);
  writer.join();
  std::thread other([&] { tests::write_file(path, "1234567890"); });
  EXPECT_TRUE(is_refused(read_input_or_pipe(path, 9, std::chrono::seconds(20)), ErrorCode::kInvalidArgument,
                         {"more than 9 bytes"}));
  other.join();
}
#endif

}  // namespace
}  // namespace vkattn::detail
