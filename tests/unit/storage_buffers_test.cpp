// The table of storage buffers in docs/embedding.md, on a Vulkan without a device, and what refusals say.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "attention/features.hpp"
#include "c/handles.hpp"
#include "forward/gather.hpp"
#include "kernels/select.hpp"
#include "support/host_vulkan.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/small_problems.hpp"
#include "unit/build.hpp"
#include "unit/made_up_device.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

/// A row of the table: the words of a problem of attention, or a plan in words.
struct Row {
  std::string plan;
  std::uint32_t each = 0;    ///< if the device has enough
  std::uint32_t fewest = 0;  ///< that the plan can do with
};

std::vector<Row> rows_of_the_table() {
  std::vector<Row> rows;
  std::ifstream text(build::kEmbedding);
  bool is_table = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("| Plan | Storage buffers |")) {
      is_table = std::getline(text, line).good();
      continue;
    }
    if (is_table && !line.starts_with("| ")) break;
    if (!is_table) continue;
    Row row;
    char bar = 0;
    std::istringstream cells(line.substr(2));
    std::getline(cells, row.plan, '|');
    row.plan.pop_back();
    cells >> row.each >> bar >> row.fewest;
    EXPECT_TRUE(cells.good()) << line;
    rows.push_back(row);
  }
  return rows;
}

class StorageBuffers : public testing::Test {
 protected:
  [[nodiscard]] Device device_with(std::uint32_t buffers) const {
    const detail::DeviceState& state = device_->device.state();
    return state.seen_through(
        changed(state.capabilities, [&](Capabilities& c) { c.max_stage_storage_buffers = buffers; }));
  }
  /// The most buffers of a stage in a plan of the problem, or the error.
  template <class Desc>
  [[nodiscard]] Result<std::uint32_t> needed(const Desc& desc, std::uint32_t buffers) const {
    const auto plan = Desc::Plan::create(device_with(buffers), desc, {});
    if (!plan) return plan.error();
    return plan->requirements().storage_buffers;
  }

 private:
  static HostSettings settings() {
    HostSettings settings;
    settings.storage_buffers = 32;
    return settings;
  }
  HostVulkan vulkan_{settings()};
  std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device_{HostVulkan::borrow(),
                                                                           &vkattn_device_release};
};

/// Plans that no words of attention describe.
class StorageBuffersOfPlans : public StorageBuffers {
 protected:
  using Needed = std::function<Result<std::uint32_t>(std::uint32_t)>;
  template <class Desc>
  [[nodiscard]] Needed of(const Desc& desc) const {
    return [this, desc](std::uint32_t buffers) { return needed(desc, buffers); };
  }

  [[nodiscard]] static AppendDesc append() {
    AppendDesc desc = small_append();
    desc.rotary.style = RotaryStyle::kNone;
    return desc;
  }
  [[nodiscard]] static AppendDesc everything_appended() {
    AppendDesc desc = append();
    desc.new_lengths = Lengths::kPerEntry;
    desc.cache = {.mapping = KeyMapping::kPaged, .page_size = 4, .page_count = 8, .page_table_stride = 2};
    desc.cache_length = kUnset;
    desc.cache_key.type = desc.cache_value.type = DataType::kFloat8E4m3;
    desc.rotary = {.style = RotaryStyle::kHalfSplit, .dims = 8, .has_frequencies = true};
    return desc;
  }
  /// Its sums are made in parts if there is a buffer for them.
  [[nodiscard]] static MatmulDesc long_product() {
    MatmulDesc desc = small_product();
    desc.inner = 4096;
    return desc;
  }
  [[nodiscard]] static MultiHeadAttentionDesc cached_layer() {
    MultiHeadAttentionDesc desc = small_layer();
    desc.attention.alibi = Alibi::kNone;
    desc.attention.kv_length = 12;
    desc.attention.align = Align::kBottomRight;
    desc.saves_for_gradients = false;
    desc.has_cache = desc.has_input_bias = desc.has_output_bias = true;
    return desc;
  }

  const std::map<std::string, Needed> plans_{
      {"append to a cache", of(append())},
      {"append with every tensor", of(everything_appended())},
      {"merge", of(MergeDesc{.rows = 4, .value_dim = 16, .has_lse = true})},
      {"product with bias", of(long_product())},
      {"layer with slopes of ALiBi in a tensor", of(small_layer())},
      {"layer with cache and biases", of(cached_layer())},
      {"gradients of attention", of(gradients_of(AttentionDesc(desc_of("9x40 h2 d16"))))},
      {"gradients of a layer", of(small_layer_gradients())},
  };
};

TEST_F(StorageBuffersOfPlans, AreThoseOfTheTable) {
  std::set<std::string> found;
  for (const Row& row : rows_of_the_table()) {
    SCOPED_TRACE(row.plan);
    Needed needed_of;
    const std::size_t words = row.plan.find('`');
    if (words != row.plan.npos) {
      const std::string text = row.plan.substr(words + 1, row.plan.rfind('`') - words - 1);
      const AttentionDesc desc = desc_of("b2 h2 9x40 d32 " + text);
      found.insert(std::string(detail::first_feature(desc.resolved())));
      needed_of = of(desc);
    } else {
      ASSERT_TRUE(plans_.contains(row.plan));
      found.insert(row.plan);
      needed_of = plans_.at(row.plan);
    }
    EXPECT_EQ(must(needed_of(32)), row.each);
    std::uint32_t fewest = 1;
    while (fewest < row.each && !needed_of(fewest)) ++fewest;
    EXPECT_EQ(fewest, row.fewest);
    EXPECT_TRUE(is_refused(needed_of(fewest - 1), ErrorCode::kLimitExceeded,
                           {"needs ", " storage buffers",
                            "maxPerStageDescriptorStorageBuffers is " + std::to_string(fewest - 1)}));
  }
  for (const auto& [plan, needed_of] : plans_) EXPECT_TRUE(found.contains(plan)) << plan;
  for (const detail::FeatureRow& feature : detail::feature_table()) {
    const bool needs_glsl = feature.name == "a score function";
    EXPECT_TRUE(needs_glsl || found.contains(std::string(feature.name))) << feature.name;
  }
}

/// Every kernel refuses for one reason, which is said once, with what to do.
TEST_F(StorageBuffers, WhatAllKernelsLackIsSaidOnce) {
  const auto refused = needed(desc_of("9x40 d32 weights=probabilities lse"), 4);
  ASSERT_FALSE(refused.ok());
  const std::string& text = refused.error().message;
  const std::size_t at =
      text.find("needs 5 storage buffers; maxPerStageDescriptorStorageBuffers is 4: ask for");
  ASSERT_NE(at, text.npos) << text;
  EXPECT_EQ(text.find("storage buffers", text.find("StorageBuffers is 4", at)), text.npos) << text;
  for (const char* const kernel : {"lane", "tile", "decode"}) EXPECT_TRUE(has(text, kernel));
}

/// A copy lies as far behind its place as the tensor behind its descriptor's beginning, wherever that is.
TEST(GatheredBuffer, HasRoomForEachCopy) {
  const AttentionDesc desc =
      desc_of("b3 h4 9x41 d32 mask=bytes:q kv_lengths=40,9,7 query_lengths=9,3,1 alibi=given sinks page=3")
          .resolved();
  for (const std::uint32_t alignment : {1U, 4U, 16U, 64U, 256U}) {
    const Capabilities device = changed(made_up_gpu(), [&](Capabilities& c) {
      c.max_stage_storage_buffers = 4;
      c.min_storage_offset_alignment = alignment;
    });
    const PlanOptions options;
    const detail::KernelConfig config = must(detail::select_kernel(desc, device, options)).config;
    const detail::LayoutRequest request{desc, device, config, options};
    const detail::ForwardLayout layout = must(detail::lay_out(request));
    EXPECT_TRUE(layout.gathers);
    const std::uint64_t aligned = detail::binding_alignment(device);
    const detail::GatheredBuffer buffer =
        detail::gathered_buffer(request, layout.split, layout.windows.front().window);
    std::uint64_t end = 4 * detail::first_partial(request);
    EXPECT_GE(end, sizeof(detail::FeatureParams));
    ASSERT_EQ(buffer.places.size(), 7U) << "the parameters and six tensors";
    end += static_cast<std::uint64_t>(4 * layout.split.splits * 3 * 4 * 9 * 33);
    for (std::size_t i = 1; i < buffer.places.size(); ++i) {
      const detail::GatheredPlace& place = buffer.places[i];
      EXPECT_EQ(place.byte % aligned, 0U);
      EXPECT_GE(place.byte, end) << "alignment " << alignment << ", binding " << place.binding;
      end = place.byte + (aligned - 1 + place.source_bytes + 3) / 4 * 4;
    }
    EXPECT_GE(buffer.bytes, end);
    EXPECT_EQ(layout.windows.front().partials.bytes, buffer.bytes);
  }
}

}  // namespace
}  // namespace vkattn::tests
