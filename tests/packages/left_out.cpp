// Checks what a build with VKATTN_KERNELS=lane, VKATTN_FEATURES=OFF, VKATTN_MATMUL=OFF and
// VKATTN_QUANTISED=OFF says about problems that need more. It is linked with that build's core and uses a
// made-up device. Its argument is the option that leaves gradients out. It prints the reasons that are wrong.
#include <vkattn/backward.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/matmul.hpp>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

int wrong = 0;

// The kernel's reason must have these words. If there are none, it must take the problem.
template <class Desc>
void expect(const Desc& desc, std::string_view kernel, std::string_view words) {
  vkattn::Capabilities capabilities;
  capabilities.max_stage_storage_buffers = 32;
  for (const vkattn::KernelSupport& support : vkattn::kernel_support(desc, capabilities)) {
    if (support.kernel != kernel) continue;
    const std::string reason(support.reason);
    if (words.empty() ? reason.empty() : reason.find(words) != std::string::npos) return;
    std::printf("%s: '%s', which does not say '%s'\n", std::string(kernel).c_str(), reason.c_str(),
                std::string(words).c_str());
  }
  ++wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  vkattn::AttentionDesc desc;
  desc.query_length = desc.kv_length = desc.head_dim = 64;
  expect(desc, "lane", "");
  expect(desc, "tile", "it was configured without tile in VKATTN_KERNELS");
  desc.softcap = 30;
  expect(desc, "lane", "it was configured with VKATTN_FEATURES=OFF");
  desc.softcap = 0;
  vkattn::BackwardDesc backward;
  backward.attention = desc;
  backward.attention.has_lse = true;
  expect(backward, "lane", std::string("it was configured with ") + argv[1]);
  vkattn::MatmulDesc matmul;
  matmul.rows = matmul.columns = matmul.inner = 64;
  expect(matmul, "lane", "it was configured with VKATTN_MATMUL=OFF");
  desc.key.type = vkattn::DataType::kQ8_0;
  expect(desc, "lane", "this build left q8_0 out: it was configured with VKATTN_QUANTISED=OFF");
  return wrong;
}
