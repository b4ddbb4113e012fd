// --tile, --kv-splits and --arithmetic: see choice_options.hpp.
#include "choice_options.hpp"

#include "console.hpp"
#include "error.hpp"
#include "word_options.hpp"

namespace vkattn::cli {

void add_choice_options(CLI::App& app, ChoiceArguments& arguments) {
  add_value(app, "--tile", arguments.tile, "SIZES",
            "Use these block sizes or fail: threads=256,columns=16,rows=4 and so on, as vkattn tune prints "
            "them, of a matmul threads=64,rows=4,columns=4,inner=16; needs --kernel");
  add_value(
      app, "--kv-splits", arguments.kv_splits, "N",
      "Cut the keys, of a matmul its inner dimension, into so many parts, default: by the library's rule");
  add_arithmetic_option(app, arguments.arithmetic);
}

void add_arithmetic_option(CLI::App& app, std::string& arithmetic) {
  add_value(app, "--arithmetic", arithmetic, "TYPE",
            "Multiply and add in f32, the default, or f16 with its own tolerance: of float16 tensors, by the "
            "kernel tile");
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

DataType read_arithmetic(const std::string& arithmetic) {
  DataType type = DataType::kFloat32;
  if (arithmetic.empty()) return type;
  read_option("--arithmetic", arithmetic, [&](const bench::Given& given) {
    return bench::read_name(given, bench::kArithmeticNames, type);
  });
  return type;
}

}  // namespace vkattn::cli
