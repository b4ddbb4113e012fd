// A program in C++17 with the static core: a plan without a device is refused.
#include <vkattn/vkattn.h>

#include <cstdio>

static_assert(__cplusplus == 201703L, "vkattn::c has changed the program's language");

int main() {
  vkattn_plan* plan = nullptr;
  vkattn_error error;
  vkattn_error_init(&error);
  const vkattn_result result = vkattn_plan_create_attention(nullptr, nullptr, nullptr, &plan, &error);
  std::printf("%s\n", error.message);
  return result == VKATTN_ERROR_INVALID_ARGUMENT && plan == nullptr ? 0 : 1;
}
