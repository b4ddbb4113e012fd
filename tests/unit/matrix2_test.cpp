// The host half of the matrix2 kernel from made-up capabilities: each feature asked for by itself, the scope,
// the tile.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"
#include "problem/problem.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {
namespace {

using bench::parse_problem;

Result<KernelConfig> configure(const AttentionDesc& desc, const Capabilities& capabilities) {
  return configure_matrix2(desc, capabilities, table_tiles("matrix2", desc, capabilities));
}

AttentionDesc desc_of(const char* problem) {
  return parse_problem(problem).value().desc;
}

/// What the kernel asks of any device, with no flexible matrix listed.
Capabilities device_with_features() {
  Capabilities c;
  c.device_type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  c.api_version = VK_API_VERSION_1_3;
  c.max_stage_storage_buffers = 8;
  c.max_shared_memory_bytes = 49152;
  c.max_workgroup_invocations = 1024;
  c.max_workgroup_size = {1024, 1024, 64};
  c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = 32;
  c.storage_buffer_16bit = c.shader_float16 = c.vulkan_memory_model = c.maintenance4 = true;
  c.cooperative_matrix = true;
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
  Capabilities c = device_with_features();
  c.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = 8;
  c.matrix2_tensor_addressing = false;
  c.flexible_matrices = {{8, 8, 8, "f16", "f16", "f32", "f32", "subgroup", 0}};
  return c;
}

std::uint32_t constant(const KernelConfig& config, std::uint32_t id) {
  for (const SpecializationValue& value : config.constants) {
    if (value.id == id) return value.value;
  }
  ADD_FAILURE() << "no specialization constant " << id;
  return 0;
}

std::string reason(const char* problem, const Capabilities& capabilities) {
  const auto config = configure(desc_of(problem), capabilities);
  if (config) return "";
  EXPECT_EQ(config.error().code, ErrorCode::kUnsupported);
  return config.error().message;
}

TEST(Matrix2, NamesEachMissingFeature) {
  struct Case {
    const char* name;
    std::function<void(Capabilities&)> take_away;
  };
  const Case cases[] = {
      {"VK_KHR_cooperative_matrix", [](Capabilities& c) { c.cooperative_matrix = false; }},
      {"vulkanMemoryModel", [](Capabilities& c) { c.vulkan_memory_model = false; }},
      {"shaderFloat16", [](Capabilities& c) { c.shader_float16 = false; }},
      {"storageBuffer16BitAccess", [](Capabilities& c) { c.storage_buffer_16bit = false; }},
      {"Vulkan 1.3", [](Capabilities& c) { c.api_version = VK_API_VERSION_1_2; }},
      {"maintenance4", [](Capabilities& c) { c.maintenance4 = false; }},
      {"cooperativeMatrixFlexibleDimensions", [](Capabilities& c) { c.matrix2_flexible_dimensions = false; }},
      {"cooperativeMatrixReductions", [](Capabilities& c) { c.matrix2_reductions = false; }},
      {"cooperativeMatrixConversions", [](Capabilities& c) { c.matrix2_conversions = false; }},
      {"cooperativeMatrixPerElementOperations",
       [](Capabilities& c) { c.matrix2_per_element_operations = false; }},
      {"cooperativeMatrixTensorAddressing", [](Capabilities& c) { c.matrix2_tensor_addressing = false; }},
      {"cooperativeMatrixWorkgroupScope", [](Capabilities& c) { c.matrix2_workgroup_scope = false; }},
      {"f16 x f16 to f32", [](Capabilities& c) { c.flexible_matrices.clear(); }},
      {"workgroups of 128 or 256",
       [](Capabilities& c) {
         for (FlexibleMatrix& entry : c.flexible_matrices) entry.workgroup_invocations = 64;
       }},
      {"at most 16", [](Capabilities& c) { c.max_flexible_matrix_dimension = 16; }},
  };
  EXPECT_EQ(reason("64x64 d64 f16", with_workgroup_scope()), "");
  for (const Case& missing : cases) {
    Capabilities capabilities = with_workgroup_scope();
    missing.take_away(capabilities);
    const std::string text = reason("64x64 d64 f16", capabilities);
    EXPECT_NE(text.find(missing.name), std::string::npos) << missing.name << ": " << text;
  }
}

TEST(Matrix2, AsksForNoFeatureThatItDoesNotUse) {
  Capabilities capabilities = with_workgroup_scope();
  capabilities.matrix2_block_loads = false;
  capabilities.subgroup_shuffle = capabilities.subgroup_vote = capabilities.subgroup_arithmetic = false;
  EXPECT_EQ(reason("64x64 d64 f16", capabilities), "");
}

TEST(Matrix2, NamesTheTypesItCannotTake) {
  Capabilities capabilities = with_workgroup_scope();
  EXPECT_NE(reason("64x64 d64", capabilities).find("float16"), std::string::npos);
  EXPECT_NE(reason("64x64 d64 query=f16 key=bf16", capabilities).find("bf16"), std::string::npos);
  EXPECT_NE(reason("64x64 d64 bf16", capabilities).find("shaderBFloat16CooperativeMatrix"),
            std::string::npos);
  capabilities.bfloat16_matrix = true;
  EXPECT_NE(reason("64x64 d64 bf16", capabilities).find("bf16 x bf16"), std::string::npos);
}

TEST(Matrix2, TakesWorkgroupScopeWhereItIsOffered) {
  const auto config = configure(desc_of("h8 1024x1024 d64 f16"), with_workgroup_scope());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->shader, "attention_matrix2");
  EXPECT_EQ(config->workgroup_size, 128U) << "that of the entry";
  EXPECT_EQ(config->required_subgroup_size, 0U);
  EXPECT_EQ(config->probability_type, DataType::kFloat16);
  EXPECT_EQ(config->shared_bytes, 0U);
  EXPECT_EQ(config->rows_per_workgroup, constant(*config, VKATTN_SPEC_MATRIX2_ROWS));
  EXPECT_EQ(config->key_step, constant(*config, VKATTN_SPEC_MATRIX2_KEYS));
  EXPECT_EQ(config->workgroup_size, 128U);
}

TEST(Matrix2, TakesSubgroupScopeOnCpus) {
  const auto on_cpu = configure(desc_of("h8 1024x1024 d64 f16"), cpu_with_subgroup_scope());
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.error().message;
  EXPECT_EQ(on_cpu->shader, "attention_matrix2_elements") << "no tensor addressing";
  EXPECT_EQ(on_cpu->workgroup_size, 8U);
  EXPECT_EQ(on_cpu->rows_per_workgroup, 8U) << "Mesa reduces the rows of larger matrices wrongly";
}

TEST(Matrix2, MatricesAreMultiplesOfTheGranularities) {
  for (const char* problem : {"128x128 d1 f16", "128x128 d40 f16", "128x128 d64 dv72 f16", "128x128 d128 f16",
                              "128x128 d192 dv128 f16", "128x128 d256 f16", "128x128 d576 dv512 f16",
                              "1x128 d64 f16", "128x128 d33 dv576 f16"}) {
    for (const Capabilities& capabilities : {with_workgroup_scope(), cpu_with_subgroup_scope()}) {
      const AttentionDesc desc = desc_of(problem);
      const auto config = configure(desc, capabilities);
      ASSERT_TRUE(config.ok()) << problem << ": " << config.error().message;
      const bool is_cpu = capabilities.is_cpu();
      const std::uint32_t m = is_cpu ? 8 : 32;
      const std::uint32_t n = is_cpu ? 8 : config->workgroup_size == 128 ? 16 : 32;
      const std::uint32_t head_block = constant(*config, VKATTN_SPEC_MATRIX2_HEAD_BLOCK);
      const std::uint32_t value_block = constant(*config, VKATTN_SPEC_MATRIX2_VALUE_BLOCK);
      EXPECT_EQ(config->rows_per_workgroup % m, 0U) << problem;
      EXPECT_EQ(config->key_step % n, 0U) << problem;
      EXPECT_EQ(head_block % n, 0U) << problem;
      EXPECT_EQ(value_block % n, 0U) << problem;
      EXPECT_LT(head_block, static_cast<std::uint32_t>(desc.head_dim) + n) << problem;
      EXPECT_LE(std::max(head_block, value_block), 256U) << problem;
      EXPECT_TRUE(config->workgroup_size == 128 || config->workgroup_size == 256 || is_cpu) << problem;
    }
  }
}

TEST(Matrix2, FewRowsTakeASmallTile) {
  const auto many = configure(desc_of("h8 512x512 d64 f16"), with_workgroup_scope());
  const auto few = configure(desc_of("hq8 hkv2 1x4096 d64 f16"), with_workgroup_scope());
  ASSERT_TRUE(many.ok() && few.ok());
  EXPECT_GT(many->rows_per_workgroup, few->rows_per_workgroup);
  EXPECT_EQ(few->rows_per_workgroup, 32U);
}

TEST(Matrix2, NamesLayoutsThatTensorAddressingCannotExpress) {
  const Capabilities capabilities = with_workgroup_scope();
  EXPECT_EQ(reason("b2 h3 64x64 d64 f16 layout=bshd", capabilities), "");
  EXPECT_EQ(reason("b2 h3 64x64 d60 f16 pad=1", capabilities), "") << "rows need no alignment";
  const auto refused = [&](const AttentionDesc& desc, const char* name) {
    const auto config = configure(desc, capabilities);
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_NE(config.error().message.find("tensor addressing"), std::string::npos) << config.error().message;
    EXPECT_NE(config.error().message.find(name), std::string::npos) << config.error().message;
    EXPECT_TRUE(configure(desc, cpu_with_subgroup_scope()).ok()) << "loaded by element";
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
    const auto config = configure(desc_of(problem), capabilities);
    EXPECT_TRUE(config.ok());
    return constant(*config, VKATTN_SPEC_MATRIX2_QUERY_TENSOR);
  };
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16", with_workgroup_scope()), 1U);
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16 pad=1", with_workgroup_scope()), 0U) << "rows start anywhere";
  EXPECT_EQ(query_tensor("hq4 hkv2 64x64 d64 f16", with_workgroup_scope()), 0U);
  EXPECT_EQ(query_tensor("h4 64x64 d64 f16", cpu_with_subgroup_scope()), 0U);
}

}  // namespace
}  // namespace vkattn::detail
