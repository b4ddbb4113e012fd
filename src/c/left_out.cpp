// The functions of operations whose sources options have left out: they refuse, and name the option.
#include "c/handles.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

vkattn_result refuse(vkattn_error* error, const char* option) {
  return c::run(error, [&]() -> Result<void> {
    return vkattn::detail::unsupported("this build left it out: it was configured with ", option, "=OFF");
  });
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)
#define VKATTN_LEFT_OUT(NAME, OPTION)                                                                      \
  vkattn_result vkattn_plan_create_##NAME(vkattn_device*, const vkattn_##NAME##_desc*,                     \
                                          const vkattn_plan_options*, vkattn_plan** plan,                  \
                                          vkattn_error* error) {                                           \
    if (plan != nullptr) *plan = nullptr;                                                                  \
    return refuse(error, OPTION);                                                                          \
  }                                                                                                        \
  vkattn_result vkattn_supports_##NAME(const vkattn_capabilities*, const vkattn_##NAME##_desc*,            \
                                       const vkattn_plan_options*, vkattn_support*, vkattn_error* error) { \
    return refuse(error, OPTION);                                                                          \
  }
#include "common/operations.def"

#ifdef VKATTN_WITHOUT_BACKWARD
vkattn_result vkattn_query_kernels_backward(const vkattn_device*, const vkattn_backward_desc*,
                                            vkattn_kernel_support*, uint32_t*, vkattn_error* error) {
  return refuse(error, VKATTN_WITHOUT_BACKWARD);
}
#endif

vkattn_result vkattn_query_kernels_matmul(const vkattn_device*, const vkattn_matmul_desc*,
                                          vkattn_kernel_support*, uint32_t*, vkattn_error* error) {
  return refuse(error, "VKATTN_MATMUL");
}

vkattn_result vkattn_plan_get_steps(const vkattn_plan*, vkattn_layer_step*, uint32_t*, vkattn_error* error) {
  return refuse(error, "VKATTN_MATMUL");
}

vkattn_result vkattn_query_parameters(const vkattn_multi_head_attention_desc*, vkattn_parameter*, uint32_t*,
                                      vkattn_error* error) {
  return refuse(error, "VKATTN_MATMUL");
}

vkattn_result vkattn_initial_values(const vkattn_parameter*, vkattn_initialisation, uint64_t, float*, size_t,
                                    vkattn_error* error) {
  return refuse(error, "VKATTN_MATMUL");
}
