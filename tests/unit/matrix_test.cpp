// The host halves of the kernels on cooperative matrices from made-up capabilities: each feature asked for by
// itself, the shape or scope, the subgroup size, the tile, and the forms that vendors get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/features.hpp"
#include "common/message.hpp"
#include "kernels/specialization.hpp"
#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "shared/attention_constants.h"
#include "support/must.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kMatrix{"matrix", configure_matrix};
constexpr HostKernel kMatrix2{"matrix2", configure_matrix2};

Capabilities cpu(const MatrixShape& matrix) {
  Capabilities c = with_lanes(matrix_gpu({matrix}), 8);
  c.device_type = DeviceType::kCpu;
  return c;
}

/// The same without matrices of subgroups, which the staged form has.
Capabilities without_subgroup_scope() {
  Capabilities c = with_workgroup_scope();
  std::erase_if(c.flexible_matrices, [](const FlexibleMatrix& entry) { return entry.scope == "subgroup"; });
  return c;
}

/// As lavapipe lists it.
Capabilities cpu_with_subgroup_scope() {
  Capabilities c = with_lanes(device_with_flexible_matrices(), 8);
  c.device_type = DeviceType::kCpu;
  c.flexible_matrices = {{8, 8, 8, "f16", "f16", "f32", "f32", "subgroup", 0}};
  return c;
}

using Feature = std::pair<const char*, bool Capabilities::*>;
const std::vector<Feature> kCommonFeatures = {
    {"VK_KHR_cooperative_matrix", &Capabilities::cooperative_matrix},
    {"vulkanMemoryModel", &Capabilities::vulkan_memory_model},
    {"shaderFloat16", &Capabilities::shader_float16},
    {"storageBuffer16BitAccess", &Capabilities::storage_buffer_16bit}};

/// Takes each feature away from a device that has all that the kernel needs.
void expect_named(const HostKernel& kernel, const Capabilities& device, std::vector<Feature> features) {
  EXPECT_EQ(kernel.reason("64x64 d64 f16", device), "");
  features.insert(features.end(), kCommonFeatures.begin(), kCommonFeatures.end());
  for (const auto& [name, feature] : features) {
    const Capabilities without = changed(device, [feature = feature](auto& c) { c.*feature = false; });
    EXPECT_TRUE(has(kernel.reason("64x64 d64 f16", without), name));
  }
}

TEST(MatrixKernels, NameEachMissingFeature) {
  expect_named(kMatrix, matrix_gpu(),
               {{"subgroup shuffles", &Capabilities::subgroup_shuffle},
                {"subgroup votes", &Capabilities::subgroup_vote}});
  expect_named(kMatrix2, with_workgroup_scope(),
               {{"maintenance4", &Capabilities::maintenance4},
                {"cooperativeMatrixFlexibleDimensions", &Capabilities::matrix2_flexible_dimensions},
                {"cooperativeMatrixReductions", &Capabilities::matrix2_reductions},
                {"cooperativeMatrixConversions", &Capabilities::matrix2_conversions},
                {"cooperativeMatrixPerElementOperations", &Capabilities::matrix2_per_element_operations}});
  expect_named(kMatrix2, without_subgroup_scope(),
               {{"cooperativeMatrixTensorAddressing", &Capabilities::matrix2_tensor_addressing},
                {"cooperativeMatrixWorkgroupScope", &Capabilities::matrix2_workgroup_scope}});
  const auto named = [](const HostKernel& kernel, const Capabilities& device, const char* what, auto change) {
    EXPECT_TRUE(has(kernel.reason("64x64 d64 f16", changed(device, change)), what));
  };
  named(kMatrix, matrix_gpu(), "subgroupSizeControl", [](auto& c) { c.max_subgroup_size = 64; });
  const Capabilities device = with_workgroup_scope();
  named(kMatrix2, device, "Vulkan 1.3", [](auto& c) { c.api_version = VK_API_VERSION_1_2; });
  named(kMatrix2, device, "f16 x f16 to f32", [](auto& c) { c.flexible_matrices.clear(); });
  named(kMatrix2, device, "at most 8 ", [](auto& c) { c.max_flexible_matrix_dimension = 8; });
  named(kMatrix2, without_subgroup_scope(), "no tile fits the device's flexible matrices of f16",
        [](auto& c) {
          for (FlexibleMatrix& entry : c.flexible_matrices) entry.workgroup_invocations = 64;
        });
}

TEST(MatrixKernels, NameTheTypesTheyCannotTake) {
  for (const auto& [kernel, device] :
       {std::pair{kMatrix, matrix_gpu()}, {kMatrix2, with_workgroup_scope()}}) {
    EXPECT_TRUE(has(kernel.reason("64x64 d64", device), "float16"));
    EXPECT_TRUE(has(kernel.reason("64x64 d64 query=f16 key=bf16", device), "bf16"));
    EXPECT_TRUE(has(kernel.reason("64x64 d64 bf16", device), "shaderBFloat16CooperativeMatrix"));
    const Capabilities bfloat16 = changed(device, [](auto& c) { c.bfloat16_matrix = true; });
    EXPECT_TRUE(has(kernel.reason("64x64 d64 bf16", bfloat16), "bf16 x bf16"));
  }
  EXPECT_TRUE(has(kMatrix.reason("512x512 d64 f16 key=f32 value=q8_0", matrix_gpu()),
                  "quantised; here they are f16, f32"));
  EXPECT_TRUE(
      has(kMatrix.reason("512x512 d64 cache=q8_0", matrix_gpu()), "here they are f32, q8_0 and q8_0"));
  Capabilities bfloat16 =
      matrix_gpu({shape(16, 16, 16), {16, 16, 16, "bf16", "bf16", "f32", "f32", "subgroup"}});
  bfloat16.bfloat16_matrix = true;
  const KernelConfig config = kMatrix.configured("64x64 d64 bf16", bfloat16);
  EXPECT_EQ(config.shader, "attention_matrix_bfloat16");
  EXPECT_EQ(config.probability_type, DataType::kBfloat16);
}

TEST(Matrix, TakesTheSquareShapeElseTheLargestThatItCanUse) {
  const auto chosen = [](const std::vector<MatrixShape>& shapes) {
    const KernelConfig config = kMatrix.configured("512x512 d64 f16", matrix_gpu(shapes));
    return message(constant(config, VKATTN_SPEC_MATRIX_M), "x", constant(config, VKATTN_SPEC_MATRIX_N), "x",
                   constant(config, VKATTN_SPEC_MATRIX_K));
  };
  EXPECT_EQ(chosen({shape(8, 8, 8), shape(16, 8, 16)}), "16x8x16");
  EXPECT_EQ(chosen({shape(16, 8, 8), shape(16, 8, 16)}), "16x8x16");
  EXPECT_EQ(chosen({shape(8, 8, 8), shape(8, 16, 16)}), "8x16x16") << "as on Intel's GPUs";
  EXPECT_EQ(chosen({shape(16, 8, 16), shape(8, 16, 16)}), "16x8x16") << "the first of two as large";
  EXPECT_EQ(chosen({shape(16, 8, 16), shape(16, 16, 16), shape(8, 8, 8)}), "16x16x16");
  EXPECT_EQ(chosen({shape(32, 32, 32), shape(16, 16, 16)}), "16x16x16");
  EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", matrix_gpu({})), "no matrix shape of f16 x f16 to f32"));
  for (const MatrixShape& other : {MatrixShape{16, 16, 16, "f16", "f16", "f16", "f16", "subgroup"},
                                   {16, 16, 16, "f16", "f16", "f32", "f32", "workgroup"},
                                   {16, 16, 16, "s8", "s8", "s32", "s32", "subgroup"},
                                   {16, 16, 16, "bf16", "bf16", "f32", "f32", "subgroup"},
                                   {16, 16, 16, "f16", "f16", "f32", "f16", "subgroup"},
                                   shape(4, 16, 16),
                                   shape(16, 64, 16),
                                   shape(16, 16, 24)}) {
    EXPECT_TRUE(has(kMatrix.reason("64x64 d64 f16", matrix_gpu({other})), "no matrix shape"));
    EXPECT_EQ(chosen({other, shape(8, 8, 8), other}), "8x8x8");
  }
}

TEST(Matrix, SubgroupSizesAreThoseOfTheVendors) {
  for (const auto& [device, size] : {std::pair{gpu_of(kVendorAmd, 32, 64), 32U},
                                     {gpu_of(kVendorAmd, 64, 64), 64U},
                                     {gpu_of(kVendorNvidia, 32, 32), 32U},
                                     {gpu_of(0, 8, 16), 16U},
                                     // As many lanes as columns.
                                     {gpu_of(kVendorIntel, 8, 32, shape(8, 16, 16)), 16U},
                                     {gpu_of(kVendorIntel, 8, 32, shape(8, 8, 16)), 8U}}) {
    const KernelConfig config = kMatrix.configured("512x512 d64 f16", device);
    EXPECT_EQ(config.required_subgroup_size, size);
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE), size);
  }
  EXPECT_EQ(kMatrix.configured("512x512 d64 f16", matrix_gpu()).required_subgroup_size, 0U)
      << "there is but one";
}

/// That values are transposed on AMD's GPUs and tiles prefetched on NVIDIA's alone is in
/// IsConsistentOrRefusesByName.
TEST(Matrix, FormsAreThoseOfTheVendors) {
  const auto prefetches = [](const std::string& problem, const Capabilities& device) {
    const KernelConfig config = kMatrix.configured(problem, device);
    const bool prefetch = constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
    EXPECT_EQ(prefetch, has(config.summary, "next tile prefetched")) << config.summary;
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SKIP_TILES), device.is_cpu() ? 0U : 1U);
    return prefetch;
  };
  const Capabilities nvidia = gpu_of(kVendorNvidia, 32, 32);
  EXPECT_TRUE(prefetches("512x512 d64 f16", nvidia));
  EXPECT_TRUE(prefetches("512x512 d128 f16", nvidia));
  EXPECT_TRUE(prefetches("512x512 d64 f16 softcap=3", nvidia));
  EXPECT_FALSE(prefetches("512x512 d256 f16", nvidia)) << "no registers are left";
  for (const std::string storage : {"cache=q8_0", "key=q4_0", "value=e4m3"}) {
    const std::string problem = "512x512 d64 f16 " + storage;
    EXPECT_FALSE(prefetches(problem, nvidia)) << "decoded on the way: " << storage;
    EXPECT_EQ(kMatrix.configured(problem, nvidia).shader, "attention_matrix_features");
    EXPECT_EQ(kMatrix.configured(problem, nvidia).probability_type, DataType::kFloat16);
  }
  const Capabilities on_cpu = cpu(shape(8, 8, 8));
  EXPECT_FALSE(prefetches("512x512 d32 f16", on_cpu));
  EXPECT_TRUE(prefetches("512x512 d32 f16", changed(on_cpu, [](auto& c) { c.vendor_id = kVendorNvidia; })))
      << "what the tests on a CPU run";
  EXPECT_EQ(kMatrix.configured("512x512 d32 f16", on_cpu).shader, "attention_matrix");
}

/// Subgroups and keys of a tile on a device with so many bytes of shared memory.
TEST(Matrix, TheFirstTileThatFitsTheSharedMemory) {
  const auto tile = [](const char* problem, std::uint32_t bytes) {
    const Capabilities device = changed(matrix_gpu(), [=](auto& c) { c.max_shared_memory_bytes = bytes; });
    const auto config = kMatrix(problem, device);
    if (config.ok()) return message(config->tile.subgroups, "x", config->tile.keys);
    return kMatrix.reason(problem, device, ErrorCode::kLimitExceeded);
  };
  EXPECT_EQ(tile("512x512 d64 f16", 16384), "2x32");
  EXPECT_EQ(tile("512x512 d64 f16", 49152), "4x32");
  EXPECT_EQ(tile("512x512 d128 f16", 16384), "4x16");
  EXPECT_EQ(tile("512x512 d128 f16", 32768), "4x32");
  EXPECT_EQ(tile("512x512 d256 f16", 32768), "1x16");
  EXPECT_EQ(tile("512x512 d256 f16", 49152), "1x32");
  EXPECT_EQ(tile("512x512 d576 dv512 f16", 49152), "1x16");
  EXPECT_TRUE(has(tile("512x512 d256 f16", 16384), "smallest block needs 26688"));
  EXPECT_TRUE(has(tile("512x512 d576 dv512 f16", 32768), "smallest block needs 47168"));
  EXPECT_TRUE(has(tile("512x512 d576 dv512 f16", 32768), "maxComputeSharedMemorySize is 32768"));
}

TEST(Matrix, FewRowsAndSmallWorkgroupsTakeFewSubgroups) {
  const auto subgroups = [](const char* problem, auto change) {
    return kMatrix.configured(problem, changed(matrix_gpu(), change)).tile.subgroups;
  };
  for (const auto& [problem, expected] : {std::pair{"h8 33x512 d64 f16", 4U},
                                          {"h8 32x512 d64 f16", 2U},  // half of 64 rows
                                          {"h8 16x512 d64 f16", 1U},
                                          {"hq8 hkv2 8x512 d64 f16", 2U},  // 4 heads share a KV head
                                          {"h8 1x512 d64 f16", 1U}}) {
    EXPECT_EQ(subgroups(problem, [](auto&) {}), expected) << problem;
  }
  const char* const many = "512x512 d64 f16";
  EXPECT_EQ(subgroups(many, [](auto& c) { c.max_workgroup_invocations = 128; }), 4U);
  EXPECT_EQ(subgroups(many, [](auto& c) { c.max_workgroup_invocations = 127; }), 2U);
  EXPECT_EQ(subgroups(many, [](auto& c) { c.max_workgroup_size[0] = 64; }), 2U);
  EXPECT_EQ(subgroups(many, [](auto& c) { c.max_workgroup_subgroups = 3; }), 2U);
  EXPECT_EQ(subgroups(many, [](auto& c) { c.max_workgroup_subgroups = 1; }), 1U);
  const Capabilities none = changed(matrix_gpu(), [](auto& c) { c.max_workgroup_invocations = 16; });
  const std::string reason = kMatrix.reason(many, none, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(has(reason, "needs 32 invocations; maxComputeWorkGroupInvocations is 16"));
  EXPECT_FALSE(has(reason, "maxComputeSharedMemorySize")) << "which is enough";
}

TEST(Matrix, WideValuesTakeSlices) {
  for (const auto& [values, matrix, dims] :
       {std::tuple{"d192 dv256", shape(16, 16, 16), 256U},
        {"d192 dv272", shape(16, 16, 16), 144U},
        {"d192 dv260", shape(16, 16, 16), 144U},
        {"d192 dv576", shape(16, 16, 16), 192U},
        {"d64 dv288", shape(16, 8, 16), 144U},
        {"d64 dv288 cache=q8_0", shape(16, 8, 16), 160U},  // a scale's dims lie in one slice
        {"d64 dv288 cache=e4m3", shape(16, 8, 16), 144U}}) {
    const std::string problem = std::string("512x512 f16 ") + values;
    const KernelConfig config = kMatrix.configured(problem, matrix_gpu({matrix}));
    EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS), dims) << problem;
    const std::int64_t slices = (desc_of(problem).value_dim + dims - 1) / dims;
    EXPECT_EQ(has(config.summary, message("values in ", slices, " slices")), slices > 1) << config.summary;
  }
}

/// The bytes of shared memory that attention_matrix.comp declares with these constants.
std::uint32_t declared_bytes(const KernelConfig& config, const AttentionDesc& desc) {
  const auto head_dim = static_cast<std::uint32_t>(desc.head_dim);
  const std::uint32_t k = constant(config, VKATTN_SPEC_MATRIX_K);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const std::uint32_t rows = config.rows_per_workgroup;
  const std::uint32_t key_stride8 = (head_dim + k - 1) / k * k / 8 + 1;
  const bool transposed = constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1;
  const bool held = constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 1;
  const std::uint32_t value_stage = transposed ? dims * (keys / 8 + 1) : keys * (dims / 8 + 1);
  const std::uint32_t stages =
      keys * key_stride8 + value_stage + (held ? 1 : rows * key_stride8) + rows * (keys / 4 + 1);
  const bool keys_scaled = block_elements(desc.key.type) > 1,
             values_scaled = block_elements(desc.value.type) > 1;
  const std::uint32_t scales =
      (keys_scaled ? keys * ((head_dim + 31) / 32) : 4) + (values_scaled ? keys * (dims / 32) : 4);
  const std::uint32_t products = values_scaled ? rows * (keys / 8 + 1) : 1;
  return stages * 16 + rows * 4 + (has_features(desc) ? scales * 4 + products * 16 : 0);
}

/// What holds of any configuration, by the shader's constants.
void expect_consistent(const KernelConfig& config, const AttentionDesc& desc, const Capabilities& device) {
  const std::uint32_t n = constant(config, VKATTN_SPEC_MATRIX_N);
  const std::uint32_t lanes = constant(config, VKATTN_SPEC_MATRIX_SUBGROUP_SIZE);
  const std::uint32_t rows =
      constant(config, VKATTN_SPEC_MATRIX_M) * constant(config, VKATTN_SPEC_MATRIX_ROW_BLOCKS);
  const std::uint32_t keys = constant(config, VKATTN_SPEC_MATRIX_KEYS);
  const std::uint32_t dims = constant(config, VKATTN_SPEC_MATRIX_SLICE_DIMS);
  const SpecializationValues all = specialization(desc, config, {});
  const SpecializationValue size{VKATTN_SPEC_WORKGROUP_SIZE, config.workgroup_size};
  EXPECT_NE(std::find(all.begin(), all.end(), size), all.end());
  EXPECT_EQ(config.workgroup_size, config.tile.subgroups * lanes);
  EXPECT_EQ(config.rows_per_workgroup, config.tile.subgroups * rows);
  EXPECT_EQ(keys % n, 0U);
  EXPECT_EQ(keys % constant(config, VKATTN_SPEC_MATRIX_K), 0U);
  EXPECT_EQ(keys % (8 * std::max(1U, lanes / rows)), 0U) << "whole vectors of a row for each lane";
  EXPECT_EQ(dims % n, 0U);
  EXPECT_LE(dims, std::max(n, 128 * lanes / rows)) << "sums of a lane";
  EXPECT_EQ(config.shared_bytes, declared_bytes(config, desc));
  EXPECT_LE(config.shared_bytes, device.max_shared_memory_bytes);
  const bool prefetch = constant(config, VKATTN_SPEC_MATRIX_PREFETCH) == 1;
  EXPECT_FALSE(prefetch && device.vendor_id != kVendorNvidia);
  EXPECT_FALSE(prefetch && constant(config, VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) == 0);
  EXPECT_EQ(constant(config, VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) == 1, device.vendor_id == kVendorAmd);
}

/// Every shape on subgroups of every size, by vendor and shared memory: a configuration that holds together,
/// or a refusal that says why. Subgroups of 64 leave each lane no whole vector of 8 rows.
TEST(Matrix, IsConsistentOrRefusesByName) {
  std::size_t configurations = 0, refusals = 0;
  const auto check = [&](const Capabilities& device, bool has_tile) {
    for (const char* problem :
         {"512x512 d64 f16", "512x512 d17 dv5 f16", "512x512 d128 f16", "1x512 d64 f16", "512x512 d256 f16",
          "512x512 d576 dv512 f16", "40x512 d33 dv576 f16", "512x512 d64 f16 softcap=3",
          "512x512 d64 dv96 f16 cache=q8_0", "512x512 d96 f16 key=q4_0", "512x512 d33 dv288 f16 value=q8_0",
          "512x512 d17 dv5 f16 cache=e4m3"}) {
      SCOPED_TRACE(message(problem, " in subgroups of ", device.subgroup_size, ", ",
                           device.max_shared_memory_bytes, " bytes"));
      const auto config = kMatrix(problem, device);
      if (config.ok()) expect_consistent(*config, desc_of(problem), device);
      ++(config.ok() ? configurations : refusals);
      if (!has_tile) {
        EXPECT_TRUE(has(kMatrix.reason(problem, device), "has no tile for matrices of 8x"));
      } else if (!config.ok()) {
        EXPECT_TRUE(
            has(kMatrix.reason(problem, device, ErrorCode::kLimitExceeded), "the smallest block needs "));
      }
    }
  };
  for (const MatrixShape& matrix : {shape(16, 16, 16), shape(16, 8, 16), shape(8, 16, 16), shape(8, 8, 8)}) {
    for (const std::uint32_t lanes : {8U, 16U, 32U, 64U}) {
      for (const std::uint32_t vendor_id : {kVendorAmd, kVendorNvidia, kVendorIntel}) {
        for (const std::uint32_t bytes : {16384U, 32768U, 49152U}) {
          Capabilities device = with_lanes(matrix_gpu({matrix}), lanes);
          device.vendor_id = vendor_id;
          device.max_shared_memory_bytes = bytes;
          check(device, matrix.m == 16 || lanes != 64);
        }
      }
    }
  }
  EXPECT_GT(configurations, 2 * refusals);
}

TEST(Matrix2, TakesWorkgroupScopeButOnCpus) {
  const KernelConfig config = kMatrix2.configured("h8 1024x1024 d64 f16", with_workgroup_scope());
  EXPECT_EQ(config.shader, "attention_matrix2");
  EXPECT_EQ(config.workgroup_size, 128U) << "that of the entry";
  EXPECT_EQ(config.required_subgroup_size, 0U);
  EXPECT_EQ(config.probability_type, DataType::kFloat16);
  EXPECT_EQ(config.shared_bytes, 0U);
  EXPECT_EQ(config.rows_per_workgroup, constant(config, VKATTN_SPEC_MATRIX2_ROWS));
  EXPECT_EQ(config.key_step, constant(config, VKATTN_SPEC_MATRIX2_KEYS));
  const KernelConfig on_cpu = kMatrix2.configured("h8 1024x1024 d64 f16", cpu_with_subgroup_scope());
  EXPECT_EQ(on_cpu.shader, "attention_matrix2_staged") << "no tensor addressing";
  EXPECT_EQ(on_cpu.workgroup_size, 16U);
  EXPECT_EQ(on_cpu.rows_per_workgroup, 16U);
  EXPECT_EQ(constant(on_cpu, VKATTN_SPEC_MATRIX2_ROWS), 8U)
      << "Mesa reduces the rows of larger matrices wrongly";
}

// Where tensor addressing does not take the keys, or the device has no workgroup scope.
TEST(Matrix2, StagesWhatTheOtherFormDoesNotTake) {
  const Capabilities device = with_workgroup_scope();
  const auto staged = [&](const char* problem, const Capabilities& c) {
    const KernelConfig config = kMatrix2.configured(problem, c);
    return config.shader.starts_with("attention_matrix2_staged") && config.shared_bytes > 0 &&
           !config.whole_heads && config.rows_per_workgroup == config.workgroup_size / 32 * 16;
  };
  EXPECT_FALSE(staged("h8 1024x1024 d64 f16", device));
  EXPECT_TRUE(staged("h8 1024x1024 d64 f16 page=16", device));
  EXPECT_TRUE(staged("h8 1024x1024 d64 f16 ring=512", device));
  EXPECT_TRUE(staged("h8 1024x1024 d128 f16 shift=1", device));
  EXPECT_TRUE(
      staged("h8 1024x1024 d64 f16", changed(device, [](auto& c) { c.matrix2_workgroup_scope = false; })));
  const Capabilities small = changed(device, [](auto& c) { c.max_storage_buffer_range = 1024 * 64 * 2 - 1; });
  EXPECT_TRUE(staged("h8 1024x1024 d64 f16", small)) << "one head beyond the range of a descriptor";
  EXPECT_FALSE(staged("h8 1023x1023 d64 f16", small));
  // On lavapipe's 32 KiB the widest heads take fewer keys; the limit is named where nothing fits.
  const Capabilities cpu =
      changed(cpu_with_subgroup_scope(), [](auto& c) { c.max_shared_memory_bytes = 32768; });
  EXPECT_EQ(kMatrix2.configured("128x128 d576 dv512 f16", cpu).key_step, 8U);
  EXPECT_EQ(kMatrix2.configured("128x128 d64 f16", cpu).key_step, 16U);
  const Capabilities tiny = changed(cpu, [](auto& c) { c.max_shared_memory_bytes = 16384; });
  EXPECT_TRUE(
      has(message_of(kMatrix2("128x128 d576 dv512 f16", tiny)), "maxComputeSharedMemorySize is 16384"));
}

// Decoded on the way to shared memory, which only the staged form does.
TEST(Matrix2, StagesFloat8) {
  const Capabilities nvidia = with_workgroup_scope();
  const Capabilities other = changed(nvidia, [](auto& c) { c.vendor_id = 1; });
  for (const char* storage : {"cache=e4m3", "key=e4m3", "value=e4m3"}) {
    const std::string problem = std::string("h8 1024x1024 d64 f16 ") + storage;
    EXPECT_EQ(kMatrix2.configured(problem, nvidia).shader, "attention_matrix2_staged_steps_features");
    EXPECT_EQ(kMatrix2.configured(problem, other).shader, "attention_matrix2_staged_features");
    EXPECT_FALSE(kMatrix2.configured(problem, nvidia).whole_heads);
    EXPECT_TRUE(has(message_of(kMatrix2(problem, without_subgroup_scope())),
                    "tensor addressing takes K and V of Q's type"));
  }
  EXPECT_EQ(kMatrix2.configured("h8 1024x1024 d64 f16 shift=1", nvidia).shader,
            "attention_matrix2_staged_steps");
  for (const char* storage : {"f16 cache=q8_0", "f16 value=q4_0", "bf16 cache=e4m3"}) {
    const std::string problem = std::string("h8 1024x1024 d64 ") + storage;
    EXPECT_TRUE(has(message_of(kMatrix2(problem, nvidia)), "with float16 Q also K and V in e4m3")) << storage;
  }
}

TEST(Matrix2, MatricesAreMultiplesOfTheGranularities) {
  for (const char* problem : {"128x128 d1 f16", "128x128 d40 f16", "128x128 d64 dv72 f16", "128x128 d128 f16",
                              "128x128 d192 dv128 f16", "128x128 d256 f16", "128x128 d576 dv512 f16",
                              "1x128 d64 f16", "128x128 d33 dv576 f16"}) {
    for (const Capabilities& device : {with_workgroup_scope(), cpu_with_subgroup_scope()}) {
      SCOPED_TRACE(problem);
      const KernelConfig config = kMatrix2.configured(problem, device);
      const std::uint32_t n = device.is_cpu() ? 8 : config.workgroup_size == 128 ? 16 : 32;
      const std::uint32_t head_block = constant(config, VKATTN_SPEC_MATRIX2_HEAD_BLOCK);
      const std::uint32_t value_block = constant(config, VKATTN_SPEC_MATRIX2_VALUE_BLOCK);
      EXPECT_EQ(config.rows_per_workgroup % (device.is_cpu() ? 8 : 32), 0U);
      EXPECT_EQ(config.key_step % n + head_block % n + value_block % n, 0U);
      EXPECT_LT(head_block, static_cast<std::uint32_t>(desc_of(problem).head_dim) + n);
      EXPECT_LE(std::max(head_block, value_block), 256U);
      EXPECT_TRUE(config.workgroup_size == 128 || config.workgroup_size == 256 || device.is_cpu());
    }
  }
  const auto rows = [](const char* problem) {
    return kMatrix2.configured(problem, with_workgroup_scope()).rows_per_workgroup;
  };
  EXPECT_GT(rows("h8 512x512 d64 f16"), 32U);
  EXPECT_EQ(rows("hq8 hkv2 1x4096 d64 f16"), 32U) << "few rows take a small tile";
  EXPECT_EQ(rows("hq24 hkv1 1x4096 d64 f16"), 32U) << "and not a staged one";
}

TEST(Matrix2, NamesLayoutsThatTensorAddressingCannotExpress) {
  const Capabilities device = with_workgroup_scope();
  EXPECT_EQ(kMatrix2.reason("b2 h3 64x64 d64 f16 layout=bshd", device), "");
  EXPECT_EQ(kMatrix2.reason("b2 h3 64x64 d60 f16 pad=1", device), "") << "rows need no alignment";
  const Capabilities unstaged = without_subgroup_scope();
  EXPECT_TRUE(
      has(kMatrix2.reason("64x64 d64 f16 shift=1", unstaged), "tensor addressing needs heads of key"));
  const auto expect_refused = [&](auto change, const char* name) {
    AttentionDesc desc = desc_of("h2 64x64 d64 f16");
    change(desc);
    EXPECT_TRUE(
        has(message_of(kMatrix2(desc, unstaged)), std::string("tensor addressing needs heads of ") + name));
    EXPECT_TRUE(kMatrix2(desc, device).ok()) << "staged";
    EXPECT_TRUE(kMatrix2(desc, cpu_with_subgroup_scope()).ok());
  };
  expect_refused([](auto& d) { d.key.strides->row = 0; }, "key");
  expect_refused([](auto& d) { d.value.strides->dim = 2; }, "value");
  expect_refused([](auto& d) { d.value.strides->head += 4; }, "value");
  const auto query_tensor = [](const char* problem, const Capabilities& c) {
    return constant(kMatrix2.configured(problem, c), VKATTN_SPEC_MATRIX2_QUERY_TENSOR);
  };
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16", device), 1U);
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16 pad=1", device), 0U) << "rows start anywhere";
  EXPECT_EQ(query_tensor("hq4 hkv2 64x64 d64 f16", device), 0U) << "heads are packed";
}

}  // namespace
}  // namespace vkattn::tests
