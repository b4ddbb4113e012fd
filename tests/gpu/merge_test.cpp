// Merging attention over parts of the keys: against the formula, in place, and as keys that lie on two
// devices.
#include <vkattn/merge.hpp>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> stored(const std::vector<float>& values, DataType type) {
  std::vector<std::byte> bytes;
  for (const float value : values) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if (type == DataType::kFloat16) bits = float_to_half(value);
    if (type == DataType::kBfloat16) bits = float_to_bfloat16(value);
    for (std::uint32_t i = 0; i < element_bytes(type); ++i)
      bytes.push_back(static_cast<std::byte>(bits >> 8U * i));
  }
  return bytes;
}

float loaded(std::span<const std::byte> bytes, std::size_t index, DataType type) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * element_bytes(type), element_bytes(type));
  if (type == DataType::kFloat16) return half_to_float(static_cast<std::uint16_t>(bits));
  if (type == DataType::kBfloat16) return bfloat16_to_float(static_cast<std::uint16_t>(bits));
  return std::bit_cast<float>(bits);
}

/// Parts in host memory and what they are merged to.
struct Parts {
  MergeDesc desc;
  std::vector<float> outputs, lse;

  /// Every fifth row of a part sees nothing, and has an output that must not count.
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
    // As the device reads them.
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
    std::vector<std::byte> bytes(static_cast<std::size_t>(range.size));
    EXPECT_TRUE(runtime().read(buffer, range.offset, bytes).ok());
    return bytes;
  }

  /// On the same physical device, with a VkDevice of its own.
  static Result<Runtime> another_runtime() {
    RuntimeOptions options;
    options.pipeline_cache = false;
    options.validation =
        !runtime().validation_messages().empty() || std::getenv("VKATTN_VALIDATION") != nullptr;
    return Runtime::create(options);
  }

  static void run(const MergePlan& plan, const MergeTensors& tensors) {
    const auto bindings = plan.make_bindings(tensors);
    ASSERT_TRUE(bindings.ok()) << bindings.error().message;
    const auto done = runtime().execute([&](VkCommandBuffer commands) { plan.record(commands, *bindings); });
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  static void expect_merged(const Parts& parts, std::span<const std::byte> output,
                            std::span<const std::byte> lse) {
    // Of a unit of the result's type, and of float32 for the weights.
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
    const auto plan = MergePlan::create(runtime().device(), desc);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    SCOPED_TRACE(plan->describe());
    // Places that no alignment is lucky for.
    const Buffer buffer = runtime().create_buffer(1U << 20U).value();
    std::vector<std::byte> before(1U << 20U, std::byte{0xa5});
    MergeTensors tensors;
    VkDeviceSize at = 4;
    const auto take = [&](BufferRange MergeTensors::*tensor) {
      const VkDeviceSize bytes = plan->range_bytes(tensor, at);
      if (bytes == 0) return;
      tensors.*tensor = {buffer.handle(), at, bytes};
      at += bytes + 20;
    };
    for (const auto tensor :
         {&MergeTensors::parts, &MergeTensors::part_lse, &MergeTensors::output, &MergeTensors::lse}) {
      take(tensor);
    }
    const auto outputs = stored(parts.outputs, desc.part_type);
    const auto lse = stored(parts.lse, DataType::kFloat32);
    std::copy(outputs.begin(), outputs.end(),
              before.begin() + static_cast<std::ptrdiff_t>(tensors.parts.offset));
    std::copy(lse.begin(), lse.end(), before.begin() + static_cast<std::ptrdiff_t>(tensors.part_lse.offset));
    ASSERT_TRUE(runtime().write(buffer, 0, before).ok());
    run(*plan, tensors);
    expect_merged(parts, read(buffer, tensors.output), read(buffer, tensors.lse));
    // Nothing else was touched.
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
  const auto plan = MergePlan::create(runtime().device(), desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto outputs = stored(parts.outputs, desc.part_type);
  const auto lse = stored(parts.lse, DataType::kFloat32);
  const Buffer output_buffer = runtime().create_buffer(outputs.size()).value();
  const Buffer lse_buffer = runtime().create_buffer(lse.size()).value();
  ASSERT_TRUE(runtime().write(output_buffer, 0, outputs).ok());
  ASSERT_TRUE(runtime().write(lse_buffer, 0, lse).ok());
  MergeTensors tensors;
  tensors.parts = output_buffer.range();
  tensors.part_lse = lse_buffer.range();
  tensors.output = {output_buffer.handle(), 0, outputs.size() / 2};
  tensors.lse = {lse_buffer.handle(), 0, lse.size() / 2};
  run(*plan, tensors);
  expect_merged(parts, read(output_buffer, tensors.output), read(lse_buffer, tensors.lse));
}

// Batch entries, or KV heads with their query heads, are shared out by plans on parts of the same arrays:
// nothing is merged.
TEST_F(MergeTest, BatchOrHeadsOnTwoDevices) {
  const auto other = another_runtime();
  ASSERT_TRUE(other.ok()) << other.error().message;
  const Runtime* const devices[] = {&runtime(), &*other};
  for (const bool by_batch : {true, false}) {
    AttentionDesc desc;
    desc.batch = by_batch ? 3 : 1;
    desc.query_heads = 6;
    desc.kv_heads = 3;
    desc.query_length = 17;
    desc.kv_length = 90;
    desc.head_dim = 16;
    desc.causal = true;
    desc.align = Align::kBottomRight;
    std::mt19937 random(6);
    std::normal_distribution<float> values;
    const auto tensor = [&](std::int64_t heads, std::int64_t rows) {
      std::vector<float> all(static_cast<std::size_t>(desc.batch * heads * rows * desc.head_dim));
      for (float& value : all) value = values(random);
      return all;
    };
    const std::vector<float> query = tensor(6, 17), key = tensor(3, 90), value = tensor(3, 90);
    std::vector<float> whole(query.size()), shared(query.size());
    ASSERT_TRUE(runtime().compute(desc, {.query = query, .key = key, .value = value, .output = whole}).ok());
    // A third on the first device, the rest on the second.
    for (std::size_t part = 0; part < 2; ++part) {
      AttentionDesc its = desc;
      const std::int64_t share = part == 0 ? 1 : 2;
      (by_batch ? its.batch : its.kv_heads) = share;
      if (!by_batch) its.query_heads = 2 * share;
      const auto range = [&](auto& all) {
        const std::size_t third = all.size() / 3;
        return std::span(all).subspan(part * third, (1 + part) * third);
      };
      ASSERT_TRUE(
          devices[part]
              ->compute(
                  its,
                  {.query = range(query), .key = range(key), .value = range(value), .output = range(shared)})
              .ok());
    }
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(shared[i], whole[i], 1e-5F) << i;
  }
}

// Each of two devices has one half of the keys; the halves' results meet on the first.
TEST_F(MergeTest, KeysOnTwoDevices) {
  const std::int64_t heads = 3, queries = 17, keys = 90, dim = 16;
  AttentionDesc desc;
  desc.query_heads = heads;
  desc.query_length = queries;
  desc.kv_length = keys;
  desc.head_dim = dim;
  desc.has_lse = true;
  std::mt19937 random(5);
  std::normal_distribution<float> values;
  const auto tensor = [&](std::int64_t rows) {
    std::vector<float> all(static_cast<std::size_t>(heads * rows * dim));
    for (float& value : all) value = values(random);
    return all;
  };
  const std::vector<float> query = tensor(queries), key = tensor(keys), value = tensor(keys);
  std::vector<float> whole(query.size()), whole_lse(static_cast<std::size_t>(heads * queries));
  ASSERT_TRUE(
      runtime()
          .compute(desc, {.query = query, .key = key, .value = value, .output = whole, .lse = whole_lse})
          .ok());

  const auto other = another_runtime();
  ASSERT_TRUE(other.ok()) << other.error().message;
  const std::int64_t first_keys = 50;
  std::vector<float> outputs(2 * whole.size()), lse(2 * whole_lse.size());
  const auto half = [&](const std::vector<float>& all, std::int64_t begin, std::int64_t end) {
    std::vector<float> rows;
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto at = [&](std::int64_t row) { return all.begin() + (head * keys + row) * dim; };
      rows.insert(rows.end(), at(begin), at(end));
    }
    return rows;
  };
  const Runtime* const devices[] = {&runtime(), &*other};
  for (std::size_t part = 0; part < 2; ++part) {
    const std::int64_t begin = part == 0 ? 0 : first_keys, end = part == 0 ? first_keys : keys;
    desc.kv_length = end - begin;
    const std::vector<float> k = half(key, begin, end), v = half(value, begin, end);
    ASSERT_TRUE(
        devices[part]
            ->compute(desc, {.query = query,
                             .key = k,
                             .value = v,
                             .output = std::span(outputs).subspan(part * whole.size(), whole.size()),
                             .lse = std::span(lse).subspan(part * whole_lse.size(), whole_lse.size())})
            .ok());
  }
  const auto plan = MergePlan::create(runtime().device(), {heads * queries, dim, 2});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Buffer parts = runtime().create_buffer(outputs.size() * 4).value();
  const Buffer part_lse = runtime().create_buffer(lse.size() * 4).value();
  const Buffer output = runtime().create_buffer(whole.size() * 4).value();
  const Buffer merged_lse = runtime().create_buffer(whole_lse.size() * 4).value();
  ASSERT_TRUE(runtime().write(parts, 0, std::as_bytes(std::span(outputs))).ok());
  ASSERT_TRUE(runtime().write(part_lse, 0, std::as_bytes(std::span(lse))).ok());
  run(*plan, {parts.range(), part_lse.range(), output.range(), merged_lse.range()});
  const auto got = read(output, output.range());
  const auto got_lse = read(merged_lse, merged_lse.range());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(loaded(got, i, DataType::kFloat32), whole[i], 1e-5F) << i;
  }
  for (std::size_t i = 0; i < whole_lse.size(); ++i) {
    ASSERT_NEAR(loaded(got_lse, i, DataType::kFloat32), whole_lse[i], 1e-5F) << i;
  }
}

TEST_F(MergeTest, MistakesAreRefused) {
  const auto refused = [](const MergeDesc& desc) {
    const auto plan = MergePlan::create(runtime().device(), desc);
    return plan.ok() ? std::string() : plan.error().message;
  };
  EXPECT_NE(refused({-1, 4, 2}).find("rows is -1"), std::string::npos);
  EXPECT_NE(refused({4, 4, 0}).find("parts is 0"), std::string::npos);
  EXPECT_NE(refused({4, 32, 2, DataType::kQ8_0}).find("q8_0"), std::string::npos);
  EXPECT_NE(refused({3, 5, 2, DataType::kFloat32, DataType::kFloat16}).find("15 elements"),
            std::string::npos);
  EXPECT_NE(refused({std::int64_t{1} << 33, 64, 2}).find("maxStorageBufferRange"), std::string::npos);
  EXPECT_NE(refused({std::int64_t{1} << 60, 64, 64}).find("more than any buffer has"), std::string::npos);
  const auto plan = MergePlan::create(runtime().device(), {4, 4, 2});
  ASSERT_TRUE(plan.ok());
  const Buffer buffer = runtime().create_buffer(100).value();
  const Buffer other = runtime().create_buffer(1000).value();
  const auto bindings = plan->make_bindings({buffer.range(), other.range(), buffer.range(), other.range()});
  ASSERT_FALSE(bindings.ok());
  EXPECT_NE(bindings.error().message.find("the parts tensor needs 128 bytes"), std::string::npos)
      << bindings.error().message;
  // In the midst of the parts, and over parts of another type.
  const MergeTensors shifted{other.range(), buffer.range(), other.range(64), buffer.range()};
  EXPECT_NE(plan->make_bindings(shifted).error().message.find("overlaps the parts"), std::string::npos);
  const auto converting = MergePlan::create(runtime().device(), {4, 4, 2, DataType::kFloat16});
  ASSERT_TRUE(converting.ok());
  const MergeTensors same{other.range(), buffer.range(), other.range(), buffer.range()};
  EXPECT_NE(converting->make_bindings(same).error().message.find("overlaps the parts"), std::string::npos);
}

}  // namespace
}  // namespace vkattn::tests
