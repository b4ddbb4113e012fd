// Merges attention over parts of the keys, also in place, and compares with the formula.
#include <vkattn/merge.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "gpu/support.hpp"
#include "merge/merge_tensors.hpp"
#include "support/cache_reference.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> stored(const std::vector<float>& values, DataType type) {
  std::vector<std::byte> bytes;
  for (const float value : values) {
    const std::uint32_t bits = encoded(type, value);
    const auto element = std::as_bytes(std::span(&bits, 1)).first(element_bytes(type));
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return bytes;
}

float loaded(std::span<const std::byte> bytes, std::size_t index, DataType type) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * element_bytes(type), element_bytes(type));
  return decoded(type, bits);
}

/// Parts in host memory, and what they are merged to.
struct Parts {
  MergeDesc desc;
  std::vector<float> outputs, lse;

  /// Every fifth row of a part sees no key. Its output must not count.
  Parts(const MergeDesc& of, unsigned seed) : desc(of) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-2, 2);
    for (std::int64_t i = 0; i < desc.parts * desc.rows; ++i) {
      const bool sees_nothing = random() % 5 == 0;
      lse.push_back(sees_nothing ? kNothing : 20 * values(random));
      for (std::int64_t dim = 0; dim < desc.value_dim; ++dim) {
        outputs.push_back(sees_nothing ? kNaN : values(random));
      }
    }
    // Rounds the outputs to what the device reads.
    const auto bytes = stored(outputs, desc.part_type);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = loaded(bytes, i, desc.part_type);
  }

  [[nodiscard]] double weight(std::int64_t part, std::int64_t row) const {
    const double all = merged_lse(row);
    return all == static_cast<double>(kNothing) ? 0.0 : std::exp(part_lse(part, row) - all);
  }
  [[nodiscard]] double merged_lse(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t part = 0; part < desc.parts; ++part) sum += std::exp(part_lse(part, row));
    return std::log(sum);
  }
  [[nodiscard]] double merged(std::int64_t row, std::int64_t dim) const {
    double sum = 0;
    for (std::int64_t part = 0; part < desc.parts; ++part) {
      const double w = weight(part, row);
      const auto at = static_cast<std::size_t>((part * desc.rows + row) * desc.value_dim + dim);
      if (w != 0) sum += w * static_cast<double>(outputs[at]);
    }
    return sum;
  }

 private:
  [[nodiscard]] double part_lse(std::int64_t part, std::int64_t row) const {
    return static_cast<double>(lse[static_cast<std::size_t>(part * desc.rows + row)]);
  }
};

class MergeTest : public GpuTest {
 protected:
  static std::vector<std::byte> read(const Buffer& buffer, const BufferRange& range) {
    return elements_of<std::byte>(runtime(), buffer, static_cast<std::size_t>(range.size), range.offset);
  }

  static void expect_merged(const Parts& parts, std::span<const std::byte> output,
                            std::span<const std::byte> lse) {
    // The unit of the result's type, plus that of float32 for the weights.
    const MergeDesc& desc = parts.desc;
    const double unit = desc.output_type == DataType::kFloat32   ? 1e-6
                        : desc.output_type == DataType::kFloat16 ? 1.0 / 1024
                                                                 : 1.0 / 128;
    for (std::int64_t row = 0; row < desc.rows; ++row) {
      const double all = parts.merged_lse(row);
      if (desc.has_lse) {
        const auto got = static_cast<double>(loaded(lse, static_cast<std::size_t>(row), DataType::kFloat32));
        if (std::isinf(all)) {
          EXPECT_EQ(got, all) << "row " << row;
        } else {
          EXPECT_NEAR(got, all, 1e-5 * (1 + std::abs(all))) << "row " << row;
        }
      }
      for (std::int64_t dim = 0; dim < desc.value_dim; ++dim) {
        const auto at = static_cast<std::size_t>(row * desc.value_dim + dim);
        ASSERT_NEAR(static_cast<double>(loaded(output, at, desc.output_type)), parts.merged(row, dim),
                    4 * unit)
            << "row " << row << ", dim " << dim;
      }
    }
  }
};

TEST_F(MergeTest, IsTheFormula) {
  const MergeDesc all[] = {
      {1, 1, 1},
      {7, 5, 2},
      {33, 64, 3, DataType::kFloat16, DataType::kFloat32, false},
      {65, 12, 2, DataType::kBfloat16, DataType::kBfloat16},
      {1000, 2, 9, DataType::kFloat32, DataType::kFloat16},
      {3, 0, 2},
  };
  for (const MergeDesc& desc : all) {
    const Parts parts(desc, 7);
    const auto plan = must(MergePlan::create(runtime().device(), desc));
    SCOPED_TRACE(plan.describe());
    // Uses places with no more alignment than is promised.
    std::vector<std::byte> before(1U << 20U, std::byte{0xa5});
    const Buffer buffer = filled_buffer(runtime(), before);
    MergeTensors tensors;
    VkDeviceSize at = 4;
    for (const auto& row : detail::tensor_table<MergeTensors>()) {
      const VkDeviceSize bytes = plan.range_bytes(row.range, at);
      if (bytes == 0) continue;
      tensors.*row.range = {buffer.handle(), at, bytes};
      at += bytes + 20;
    }
    const auto outputs = stored(parts.outputs, desc.part_type);
    const auto lse = stored(parts.lse, DataType::kFloat32);
    std::copy(outputs.begin(), outputs.end(),
              before.begin() + static_cast<std::ptrdiff_t>(tensors.parts.offset));
    std::copy(lse.begin(), lse.end(), before.begin() + static_cast<std::ptrdiff_t>(tensors.part_lse.offset));
    ASSERT_TRUE(runtime().write(buffer, 0, before).ok());
    bind_and_execute(runtime(), plan, tensors);
    expect_merged(parts, read(buffer, tensors.output), read(buffer, tensors.lse));
    // No other bytes were written.
    std::vector<std::byte> after = read(buffer, buffer.range());
    for (const BufferRange& written : {tensors.output, tensors.lse}) {
      const auto first = static_cast<std::ptrdiff_t>(written.offset);
      std::copy_n(before.begin() + first, written.size, after.begin() + first);
    }
    EXPECT_TRUE(after == before);
  }
}

TEST_F(MergeTest, OnePartMoreIsMergedIntoTheFirst) {
  const MergeDesc desc{41, 24, 2};
  const Parts parts(desc, 3);
  const auto plan = must(MergePlan::create(runtime().device(), desc));
  const Buffer outputs = filled_buffer(runtime(), parts.outputs), lse = filled_buffer(runtime(), parts.lse);
  const MergeTensors tensors{outputs.range(),
                             lse.range(),
                             {outputs.handle(), 0, outputs.size() / 2},
                             {lse.handle(), 0, lse.size() / 2}};
  bind_and_execute(runtime(), plan, tensors);
  expect_merged(parts, read(outputs, tensors.output), read(lse, tensors.lse));
}

// Each of two devices has half of the keys. The results meet on the first device.
TEST_F(MergeTest, KeysOnTwoDevices) {
  constexpr std::size_t kQueries = 17, kKeys = 90, kFirstKeys = 50, kDim = 16;
  AttentionDesc desc;
  desc.query_heads = 1;
  desc.query_length = kQueries;
  desc.kv_length = kKeys;
  desc.head_dim = kDim;
  desc.has_lse = true;
  std::mt19937 random(5);
  std::normal_distribution<float> values;
  std::vector<float> query(kQueries * kDim), key(kKeys * kDim), value(kKeys * kDim);
  for (auto* const tensor : {&query, &key, &value}) {
    for (float& element : *tensor) element = values(random);
  }
  std::vector<float> whole(query.size()), whole_lse(kQueries), outputs(2 * whole.size()), lse(2 * kQueries);
  must(runtime().compute(desc,
                         {.query = query, .key = key, .value = value, .output = whole, .lse = whole_lse}));
  // The second is the same physical device with a VkDevice of its own.
  RuntimeOptions own;
  own.pipeline_cache = false;
  const Runtime other = must(Runtime::create(own));
  for (const bool second : {false, true}) {
    const std::size_t begin = second ? kFirstKeys : 0, keys = second ? kKeys - kFirstKeys : kFirstKeys;
    desc.kv_length = static_cast<std::int64_t>(keys);
    const auto part = [&](std::vector<float>& all, std::size_t width) {
      return std::span(all).subspan(begin * width, keys * width);
    };
    const auto result = [&](std::vector<float>& all) {
      return std::span(all).subspan(second ? all.size() / 2 : 0, all.size() / 2);
    };
    must((second ? other : runtime())
             .compute(desc, {.query = query,
                             .key = part(key, kDim),
                             .value = part(value, kDim),
                             .output = result(outputs),
                             .lse = result(lse)}));
  }
  const Buffer parts = filled_buffer(runtime(), outputs), part_lse = filled_buffer(runtime(), lse);
  const Buffer output = must(runtime().create_buffer(whole.size() * 4));
  const Buffer merged_lse = must(runtime().create_buffer(whole_lse.size() * 4));
  bind_and_execute(runtime(), must(MergePlan::create(runtime().device(), {kQueries, kDim, 2})),
                   MergeTensors{parts.range(), part_lse.range(), output.range(), merged_lse.range()});
  const auto got = elements_of<float>(runtime(), output, whole.size());
  const auto got_lse = elements_of<float>(runtime(), merged_lse, whole_lse.size());
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(got[i], whole[i], 1e-5F) << i;
  for (std::size_t i = 0; i < whole_lse.size(); ++i) ASSERT_NEAR(got_lse[i], whole_lse[i], 1e-5F) << i;
}

TEST_F(MergeTest, NamesLimitsOfBuffers) {
  const auto refused = [](const MergeDesc& desc) {
    return message_of(MergePlan::create(runtime().device(), desc));
  };
  EXPECT_TRUE(has(refused({std::int64_t{1} << 33, 64, 2}), "maxStorageBufferRange"));
  EXPECT_TRUE(has(refused({std::int64_t{1} << 60, 64, 64}), "more than any buffer has"));
}

}  // namespace
}  // namespace vkattn::tests
