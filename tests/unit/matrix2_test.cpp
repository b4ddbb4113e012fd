// The host half of the matrix2 kernel from made-up capabilities: each feature asked for by itself, the scope,
// the tile.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "made_up_device.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kMatrix2{"matrix2", configure_matrix2};

/// What the kernel asks of any device, with no flexible matrix listed.
Capabilities device_with_features() {
  Capabilities c = made_up_gpu();
  c.api_version = VK_API_VERSION_1_3;
  c.shader_float16 = c.vulkan_memory_model = c.maintenance4 = c.cooperative_matrix = true;
  c.matrix2_flexible_dimensions = c.matrix2_reductions = c.matrix2_conversions = true;
  c.matrix2_per_element_operations = c.matrix2_tensor_addressing = true;
  c.max_flexible_matrix_dimension = 1024;
  c.max_matrix_workgroup_size = 1024;
  return c;
}

/// As NVIDIA's GPUs list it.
Capabilities with_workgroup_scope() {
  Capabilities c = device_with_features();
  c.vendor_id = 0x10de;
  c.matrix2_workgroup_scope = c.matrix2_block_loads = true;
  c.flexible_matrices = {{16, 8, 16, "f16", "f16", "f32", "f32", "subgroup", 0},
                         {32, 16, 16, "f16", "f16", "f16", "f16", "workgroup", 128},
                         {32, 16, 16, "f16", "f16", "f32", "f32", "workgroup", 128},
                         {32, 32, 16, "f16", "f16", "f32", "f32", "workgroup", 256}};
  return c;
}

/// As lavapipe lists it.
Capabilities cpu_with_subgroup_scope() {
  Capabilities c = with_lanes(device_with_features(), 8);
  c.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  c.matrix2_tensor_addressing = false;
  c.flexible_matrices = {{8, 8, 8, "f16", "f16", "f32", "f32", "subgroup", 0}};
  return c;
}

TEST(Matrix2, NamesEachMissingFeature) {
  const auto expect_named = [](const std::string& name, const std::function<void(Capabilities&)>& take_away) {
    Capabilities capabilities = with_workgroup_scope();
    take_away(capabilities);
    EXPECT_TRUE(has(kMatrix2.reason("64x64 d64 f16", capabilities), name));
  };
  EXPECT_EQ(kMatrix2.reason("64x64 d64 f16", with_workgroup_scope()), "");
  const std::pair<const char*, bool Capabilities::*> features[] = {
      {"VK_KHR_cooperative_matrix", &Capabilities::cooperative_matrix},
      {"vulkanMemoryModel", &Capabilities::vulkan_memory_model},
      {"shaderFloat16", &Capabilities::shader_float16},
      {"storageBuffer16BitAccess", &Capabilities::storage_buffer_16bit},
      {"maintenance4", &Capabilities::maintenance4},
      {"cooperativeMatrixFlexibleDimensions", &Capabilities::matrix2_flexible_dimensions},
      {"cooperativeMatrixReductions", &Capabilities::matrix2_reductions},
      {"cooperativeMatrixConversions", &Capabilities::matrix2_conversions},
      {"cooperativeMatrixPerElementOperations", &Capabilities::matrix2_per_element_operations},
      {"cooperativeMatrixTensorAddressing", &Capabilities::matrix2_tensor_addressing},
      {"cooperativeMatrixWorkgroupScope", &Capabilities::matrix2_workgroup_scope}};
  for (const auto& [name, feature] : features) {
    expect_named(name, [feature = feature](Capabilities& c) { c.*feature = false; });
  }
  expect_named("Vulkan 1.3", [](Capabilities& c) { c.api_version = VK_API_VERSION_1_2; });
  expect_named("f16 x f16 to f32", [](Capabilities& c) { c.flexible_matrices.clear(); });
  expect_named("at most 16", [](Capabilities& c) { c.max_flexible_matrix_dimension = 16; });
  expect_named("workgroups of 128 or 256", [](Capabilities& c) {
    for (FlexibleMatrix& entry : c.flexible_matrices) entry.workgroup_invocations = 64;
  });
}

TEST(Matrix2, AsksForNoFeatureThatItDoesNotUse) {
  Capabilities capabilities = with_workgroup_scope();
  capabilities.matrix2_block_loads = false;
  capabilities.subgroup_shuffle = capabilities.subgroup_vote = capabilities.subgroup_arithmetic = false;
  EXPECT_EQ(kMatrix2.reason("64x64 d64 f16", capabilities), "");
}

TEST(Matrix2, NamesTheTypesItCannotTake) {
  Capabilities capabilities = with_workgroup_scope();
  EXPECT_TRUE(has(kMatrix2.reason("64x64 d64", capabilities), "float16"));
  EXPECT_TRUE(has(kMatrix2.reason("64x64 d64 query=f16 key=bf16", capabilities), "bf16"));
  EXPECT_TRUE(has(kMatrix2.reason("64x64 d64 bf16", capabilities), "shaderBFloat16CooperativeMatrix"));
  capabilities.bfloat16_matrix = true;
  EXPECT_TRUE(has(kMatrix2.reason("64x64 d64 bf16", capabilities), "bf16 x bf16"));
}

TEST(Matrix2, TakesWorkgroupScopeWhereItIsOffered) {
  const KernelConfig config = kMatrix2.configured("h8 1024x1024 d64 f16", with_workgroup_scope());
  EXPECT_EQ(config.shader, "attention_matrix2");
  EXPECT_EQ(config.workgroup_size, 128U) << "that of the entry";
  EXPECT_EQ(config.required_subgroup_size, 0U);
  EXPECT_EQ(config.probability_type, DataType::kFloat16);
  EXPECT_EQ(config.shared_bytes, 0U);
  EXPECT_EQ(config.rows_per_workgroup, constant(config, VKATTN_SPEC_MATRIX2_ROWS));
  EXPECT_EQ(config.key_step, constant(config, VKATTN_SPEC_MATRIX2_KEYS));
}

TEST(Matrix2, TakesSubgroupScopeOnCpus) {
  const KernelConfig on_cpu = kMatrix2.configured("h8 1024x1024 d64 f16", cpu_with_subgroup_scope());
  EXPECT_EQ(on_cpu.shader, "attention_matrix2_elements") << "no tensor addressing";
  EXPECT_EQ(on_cpu.workgroup_size, 8U);
  EXPECT_EQ(on_cpu.rows_per_workgroup, 8U) << "Mesa reduces the rows of larger matrices wrongly";
}

TEST(Matrix2, MatricesAreMultiplesOfTheGranularities) {
  for (const char* problem : {"128x128 d1 f16", "128x128 d40 f16", "128x128 d64 dv72 f16", "128x128 d128 f16",
                              "128x128 d192 dv128 f16", "128x128 d256 f16", "128x128 d576 dv512 f16",
                              "1x128 d64 f16", "128x128 d33 dv576 f16"}) {
    for (const Capabilities& capabilities : {with_workgroup_scope(), cpu_with_subgroup_scope()}) {
      const KernelConfig config = kMatrix2.configured(problem, capabilities);
      const bool is_cpu = capabilities.is_cpu();
      const std::uint32_t m = is_cpu ? 8 : 32;
      const std::uint32_t n = is_cpu ? 8 : config.workgroup_size == 128 ? 16 : 32;
      const std::uint32_t head_block = constant(config, VKATTN_SPEC_MATRIX2_HEAD_BLOCK);
      const std::uint32_t value_block = constant(config, VKATTN_SPEC_MATRIX2_VALUE_BLOCK);
      EXPECT_EQ(config.rows_per_workgroup % m, 0U) << problem;
      EXPECT_EQ(config.key_step % n, 0U) << problem;
      EXPECT_EQ(head_block % n, 0U) << problem;
      EXPECT_EQ(value_block % n, 0U) << problem;
      EXPECT_LT(head_block, static_cast<std::uint32_t>(desc_of(problem).head_dim) + n) << problem;
      EXPECT_LE(std::max(head_block, value_block), 256U) << problem;
      EXPECT_TRUE(config.workgroup_size == 128 || config.workgroup_size == 256 || is_cpu) << problem;
    }
  }
}

TEST(Matrix2, FewRowsTakeASmallTile) {
  const auto rows = [](const char* problem) {
    return kMatrix2.configured(problem, with_workgroup_scope()).rows_per_workgroup;
  };
  EXPECT_GT(rows("h8 512x512 d64 f16"), 32U);
  EXPECT_EQ(rows("hq8 hkv2 1x4096 d64 f16"), 32U);
}

TEST(Matrix2, NamesLayoutsThatTensorAddressingCannotExpress) {
  const Capabilities capabilities = with_workgroup_scope();
  EXPECT_EQ(kMatrix2.reason("b2 h3 64x64 d64 f16 layout=bshd", capabilities), "");
  EXPECT_EQ(kMatrix2.reason("b2 h3 64x64 d60 f16 pad=1", capabilities), "") << "rows need no alignment";
  const auto refused = [&](const AttentionDesc& desc, const char* name) {
    const auto config = kMatrix2(desc, capabilities);
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_TRUE(has(config.error().message, "tensor addressing"));
    EXPECT_TRUE(has(config.error().message, name));
    EXPECT_TRUE(kMatrix2(desc, cpu_with_subgroup_scope()).ok()) << "loaded by element";
  };
  refused(desc_of("64x64 d64 f16 shift=1"), "key");
  AttentionDesc desc = desc_of("h2 64x64 d64 f16");
  desc.key.strides->row = 0;
  refused(desc, "key");
  desc = desc_of("h2 64x64 d64 f16");
  desc.value.strides->dim = 2;
  refused(desc, "value");
  desc = desc_of("h2 64x64 d64 f16");
  desc.value.strides->head += 4;
  refused(desc, "value");
}

TEST(Matrix2, QueriesAreATensorWhereHeadsAreNotPacked) {
  const auto query_tensor = [](const char* problem, const Capabilities& capabilities) {
    return constant(kMatrix2.configured(problem, capabilities), VKATTN_SPEC_MATRIX2_QUERY_TENSOR);
  };
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16", with_workgroup_scope()), 1U);
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16 pad=1", with_workgroup_scope()), 0U) << "rows start anywhere";
  EXPECT_EQ(query_tensor("hq4 hkv2 64x64 d64 f16", with_workgroup_scope()), 0U);
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16", cpu_with_subgroup_scope()), 0U);
}

}  // namespace
}  // namespace vkattn::tests
