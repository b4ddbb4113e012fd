// The host half of the matrix kernel from made-up capabilities: each feature asked for by itself, the shape,
// the subgroup size, the tile, and the forms that vendors get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "kernels/specialization.hpp"
#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kMatrix{"matrix", configure_matrix};

MatrixShape shape(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  return {m, n, k, "f16", "f16", "f32", "f32", "subgroup"};
}

/// A GPU with 16x16x16 matrices in subgroups of 32.
Capabilities gpu() {
  Capabilities c = made_up_gpu();
  c.max_stage_storage_buffers = 32;
  c.subgroup_shuffle = c.subgroup_vote = true;
  c.shader_float16 = c.vulkan_memory_model = c.cooperative_matrix = true;
  c.matrix_shapes = {shape(16, 16, 16)};
  return c;
}

Capabilities with_shape(const MatrixShape& matrix, Capabilities c = gpu()) {
  c.matrix_shapes = {matrix};
  return c;
}

/// One whose pipelines may ask for any size of subgroups in the range.
Capabilities gpu_of(std::uint32_t vendor_id, std::uint32_t least, std::uint32_t most) {
  Capabilities c = gpu();
  c.vendor_id = vendor_id;
  set_subgroup_sizes(c, least, most);
  c.subgroup_size_control = c.required_subgroup_size = c.compute_full_subgroups = true;
  return c;
}

/// M, N and K as text.
std::string shape_of(const KernelConfig& config) {
  return message(constant(config, VKATTN_SPEC_MATRIX_M), "x", constant(config, VKATTN_SPEC_MATRIX_N), "x",
                 constant(config, VKATTN_SPEC_MATRIX_K));
}

/// The bytes of shared memory that attention_matrix.comp declares with these constants.
std::uint32_t declared_bytes(const KernelConfig& config, const AttentionDesc& desc) {
  const auto head_dim = static_cast<std::uint32_t>(desc.head_dim);
  const std::uint32_t k = constant(config, VKATTN_SPEC_MATRIX_K);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const std::uint32_t subgroups = config.workgroup_size / constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE);
  const std::uint32_t rows =
      subgroups * constant(config, VKATTN_SPEC_MATRIX_ROW_BLOCKS) * constant(config, VKATTN_SPEC_MATRIX_M);
  const std::uint32_t key_stride8 = (head_dim + k - 1) / k * k / 8 + 1;
  const bool transposed = constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1;
  const std::uint32_t key_stage = keys * key_stride8;
  const std::uint32_t value_stage = transposed ? dims * (keys / 8 + 1) : keys * (dims / 8 + 1);
  const std::uint32_t query_stage =
      constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 1 ? 1 : rows * key_stride8;
  const std::uint32_t score_stage = rows * (keys / 4 + 1);
  const bool keys_scaled = block_elements(desc.key.type) > 1,
             values_scaled = block_elements(desc.value.type) > 1;
  const std::uint32_t scales =
      (keys_scaled ? keys * ((head_dim + 31) / 32) : 4) + (values_scaled ? keys * (dims / 32) : 4);
  const std::uint32_t products = values_scaled ? rows * (keys / 8 + 1) : 1;
  return (key_stage + value_stage + query_stage + score_stage) * 16 + rows * 4 +
         (has_features(desc) ? scales * 4 + products * 16 : 0);
}

TEST(Matrix, NamesEachMissingFeature) {
  EXPECT_EQ(kMatrix.reason("64x64 d64 f16", gpu()), "");
  const std::pair<const char*, bool Capabilities::*> features[] = {
      {"VK_KHR_cooperative_matrix", &Capabilities::cooperative_matrix},
      {"vulkanMemoryModel", &Capabilities::vulkan_memory_model},
      {"shaderFloat16", &Capabilities::shader_float16},
      {"storageBuffer16BitAccess", &Capabilities::storage_buffer_16bit},
      {"subgroup shuffles", &Capabilities::subgroup_shuffle},
      {"subgroup votes", &Capabilities::subgroup_vote}};
  for (const auto& [name, feature] : features) {
    Capabilities capabilities = gpu();
    capabilities.*feature = false;
    EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", capabilities), name));
  }
  Capabilities capabilities = gpu();
  capabilities.max_subgroup_size = 64;
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", capabilities), "subgroupSizeControl"));
  capabilities = gpu();
  capabilities.matrix_shapes.clear();
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", capabilities), "no matrix shape of f16 x f16 to f32"));
}

TEST(Matrix, NamesTheTypesItCannotTake) {
  Capabilities capabilities = gpu();
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64", capabilities), "float16"));
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 query=f16 key=bf16", capabilities), "bf16"));
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 bf16", capabilities), "shaderBFloat16CooperativeMatrix"));
  capabilities.bfloat16_matrix = true;
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 bf16", capabilities), "no matrix shape of bf16 x bf16"));
  capabilities.matrix_shapes.push_back({16, 16, 16, "bf16", "bf16", "f32", "f32", "subgroup"});
  const KernelConfig config = kMatrix.configured("64x64 d64 bf16", capabilities);
  EXPECT_EQ(config.shader, "attention_matrix_bfloat16");
  EXPECT_EQ(config.probability_type, DataType::kBfloat16);
}

TEST(Matrix, TakesTheSquareShapeElseTheLargest) {
  const auto chosen = [](const std::vector<MatrixShape>& shapes) {
    Capabilities capabilities = gpu();
    capabilities.matrix_shapes = shapes;
    return shape_of(kMatrix.configured("512x512 d64 f16", capabilities));
  };
  EXPECT_EQ(chosen({shape(8, 8, 8)}), "8x8x8");
  EXPECT_EQ(chosen({shape(8, 8, 8), shape(16, 8, 16)}), "16x8x16");
  EXPECT_EQ(chosen({shape(16, 8, 8), shape(16, 8, 16)}), "16x8x16");
  EXPECT_EQ(chosen({shape(8, 8, 8), shape(8, 16, 16)}), "8x16x16") << "as on Intel's GPUs";
  EXPECT_EQ(chosen({shape(16, 8, 16), shape(8, 16, 16)}), "16x8x16") << "the first of two as large";
  EXPECT_EQ(chosen({shape(16, 8, 16), shape(16, 16, 16), shape(8, 8, 8)}), "16x16x16");
  EXPECT_EQ(chosen({shape(32, 32, 32), shape(16, 16, 16)}), "16x16x16");
}

TEST(Matrix, PassesOverShapesThatItCannotUse) {
  const MatrixShape others[] = {{16, 16, 16, "f16", "f16", "f16", "f16", "subgroup"},
                                {16, 16, 16, "f16", "f16", "f32", "f32", "workgroup"},
                                {16, 16, 16, "s8", "s8", "s32", "s32", "subgroup"},
                                {16, 16, 16, "bf16", "bf16", "f32", "f32", "subgroup"},
                                {16, 16, 16, "f16", "f16", "f32", "f16", "subgroup"},
                                shape(4, 16, 16),
                                shape(16, 64, 16),
                                shape(16, 16, 24)};
  for (const MatrixShape& other : others) {
    Capabilities capabilities = gpu();
    capabilities.matrix_shapes = {other};
    EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", capabilities), "no matrix shape"));
    capabilities.matrix_shapes = {other, shape(8, 8, 8), other};
    EXPECT_EQ(shape_of(kMatrix.configured("64x64 d64 f16", capabilities)), "8x8x8");
  }
}

/// A tile's keys must give each lane that shares a row whole vectors of 8.
TEST(Matrix, ShapesAndSubgroupsThatHaveATile) {
  const std::tuple<MatrixShape, std::uint32_t, bool> cases[] = {
      {shape(16, 16, 16), 8, true}, {shape(16, 16, 16), 16, true}, {shape(16, 16, 16), 32, true},
      {shape(16, 8, 16), 8, true},  {shape(16, 8, 16), 32, true},  {shape(8, 16, 16), 16, true},
      {shape(8, 8, 8), 8, true},    {shape(8, 8, 8), 32, true},    {shape(16, 16, 16), 64, true},
      {shape(16, 8, 16), 64, true}, {shape(8, 16, 16), 64, false}, {shape(8, 8, 8), 64, false},
      {shape(8, 16, 16), 32, true}, {shape(32, 32, 32), 32, true}};
  for (const auto& [matrix, lanes, possible] : cases) {
    const Capabilities capabilities = with_shape(matrix, with_lanes(gpu(), lanes));
    if (!possible) {
      const std::string text = kMatrix.reason("512x512 d64 f16", capabilities);
      EXPECT_TRUE(has(text, "no tile for matrices of 8x")) << matrix.m << 'x' << matrix.n;
      EXPECT_TRUE(has(text, "in subgroups of 64")) << matrix.m << 'x' << matrix.n;
      continue;
    }
    const KernelConfig config = kMatrix.configured("512x512 d64 f16", capabilities);
    EXPECT_EQ(config.workgroup_size, 4 * lanes) << matrix.m << 'x' << matrix.n;
    EXPECT_EQ(config.rows_per_workgroup, 4 * matrix.m) << "in subgroups of " << lanes;
    EXPECT_EQ(config.tile.keys, 32U) << "in subgroups of " << lanes;
    EXPECT_EQ(config.required_subgroup_size, 0U) << "there is but one";
  }
}

TEST(Matrix, SubgroupSizesAreThoseOfTheVendors) {
  const auto asked_for = [](const Capabilities& capabilities) {
    const KernelConfig config = kMatrix.configured("512x512 d64 f16", capabilities);
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE), config.required_subgroup_size);
    return config.required_subgroup_size;
  };
  EXPECT_EQ(asked_for(gpu_of(kVendorAmd, 32, 64)), 32U);
  EXPECT_EQ(asked_for(gpu_of(kVendorAmd, 64, 64)), 64U);
  EXPECT_EQ(asked_for(gpu_of(kVendorNvidia, 32, 32)), 32U);
  EXPECT_EQ(asked_for(gpu_of(0, 8, 16)), 16U);
  const Capabilities intel = gpu_of(kVendorIntel, 8, 32);
  EXPECT_EQ(asked_for(with_shape(shape(8, 16, 16), intel)), 16U) << "as many lanes as columns";
  EXPECT_EQ(asked_for(with_shape(shape(8, 8, 16), intel)), 8U) << "as many lanes as columns";
}

TEST(Matrix, FormsAreThoseOfTheVendors) {
  const auto form = [](const char* problem, const Capabilities& capabilities) {
    const KernelConfig config = kMatrix.configured(problem, capabilities);
    const bool prefetch = constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
    EXPECT_EQ(prefetch, config.summary.find("next tile prefetched") != std::string::npos) << config.summary;
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SKIP_TILES), capabilities.is_cpu() ? 0U : 1U);
    return std::pair(prefetch, constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1);
  };
  for (const char* problem : {"512x512 d64 f16", "512x512 d128 f16"}) {
    EXPECT_EQ(form(problem, gpu_of(kVendorNvidia, 32, 32)), std::pair(true, false)) << problem;
    EXPECT_EQ(form(problem, gpu_of(kVendorAmd, 32, 64)), std::pair(false, true)) << problem;
    EXPECT_EQ(form(problem, gpu_of(kVendorIntel, 16, 32)), std::pair(false, false)) << problem;
  }
  EXPECT_EQ(form("512x512 d256 f16", gpu_of(kVendorNvidia, 32, 32)), std::pair(false, false))
      << "no registers are left";
  Capabilities cpu = with_lanes(gpu(), 8);
  cpu.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  cpu.matrix_shapes = {shape(8, 8, 8)};
  EXPECT_EQ(form("512x512 d32 f16", cpu), std::pair(false, false));
  EXPECT_EQ(kMatrix.configured("512x512 d32 f16", cpu).shader, "attention_matrix_loops");
  EXPECT_EQ(kMatrix.configured("512x512 d32 f16", gpu()).shader, "attention_matrix");
  cpu.vendor_id = kVendorNvidia;
  EXPECT_EQ(form("512x512 d32 f16", cpu), std::pair(true, false)) << "what the tests on a CPU run";
}

TEST(Matrix, QuantisedKeysAndValues) {
  const Capabilities nvidia = gpu_of(kVendorNvidia, 32, 32);
  const auto prefetches = [&](const char* problem) {
    const KernelConfig config = kMatrix.configured(problem, nvidia);
    EXPECT_EQ(config.shader, "attention_matrix_features") << problem;
    EXPECT_EQ(config.probability_type, DataType::kFloat16) << problem;
    return constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
  };
  EXPECT_TRUE(prefetches("512x512 d64 f16 softcap=3"));
  for (const char* problem :
       {"512x512 d64 f16 cache=q8_0", "512x512 d64 f16 key=q4_0", "512x512 d64 f16 value=e4m3"}) {
    EXPECT_FALSE(prefetches(problem)) << "decoded on the way: " << problem;
  }
  EXPECT_TRUE(has(kMatrix.reason("512x512 d64 f16 key=f32 value=q8_0", nvidia),
                  "may be quantised; here they are f16, f32"));
  EXPECT_TRUE(has(kMatrix.reason("512x512 d64 cache=q8_0", nvidia), "here they are f32, q8_0 and q8_0"));
  const auto slice = [&](const char* problem, const MatrixShape& matrix) {
    return constant(kMatrix.configured(problem, with_shape(matrix)), VKATTN_SPEC_MATRIX_SLICE_DIMS);
  };
  EXPECT_EQ(slice("512x512 d64 dv288 f16", shape(16, 8, 16)), 144U);
  EXPECT_EQ(slice("512x512 d64 dv288 f16 cache=q8_0", shape(16, 8, 16)), 160U)
      << "a scale's dims lie in one slice";
  EXPECT_EQ(slice("512x512 d64 dv288 f16 cache=e4m3", shape(16, 8, 16)), 144U) << "one scale for all dims";
}

TEST(Matrix, FewRowsTakeFewSubgroups) {
  const auto subgroups = [](const char* problem) {
    return kMatrix.configured(problem, gpu()).tile.subgroups;
  };
  EXPECT_EQ(subgroups("h8 512x512 d64 f16"), 4U);
  EXPECT_EQ(subgroups("h8 33x512 d64 f16"), 4U);
  EXPECT_EQ(subgroups("h8 32x512 d64 f16"), 2U) << "half of 64 rows";
  EXPECT_EQ(subgroups("h8 16x512 d64 f16"), 1U) << "half of 32 rows";
  EXPECT_EQ(subgroups("hq8 hkv2 8x512 d64 f16"), 2U) << "4 heads share a KV head: 32 rows";
  EXPECT_EQ(subgroups("h8 1x512 d64 f16"), 1U);
}

TEST(Matrix, LimitsOfWorkgroups) {
  const auto subgroups = [](const std::function<void(Capabilities&)>& change) {
    Capabilities capabilities = gpu();
    change(capabilities);
    return kMatrix.configured("512x512 d64 f16", capabilities).tile.subgroups;
  };
  EXPECT_EQ(subgroups([](Capabilities& c) { c.max_workgroup_invocations = 128; }), 4U);
  EXPECT_EQ(subgroups([](Capabilities& c) { c.max_workgroup_invocations = 127; }), 2U);
  EXPECT_EQ(subgroups([](Capabilities& c) { c.max_workgroup_size[0] = 64; }), 2U);
  EXPECT_EQ(subgroups([](Capabilities& c) { c.max_workgroup_subgroups = 3; }), 2U);
  EXPECT_EQ(subgroups([](Capabilities& c) { c.max_workgroup_subgroups = 1; }), 1U);
  Capabilities none = gpu();
  none.max_workgroup_invocations = 16;
  EXPECT_TRUE(has(kMatrix.reason("512x512 d64 f16", none, ErrorCode::kLimitExceeded),
                  "maxComputeWorkGroupInvocations 16"));
}

/// Subgroups and keys of the tile; none of both where shared memory is short for any.
TEST(Matrix, TheFirstTileThatFitsTheSharedMemory) {
  const std::tuple<const char*, std::uint32_t, std::uint32_t, std::uint32_t> cases[] = {
      {"512x512 d64 f16", 16384, 2, 32},        {"512x512 d64 f16", 32768, 4, 32},
      {"512x512 d64 f16", 49152, 4, 32},        {"512x512 d128 f16", 16384, 4, 16},
      {"512x512 d128 f16", 32768, 4, 32},       {"512x512 d256 f16", 32768, 1, 16},
      {"512x512 d256 f16", 49152, 1, 32},       {"512x512 d256 f16", 16384, 0, 0},
      {"512x512 d576 dv512 f16", 49152, 1, 16}, {"512x512 d576 dv512 f16", 32768, 0, 0}};
  for (const auto& [problem, bytes, subgroups, keys] : cases) {
    Capabilities capabilities = gpu();
    capabilities.max_shared_memory_bytes = bytes;
    if (subgroups == 0) {
      const std::string text = kMatrix.reason(problem, capabilities, ErrorCode::kLimitExceeded);
      EXPECT_TRUE(has(text, bytes == 16384 ? "smallest tile needs 26688" : "smallest tile needs 47168"));
      EXPECT_TRUE(has(text, "maxComputeSharedMemorySize is ")) << problem;
      continue;
    }
    const KernelConfig config = kMatrix.configured(problem, capabilities);
    EXPECT_EQ(config.tile.subgroups, subgroups) << problem << ' ' << bytes;
    EXPECT_EQ(config.tile.keys, keys) << problem << ' ' << bytes;
  }
}

TEST(Matrix, WideValuesTakeSlices) {
  const auto slices = [](const char* problem, std::uint32_t dims) {
    const KernelConfig config = kMatrix.configured(problem, gpu());
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS), dims) << problem;
    return config.summary;
  };
  EXPECT_FALSE(has(slices("512x512 d192 dv256 f16", 256), "slices"));
  EXPECT_TRUE(has(slices("512x512 d192 dv272 f16", 144), "values in 2 slices"));
  EXPECT_TRUE(has(slices("512x512 d192 dv260 f16", 144), "values in 2 slices"));
  EXPECT_TRUE(has(slices("512x512 d192 dv576 f16", 192), "values in 3 slices"));
}

/// What holds of any configuration, by the shader's constants.
void expect_consistent(const KernelConfig& config, const AttentionDesc& desc,
                       const Capabilities& capabilities) {
  const std::uint32_t m = constant(config, VKATTN_SPEC_MATRIX_M);
  const std::uint32_t n = constant(config, VKATTN_SPEC_MATRIX_N);
  const std::uint32_t lanes = constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE);
  const std::uint32_t rows = m * constant(config, VKATTN_SPEC_MATRIX_ROW_BLOCKS);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const SpecializationValues all = specialization(desc, config, {});
  const bool has_size =
      std::find(all.begin(), all.end(),
                SpecializationValue{VKATTN_SPEC_WORKGROUP_SIZE, config.workgroup_size}) != all.end();
  EXPECT_TRUE(has_size);
  EXPECT_EQ(config.workgroup_size, config.tile.subgroups * lanes);
  EXPECT_EQ(config.rows_per_workgroup, config.tile.subgroups * rows);
  EXPECT_EQ(keys % n, 0U);
  EXPECT_EQ(keys % constant(config, VKATTN_SPEC_MATRIX_K), 0U);
  EXPECT_EQ(keys % (8 * std::max(1U, lanes / rows)), 0U) << "whole vectors of a row for each lane";
  EXPECT_EQ(dims % n, 0U);
  EXPECT_LE(dims, std::max(n, 128 * lanes / rows)) << "sums of a lane";
  EXPECT_EQ(config.shared_bytes, declared_bytes(config, desc));
  EXPECT_LE(config.shared_bytes, capabilities.max_shared_memory_bytes);
  const bool prefetch = constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
  EXPECT_FALSE(prefetch && capabilities.vendor_id != kVendorNvidia);
  EXPECT_FALSE(prefetch && constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 0);
  const bool transposed = constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1;
  EXPECT_EQ(transposed, capabilities.vendor_id == kVendorAmd);
}

/// Every shape on subgroups of every size, by vendor and shared memory: a configuration that holds together,
/// or a refusal that says why.
TEST(Matrix, IsConsistentOrRefusesByName) {
  std::size_t configurations = 0, refusals = 0;
  const auto check = [&](const Capabilities& capabilities) {
    for (const char* problem :
         {"512x512 d64 f16", "512x512 d17 dv5 f16", "512x512 d128 f16", "1x512 d64 f16", "512x512 d256 f16",
          "512x512 d576 dv512 f16", "40x512 d33 dv576 f16", "512x512 d64 f16 softcap=3",
          "512x512 d64 dv96 f16 cache=q8_0", "512x512 d96 f16 key=q4_0", "512x512 d33 dv288 f16 value=q8_0",
          "512x512 d17 dv5 f16 cache=e4m3"}) {
      const AttentionDesc desc = desc_of(problem);
      const auto config = kMatrix(desc, capabilities);
      SCOPED_TRACE(message(problem, " in subgroups of ", capabilities.subgroup_size, ", ",
                           capabilities.max_shared_memory_bytes, " bytes"));
      if (config.ok()) {
        ++configurations;
        expect_consistent(*config, desc, capabilities);
        continue;
      }
      ++refusals;
      const bool too_large = config.error().code == ErrorCode::kLimitExceeded;
      EXPECT_TRUE(has(config.error().message,
                      too_large ? "the smallest tile needs " : "has no tile for matrices of "));
    }
  };
  for (const MatrixShape& matrix : {shape(16, 16, 16), shape(16, 8, 16), shape(8, 16, 16), shape(8, 8, 8)}) {
    for (const std::uint32_t lanes : {8U, 16U, 32U, 64U}) {
      for (const std::uint32_t vendor_id : {kVendorAmd, kVendorNvidia, kVendorIntel}) {
        for (const std::uint32_t bytes : {16384U, 32768U, 49152U}) {
          Capabilities capabilities = with_shape(matrix, with_lanes(gpu(), lanes));
          capabilities.vendor_id = vendor_id;
          capabilities.max_shared_memory_bytes = bytes;
          check(capabilities);
        }
      }
    }
  }
  EXPECT_EQ(configurations + refusals, 4U * 4U * 3U * 3U * 12U);
  EXPECT_GT(configurations, 2 * refusals);
}

}  // namespace
}  // namespace vkattn::tests
