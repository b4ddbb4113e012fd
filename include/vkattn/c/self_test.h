/** @file
   Whether matrix units compute what their driver claims. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_SELF_TEST_H
#define VKATTN_C_SELF_TEST_H

#include <vkattn/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 1 where the plan of attention, gradients or a product, or any step of a layer or of its gradients, runs on matrix units,
    else 0. Drivers have claimed matrix shapes that gave wrong results. Before a plan that needs it is trusted, a small
    problem of its kind can be run on the same kernel and compared with a float64 reference: vkattn/self_test.hpp. If the
    result is wrong, make the plan again with its kernel refused. The outcome holds for vkattn_plan_get_configuration
    on this device with this driver. Of a layer test each step that needs it (vkattn_plan_get_steps), and refuse a kernel
    that was wrong for what the step computes: vkattn_plan_options::refusals, matmul_refusals or backward_refusals. */
VKATTN_API uint32_t vkattn_plan_needs_self_test(const vkattn_plan* plan);

/** A small problem on the kernel of a plan. */
typedef struct vkattn_self_test vkattn_self_test;
/** Makes the self-test of a plan of attention, gradients or a product, which may be a step of a layer, and compiles what it
    runs. `device` is the plan's: plans of another are refused. `cache` may be null. */
VKATTN_API vkattn_result vkattn_self_test_create(vkattn_device* device, const vkattn_plan* plan, VkPipelineCache cache,
                                                 vkattn_self_test** test, vkattn_error* error);
/** Bytes of the one buffer that the test needs: host-visible and coherent, for storage. */
VKATTN_API VkDeviceSize vkattn_self_test_buffer_bytes(const vkattn_self_test* test);
/** Writes the test's inputs to the buffer's memory. */
VKATTN_API vkattn_result vkattn_self_test_fill(const vkattn_self_test* test, void* memory, size_t bytes,
                                               vkattn_error* error);
/** Records the test with a barrier before the host's reads. Once for each test; `offset` is a multiple of
    minStorageBufferOffsetAlignment and of 16. */
VKATTN_API vkattn_result vkattn_self_test_record(vkattn_self_test* test, VkCommandBuffer commands, VkBuffer buffer,
                                                 VkDeviceSize offset, vkattn_error* error);
/** Looks at the buffer's memory when all is done. `difference` gets what is wrong, in words; an empty text: the results
    are right. */
VKATTN_API vkattn_result vkattn_self_test_check(const vkattn_self_test* test, const void* memory, size_t bytes,
                                                char* difference, size_t capacity, vkattn_error* error);
/** Destroys a self-test. It must be idle. Null is nothing. */
VKATTN_API vkattn_result vkattn_self_test_destroy(vkattn_self_test* test);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_SELF_TEST_H */
