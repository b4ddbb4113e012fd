/** @file
   Compiled pipelines that a program keeps between runs. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_PIPELINE_CACHE_H
#define VKATTN_C_PIPELINE_CACHE_H

#include <vkattn/c/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Compiled pipelines that a program keeps between runs. */
typedef struct vkattn_pipeline_cache vkattn_pipeline_cache;
/** Makes a cache for pipelines of the device, from bytes that vkattn_pipeline_cache_save gave, or none. Bytes of
    another device or driver, and torn ones, are passed over; then, if `ignored` is not null, it gets why (else an empty
    text), with at most `ignored_capacity` bytes. */
VKATTN_API vkattn_result vkattn_pipeline_cache_create(vkattn_device* device, const void* blob, size_t blob_bytes,
                                                      char* ignored, size_t ignored_capacity,
                                                      vkattn_pipeline_cache** cache, vkattn_error* error);
/** Vulkan's handle, for vkattn_plan_options.pipeline_cache; null for null. */
VKATTN_API VkPipelineCache vkattn_pipeline_cache_handle(const vkattn_pipeline_cache* cache);
/** Writes the bytes to keep if *bytes is enough for them, and sets *bytes to the number that they take; `blob` may be null, for
    that number alone. Too few are VKATTN_ERROR_INVALID_ARGUMENT, with *bytes set: threads that compile meanwhile may have
    added to them, so ask again. */
VKATTN_API vkattn_result vkattn_pipeline_cache_save(const vkattn_pipeline_cache* cache, void* blob, size_t* bytes,
                                                    vkattn_error* error);
/** Destroys a cache. No plan that is yet to be compiled may need it. Null is ignored; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_pipeline_cache_destroy(vkattn_pipeline_cache* cache);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_PIPELINE_CACHE_H */
