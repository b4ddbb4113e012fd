// The entry point of the vkattn command line tool.
#include "command.hpp"

int main(int argc, char** argv) {
  return vkattn::cli::run_tool(argc, argv);
}
