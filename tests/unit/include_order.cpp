// Includes the public headers before the headers of a program's Vulkan code, which must then compile as
// usual. The file is compiled alone, with no header included before. macros_test.cpp includes them after the
// headers of window systems.
#include <vkattn/vkattn.h>
#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/frame_budget.hpp>
#include <vkattn/initialisation.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/safetensors.hpp>
#include <vkattn/score_function.hpp>
#include <vkattn/self_test.hpp>
#include <vkattn/sequence.hpp>

#include <volk.h>

#if __has_include(<vk_mem_alloc.h>)
#include <vk_mem_alloc.h>
#elif __has_include(<vma/vk_mem_alloc.h>)
#include <vma/vk_mem_alloc.h>
#endif

#if __has_include(<X11/Xlib.h>)
#include <X11/Xlib.h>
#endif

static_assert(sizeof(vkattn::BufferRange::buffer) == sizeof(VkBuffer), "handles are Vulkan's own");
