// The shortest complete program: attention on arrays in memory, on the best device of this machine.
#include <vkattn/runtime.hpp>

#include <array>
#include <cstdio>

int main() {
  const auto runtime = vkattn::Runtime::create();
  if (!runtime) {
    std::fprintf(stderr, "finding a device failed: %s\n", runtime.error().message.c_str());
    return 1;
  }
  const std::array<float, 8> query{1, 0, 1, 0, 0, 1, 0, 1};  // also the keys
  const std::array<float, 4> value{2, 3, 5, 7};
  std::array<float, 4> output{};

  const vkattn::AttentionDesc desc{.query_length = 2, .kv_length = 2, .head_dim = 4, .value_dim = 2};
  const vkattn::Result<void> status =
      runtime->compute(desc, {.query = query, .key = query, .value = value, .output = output});
  if (!status) {
    std::fprintf(stderr, "attention failed: %s\n", status.error().message.c_str());
    return 1;
  }
  std::printf("%.4f %.4f\n%.4f %.4f\n", static_cast<double>(output[0]), static_cast<double>(output[1]),
              static_cast<double>(output[2]), static_cast<double>(output[3]));
}
