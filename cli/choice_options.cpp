// --tile and --kv-splits: see choice_options.hpp.
#include "choice_options.hpp"

#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {

void add_choice_options(CLI::App& app, ChoiceArguments& arguments) {
  add_value(app, "--tile", arguments.tile, "SIZES",
            "Use these block sizes or fail: threads=256,columns=16,rows=4 and so on, as vkattn tune prints "
            "them, of a matmul threads=64,rows=4,columns=4,inner=16; needs --kernel");
  add_value(
      app, "--kv-splits", arguments.kv_splits, "N",
      "Cut the keys, of a matmul its inner dimension, into so many parts, default: by the library's rule");
}

bench::TileChoice read_tile(const ChoiceArguments& arguments, const std::string& kernel,
                            bench::Operation operation) {
  if (arguments.tile.empty()) return {};
  if (kernel.empty() || kernel.find(',') != std::string::npos) {
    fail_usage("--tile gives block sizes of one kernel: name it with --kernel");
  }
  const auto tile = bench::parse_tile_choice(arguments.tile, operation);
  if (!tile) fail_usage("--tile: " + console::printable(tile.error().message));
  return *tile;
}

std::uint32_t read_kv_splits(const ChoiceArguments& arguments) {
  if (arguments.kv_splits.empty()) return 0;
  constexpr std::int64_t kMost = 65535;
  const std::int64_t parts = parse_integer("--kv-splits", arguments.kv_splits);
  if (parts < 1 || parts > kMost) {
    fail_usage("--kv-splits " + arguments.kv_splits + " is not from 1 to " + std::to_string(kMost));
  }
  return static_cast<std::uint32_t>(parts);
}

}  // namespace vkattn::cli
