// Layers over a cache: a prompt and then single rows give the same as the whole sequence at once.
#include <vkattn/multi_head_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/layer_run.hpp"
#include "gpu/support.hpp"
#include "support/cache_reference.hpp"

namespace vkattn::tests {
namespace {

constexpr std::int64_t kBatch = 2, kPrompt = 6, kLength = 9;  // single rows follow the prompt

struct DecodeForm {
  const char* name;
  KeyMapping mapping;
  DataType type, cache_type;
  Layout layout;
  RotaryStyle rotary;
  std::int64_t d_model = 36;
  std::optional<DataType> weight_type{};
};

MultiHeadAttentionDesc whole_layer(const DecodeForm& form) {
  MultiHeadAttentionDesc desc;
  desc.d_model = form.d_model;
  desc.type = form.type;
  desc.parameter_type = DataType::kFloat32;
  desc.weight_type = form.weight_type;
  desc.attention.batch = kBatch;
  desc.attention.query_heads = 4;
  desc.attention.kv_heads = 2;
  desc.attention.head_dim = 32;
  desc.attention.query_length = kLength;
  desc.attention.causal = true;
  desc.rotary.style = form.rotary;
  desc.rotary.dims = 16;
  return desc;
}

MultiHeadAttentionDesc cached_layer(const DecodeForm& form, std::int64_t rows) {
  MultiHeadAttentionDesc desc = whole_layer(form);
  AttentionDesc& heads = desc.attention;
  desc.has_cache = true;
  heads.query_length = rows;
  heads.kv_length = 12;
  heads.align = Align::kBottomRight;
  heads.layout = form.layout;
  heads.key.type = heads.value.type = form.cache_type;
  heads.cache.mapping = form.mapping;
  if (form.mapping == KeyMapping::kPaged) {
    heads.cache.page_size = 4;
    heads.cache.page_count = 8;
    heads.cache.page_table_stride = 3;
  }
  if (form.mapping == KeyMapping::kRing) heads.cache.ring_length = 10;
  return desc;
}

/// A cache and everything else that stays from step to step.
class Decoder {
 public:
  Decoder(const Runtime& runtime, const Device& device, const DecodeForm& form, const LayerData& data)
      : runtime_(runtime), device_(device), form_(form), data_(data) {
    const AttentionDesc heads = cached_layer(form, 1).resolved().attention;
    const TensorExtents extents = key_extents(heads, heads.head_dim);
    for (Buffer* const cache : {&key_, &value_}) {
      const auto bytes = static_cast<std::size_t>(
          *tensor_bytes(heads.key, extents.batch, extents.heads, extents.rows, extents.dims));
      // Rows to which nothing was appended are NaN.
      *cache = filled_buffer(runtime, std::vector<std::byte>((bytes + 3) / 4 * 4, std::byte{0xff}));
    }
    lengths_ = filled_buffer(runtime, std::vector<std::int32_t>(kBatch, 0));
    pages_ = filled_buffer(runtime, std::vector<std::int32_t>{5, 2, 7, 0, 3, 1});
    for (const ParameterShape& parameter : parameters(whole_layer(form))) {
      Buffer buffer = filled_buffer(
          runtime, stored_parameter(parameter, data.parameters.at(std::string(parameter.name))));
      parameters_.*parameter.range = buffer.range();
      kept_.push_back(std::move(buffer));
    }
  }

  /// Runs a step of `rows` rows, those from `first` on of each batch entry. Returns their outputs.
  [[nodiscard]] std::vector<float> step(std::int64_t first, std::int64_t rows) {
    const auto plan = must(MultiHeadAttentionPlan::create(device_, cached_layer(form_, rows)));
    const std::size_t size = element_bytes(form_.type);
    std::vector<std::byte> bytes;
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const std::int64_t width = form_.d_model, row = b * kLength + first;
      for (std::int64_t i = row * width; i < (row + rows) * width; ++i) {
        const std::uint32_t bits = encoded(form_.type, data_.inputs[0][static_cast<std::size_t>(i)]);
        const auto element = std::as_bytes(std::span(&bits, 1)).first(size);
        bytes.insert(bytes.end(), element.begin(), element.end());
      }
    }
    const Buffer input = filled_buffer(runtime_, bytes), output = filled_buffer(runtime_, bytes);
    const auto workspace = must(runtime_.create_workspace(plan));
    MultiHeadAttentionTensors tensors;
    tensors.query = input.range();
    tensors.output = output.range();
    tensors.parameters = parameters_;
    tensors.cache_key = key_.range();
    tensors.cache_value = value_.range();
    tensors.positions = tensors.attention.kv_lengths = lengths_.range();
    tensors.attention.page_table = pages_.range();
    expect_ranges(plan);
    bind_and_execute(runtime_, plan, tensors, workspace.range());
    bytes = elements_of<std::byte>(runtime_, output, bytes.size());
    std::vector<float> values;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, size);
      values.push_back(decoded(form_.type, bits));
    }
    return values;
  }

 private:
  /// Checks the ranges of the tensors that belong to the cache.
  void expect_ranges(const MultiHeadAttentionPlan& plan) const {
    EXPECT_EQ(plan.range_bytes(&MultiHeadAttentionTensors::cache_key), key_.size());
    EXPECT_EQ(plan.range_bytes(&MultiHeadAttentionTensors::cache_value), value_.size());
    EXPECT_EQ(plan.range_bytes(&MultiHeadAttentionTensors::positions), kBatch * 4U);
    EXPECT_EQ(plan.range_bytes(&MultiHeadAttentionTensors::key), 0U);
    EXPECT_EQ(plan.range_bytes(&AttentionTensors::kv_lengths), kBatch * 4U);
    EXPECT_EQ(plan.range_bytes(&AttentionTensors::page_table),
              form_.mapping == KeyMapping::kPaged ? pages_.size() : 0);
    EXPECT_EQ(plan.range_bytes(&AttentionTensors::key), 0U) << "in the workspace";
  }

  const Runtime& runtime_;
  const Device& device_;
  const DecodeForm& form_;
  const LayerData& data_;
  Buffer key_, value_, lengths_, pages_;
  std::vector<Buffer> kept_;
  MultiHeadAttentionParameters parameters_;
};

class MultiHeadAttentionDecode : public GpuTest {
 protected:
  /// Compares a step's rows, those from `first` on of each batch entry, with the whole sequence.
  static void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                          std::int64_t width, std::int64_t first, double tolerance) {
    const std::int64_t rows = static_cast<std::int64_t>(got.size()) / (kBatch * width);
    ASSERT_EQ(rows, first == 0 ? kPrompt : 1);
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const double right = expected[static_cast<std::size_t>((b * kLength + first) * width + i)];
        ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(b * rows * width + i)]), right,
                    tolerance)
            << "batch entry " << b << ", row " << first + i / width;
      }
    }
  }
};

/// On the device, and on it as if it had the storage buffers that Vulkan guarantees.
TEST_F(MultiHeadAttentionDecode, EqualsTheWholeSequence) {
  const Device few = device_with([](Capabilities& c) { c.max_stage_storage_buffers = 4; });
  constexpr DataType k32 = DataType::kFloat32, k16 = DataType::kFloat16;
  for (const DecodeForm& form : part_of<DecodeForm>(
           {{"contiguous", KeyMapping::kContiguous, k32, k32, Layout::kBhsd, RotaryStyle::kNone},
            {"pages", KeyMapping::kPaged, k32, k32, Layout::kBshd, RotaryStyle::kHalfSplit},
            {"ring", KeyMapping::kRing, k32, k32, Layout::kBhsd, RotaryStyle::kInterleaved},
            {"16 bits", KeyMapping::kContiguous, k16, k16, Layout::kBshd, RotaryStyle::kHalfSplit},
            {"quantised", KeyMapping::kContiguous, k32, DataType::kQ8_0, Layout::kBhsd, RotaryStyle::kNone},
            {"quantised weights", KeyMapping::kContiguous, k32, k32, Layout::kBhsd, RotaryStyle::kHalfSplit,
             32, DataType::kQ4_0}})) {
    SCOPED_TRACE(form.name);
    const LayerData data = random_layer_data(whole_layer(form), 11);
    const LayerResults expected = layer_reference(whole_layer(form).resolved(), data);
    double largest = 0;
    for (const double value : expected.output) largest = std::max(largest, std::abs(value));
    // A block of q8_0 has steps of 1/254 of its largest element.
    const double roundoff = form.cache_type == DataType::kQ8_0 ? 1.0 / 64
                            : form.type == k32                 ? 0x1p-18
                                                               : 0x1p-8;
    for (const Device* const device : {&runtime().device(), &few}) {
      Decoder decoder(runtime(), *device, form, data);
      for (std::int64_t first = 0; first < kLength;) {
        const std::int64_t rows = first == 0 ? kPrompt : 1;
        expect_near(decoder.step(first, rows), expected.output, form.d_model, first, roundoff * largest);
        first += rows;
      }
    }
  }
}

/// The append before attention still has its tensors.
TEST_F(MultiHeadAttentionDecode, AStepWithoutRowsTellsTheBytesOfLengths) {
  MultiHeadAttentionDesc desc = cached_layer({"", KeyMapping::kContiguous, DataType::kFloat32,
                                              DataType::kFloat32, Layout::kBhsd, RotaryStyle::kNone},
                                             0);
  desc.attention.query_lengths = Lengths::kPerEntry;
  const auto plan = must(runtime().make_plan(desc));
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::kv_lengths), kBatch * 4U);
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::query_lengths), kBatch * 4U);
}

}  // namespace
}  // namespace vkattn::tests
