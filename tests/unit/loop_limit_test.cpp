// Refusals on a driver that ends loops early (Capabilities::max_loop_iterations): products, gradients and
// appends. The tests of selection have those of attention.
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "backward/backward_kernel.hpp"
#include "backward/backward_program.hpp"
#include "cache/append_tasks.hpp"
#include "matmul/matmul_program.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::tests {
namespace {

Capabilities unlimited_cpu() {
  return changed(made_up_gpu(), [](Capabilities& c) {
    c.device_type = DeviceType::kCpu;
    c.compute_units = 2;
    c.max_stage_storage_buffers = 32;
  });
}

/// The device of unlimited_cpu() with the limit.
Capabilities limited_cpu() {
  return changed(unlimited_cpu(), [](Capabilities& c) {
    c.driver_name = "llvmpipe";
    c.max_loop_iterations = 65535;
  });
}

/// Checks that a problem is accepted without the limit, and refused with it.
template <class WordsOn>
void expect_limited(const WordsOn& words_on, std::string_view problem) {
  EXPECT_EQ(words_on(unlimited_cpu()), "") << problem;
  EXPECT_TRUE(has(words_on(limited_cpu()), "needs Mesa 25")) << problem;
}

std::string message_of_product(const Capabilities& device, std::int64_t inner, std::string_view kernel) {
  PlanOptions options;
  options.kernel = kernel;
  const MatmulDesc resolved = product_of(8, 8, inner).resolved();
  const auto chosen = must(detail::select_matmul_kernel(resolved, device, options));
  const auto split = must(detail::choose_inner_split(chosen.config, device, 1));
  return message_of(detail::matmul_program(resolved, chosen.config, split, options, device));
}

TEST(LoopLimit, OfProducts) {
  for (const char* kernel : {"lane", "tile"}) {
    const auto of = [&](std::int64_t inner) {
      return [=](const Capabilities& device) { return message_of_product(device, inner, kernel); };
    };
    EXPECT_EQ(of(200'000)(limited_cpu()), "") << kernel;
    expect_limited(of(4'000'000), kernel);
  }
}

std::string message_of_gradients(const Capabilities& device, const BackwardDesc& given) {
  const BackwardDesc desc = given.resolved();
  const auto chosen = must(detail::select_backward_kernel(desc, device, {.kernel = "lane"}));
  const auto layout = must(detail::lay_out_backward(desc, device, chosen.config, {}));
  return message_of(detail::backward_program(desc, device, chosen.config, layout, {}));
}

TEST(LoopLimit, OfGradients) {
  const auto words_for = [](const BackwardDesc& desc) {
    return [=](const Capabilities& device) { return message_of_gradients(device, desc); };
  };
  // An element of the mask's gradient is a sum over all heads and queries.
  BackwardDesc few = backward_of("h4 1024x64 d8 mask=f32:k");
  few.has_grad_mask = true;
  EXPECT_EQ(words_for(few)(limited_cpu()), "");
  BackwardDesc many = backward_of("h64 1024x64 d8 mask=f32:k");
  many.has_grad_mask = true;
  expect_limited(words_for(many), "mask");
  // The gradients of sinks are sums over all batch entries.
  BackwardDesc sinks = backward_of("b40000 1x4 d8 sinks");
  sinks.has_grad_sinks = true;
  expect_limited(words_for(sinks), "sinks");
  sinks.attention.batch = 4000;
  EXPECT_EQ(words_for(sinks)(limited_cpu()), "");
}

TEST(LoopLimit, OfAppends) {
  AppendDesc desc{.batch = 70'000, .kv_heads = 1, .new_length = 1, .head_dim = 4, .cache_length = 2};
  desc.new_lengths = Lengths::kPacked;
  desc.total_new_length = 70'000;
  const auto words = [&](const Capabilities& device) {
    return message_of(detail::append_program(desc.resolved(), device));
  };
  expect_limited(words, "entries");
  desc.batch = 1000;
  EXPECT_EQ(words(limited_cpu()), "");
}

}  // namespace
}  // namespace vkattn::tests
