// The entry point of the vkattn command line tool.
#include "command.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks SIGPIPE
#include <unistd.h>
#endif

namespace {

#ifndef _WIN32
/// If a standard stream is closed, the next opened file would get its number, and printed text would go into
/// that file. So this opens the null device in its place, in the wrong direction. Printing is then an error,
/// as it is on a closed stream.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // `stream` is the lowest free number, so open() returns it.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// A reader that has ended and a file beyond the size limit become errors of the write. They are reported,
/// and the temporary file is removed.
void take_write_signals_as_errors() {
  for (const int number : {SIGPIPE, SIGXFSZ}) (void)::signal(number, SIG_IGN);
}
#endif

}  // namespace

int main(int argc, char** argv) {
#ifndef _WIN32
  occupy_closed_streams();
  take_write_signals_as_errors();
#endif
  return vkattn::cli::run_tool(argc, argv);
}
