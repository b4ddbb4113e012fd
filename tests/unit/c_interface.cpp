// Uses the C interface from C++17, with no other header before it.
#include <vkattn/vkattn.h>

#if defined(__cplusplus) && __cplusplus >= 202002L
#error "this is to be compiled as C++17"
#endif

uint32_t vkattn_test_cpp17();

uint32_t vkattn_test_cpp17() {
  vkattn_attention_desc desc;
  vkattn_attention_desc_init(&desc);
  return desc.struct_size;
}
