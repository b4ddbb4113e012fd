// Checks that functions of C whose sources a build with VKATTN_MATMUL=OFF has left out refuse, and name the
// option. The argument is the option that leaves gradients out. It prints the sentences that are wrong.
#include <vkattn/vkattn.h>

#include <cstdio>
#include <string>

namespace {

int wrong = 0;

void expect(vkattn_result result, const vkattn_error& error, const std::string& option) {
  if (result == VKATTN_ERROR_UNSUPPORTED && std::string(error.message).find(option) != std::string::npos)
    return;
  std::printf("%d: '%s', which does not say '%s'\n", static_cast<int>(result), error.message, option.c_str());
  ++wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  vkattn_error error;
  vkattn_error_init(&error);
  vkattn_plan* plan = nullptr;
  vkattn_matmul_desc matmul;
  vkattn_matmul_desc_init(&matmul);
  expect(vkattn_plan_create_matmul(nullptr, &matmul, nullptr, &plan, &error), error, "VKATTN_MATMUL=OFF");
  expect(vkattn_plan_create_multi_head_attention(nullptr, nullptr, nullptr, &plan, &error), error,
         "VKATTN_MATMUL=OFF");
  expect(vkattn_plan_create_backward(nullptr, nullptr, nullptr, &plan, &error), error, argv[1]);
  uint32_t count = 0;
  expect(vkattn_query_kernels_matmul(nullptr, &matmul, nullptr, &count, &error), error, "VKATTN_MATMUL=OFF");
  // What is left refuses for another reason.
  if (vkattn_plan_create_attention(nullptr, nullptr, nullptr, &plan, &error) != VKATTN_ERROR_INVALID_ARGUMENT)
    ++wrong;
  return wrong;
}
