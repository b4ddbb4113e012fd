// The public headers in a program that has included the headers of X11 and Windows before. No name of ours
// may be one of their macros.
#include <gtest/gtest.h>

// The standard headers that ours include. The macros must not break these, so they come first.
#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// A header that includes Vulkan's headers before ours, if it is installed.
#if __has_include(<vk_mem_alloc.h>)
#include <vk_mem_alloc.h>
#elif __has_include(<vma/vk_mem_alloc.h>)
#include <vma/vk_mem_alloc.h>
#endif

// X11's headers if they are installed, and those of its names that have caused trouble, for machines without
// it.
#if __has_include(<X11/Xlib.h>) && __has_include(<X11/Xutil.h>)
#include <X11/Xlib.h>
#include <X11/Xutil.h>
#endif
#define Status int
#define TileShape 1
#define None 0L
#define Bool int
#define True 1
#define False 0
#define Always 2
#define Success 0
#define Above 0
#define Below 1
#define Unsorted 0
#define Complex 0
#define Convex 2
#define ERROR 0
#define IN
#define OUT
#define OPTIONAL
#define far
#define near
#define small char
#define interface struct
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

#include <vkattn/vkattn.h>
#include <vkattn/attention.hpp>
#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/bindings.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/cache_layout.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/data_type.hpp>
#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/frame_budget.hpp>
#include <vkattn/host_tensors.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/mask.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/result.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/safetensors.hpp>
#include <vkattn/score_function.hpp>
#include <vkattn/score_shaders.hpp>
#include <vkattn/self_test.hpp>
#include <vkattn/sequence.hpp>
#include <vkattn/statistics.hpp>
#include <vkattn/strides.hpp>
#include <vkattn/tuning.hpp>

#undef min
#undef max

TEST(PublicHeaders, GoWithMacrosOfWindowSystems) {
  vkattn::AttentionDesc desc;
  EXPECT_FALSE(vkattn::validate(desc).ok());
}
