// Attention over two tokens with the runtime layer: no Vulkan code, no window, whichever device is best.
#include <vkattn/runtime.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>

namespace {

// Ends the program where a call failed: the error says what and why.
template <class T>
T checked(vkattn::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

void checked(const vkattn::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

vkattn::Buffer upload(const vkattn::Runtime& runtime, std::span<const float> values) {
  vkattn::Buffer buffer = checked(runtime.create_buffer(values.size_bytes()));
  checked(runtime.write(buffer, 0, std::as_bytes(values)));
  return buffer;
}

}  // namespace

int main() {
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create());

  vkattn::AttentionDesc desc;
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  desc.set_layout(vkattn::Layout::kBhsd);

  const std::array<float, 8> query{1, 0, 1, 0, 0, 1, 0, 1};  // also the keys
  const std::array<float, 4> value{2, 3, 5, 7};
  std::array<float, 4> output{};
  const vkattn::Buffer query_buffer = upload(runtime, query);
  const vkattn::Buffer key_buffer = upload(runtime, query);
  const vkattn::Buffer value_buffer = upload(runtime, value);
  const vkattn::Buffer output_buffer = checked(runtime.create_buffer(sizeof(output)));

  // All shader compilation happens here. A plan is immutable and serves any number of executions.
  const vkattn::AttentionPlan plan = checked(runtime.make_plan(desc));
  std::fputs(plan.describe().c_str(), stdout);

  vkattn::AttentionTensors tensors;
  tensors.query = query_buffer.range();
  tensors.key = key_buffer.range();
  tensors.value = value_buffer.range();
  tensors.output = output_buffer.range();
  // Some plans need memory of their own; this small one does not.
  const vkattn::Buffer workspace = checked(runtime.create_workspace(plan));
  const vkattn::Bindings bindings = checked(plan.make_bindings(tensors, workspace.range()));
  const double nanoseconds = checked(runtime.execute(plan, bindings));

  checked(runtime.read(output_buffer, 0, std::as_writable_bytes(std::span(output))));
  std::printf("%.4f %.4f\n%.4f %.4f\n", static_cast<double>(output[0]), static_cast<double>(output[1]),
              static_cast<double>(output[2]), static_cast<double>(output[3]));
  std::printf("%.3f ms on the device\n", nanoseconds * 1e-6);
}
