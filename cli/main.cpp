// The entry point of the vkattn command line tool.
#include "command.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): <csignal> lacks SIGPIPE
#include <unistd.h>
#endif

namespace {

#ifndef _WIN32
/// Of the standard streams those that are closed would give their numbers to the next files that are opened,
/// and what is printed would go into them. The null device takes their place, opened the other way round, so
/// that to print is the error that it is on a closed stream.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // The lowest free number is this one.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// A reader that went and a file beyond the limit are errors of the write, which are told and leave no
/// temporary file.
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
