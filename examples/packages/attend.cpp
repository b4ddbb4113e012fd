// Attention in C++ on the program's own device. Prints 2.8068 4.0758 4.1932 5.9242. With WITH_RUNTIME it
// computes and prints them once more, on a device that the runtime opens beside it.
#include <vkattn/attention_plan.hpp>
#ifdef WITH_RUNTIME
#include <vkattn/runtime.hpp>
#endif

#include <array>
#include <cstring>

#include "own_vulkan.h"

namespace {

template <class T>
T checked(vkattn::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "vkattn: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

// Two queries and two keys of 4 elements, values of 2.
vkattn::AttentionDesc problem() {
  vkattn::AttentionDesc desc;
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  return desc;
}

// Q, which also serves as K; then V.
constexpr std::array<float, 12> kInputs{1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 5, 7};

void print(const float* output) {
  for (int i = 0; i < 4; ++i) std::printf("%.4f%c", static_cast<double>(output[i]), i < 3 ? ' ' : '\n');
}

void attend(own_vulkan& vulkan) {
  vkattn::DeviceDesc desc;
  desc.instance = vulkan.instance;
  desc.physical_device = vulkan.physical_device;
  desc.device = vulkan.device;
  desc.get_instance_proc_addr = vkGetInstanceProcAddr;
  desc.api_version = VK_API_VERSION_1_1;
  const vkattn::Device device = checked(vkattn::Device::borrow(desc));
  vkattn::PlanOptions options;
  options.kv_splits = 1;  // needs no workspace
  const vkattn::AttentionPlan plan = checked(vkattn::AttentionPlan::create(device, problem(), options));
  vkattn::AttentionTensors tensors;
  tensors.query = tensors.key = {vulkan.buffer, 0, 32};
  tensors.value = {vulkan.buffer, 32, 16};
  tensors.output = {vulkan.buffer, 48, 16};
  std::memcpy(vulkan.mapped, kInputs.data(), sizeof(kInputs));
  const vkattn::Bindings bindings = checked(plan.make_bindings(tensors));
  plan.record(vulkan.commands, bindings);
  submit_and_wait(&vulkan);
  print(vulkan.mapped + 12);
}

#ifdef WITH_RUNTIME
void attend_by_runtime() {
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create());
  std::array<float, 4> output{};
  const std::span rows = std::span(kInputs).first(8);
  const auto computed = runtime.compute(
      problem(), {.query = rows, .key = rows, .value = std::span(kInputs).last(4), .output = output});
  if (!computed) {
    std::fprintf(stderr, "vkattn: %s\n", computed.error().message.c_str());
    std::exit(1);
  }
  print(output.data());
}
#endif

}  // namespace

int main() {
  own_vulkan vulkan;
  open_vulkan(&vulkan, 64);
#ifdef WITH_RUNTIME
  attend_by_runtime();
#endif
  attend(vulkan);
  close_vulkan(&vulkan);
}
