// Runs an append on the device and on the reference: see cache_run.hpp.
#include "gpu/cache_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "cache/append_tensors.hpp"
#include "gpu/cache_image.hpp"
#include "harness/data.hpp"
#include "harness/quantise.hpp"
#include "support/cache_reference.hpp"

namespace vkattn::tests {

namespace {

/// One of the tensors of new rows, and its target.
struct Part {
  const char* name;
  BufferRange AppendTensors::*source_range;
  BufferRange AppendTensors::*target_range;
  bool rotated, cached;
  const std::vector<float>* scales = nullptr;
  TensorDesc source{}, target{};
  TensorExtents extents{};
};

class AppendRun {
 public:
  AppendRun(const Runtime& runtime, const AppendCase& test, const AppendRunOptions& options)
      : runtime_(runtime), test_(test), options_(options) {}

  testing::AssertionResult run() {
    const AppendPlan plan = make_plan();
    make_images();
    upload();
    execute(plan);
    auto result = compare();
    if (options_.report != nullptr) *options_.report = report_;
    return result ? result : result << "\n" << plan.describe();
  }

 private:
  [[nodiscard]] AppendPlan make_plan() const {
    std::optional<AppendPlan>* const kept = test_.push_descriptors ? nullptr : options_.kept;
    if (kept != nullptr && kept->has_value() && (*kept)->desc() == test_.desc) return **kept;
    AppendPlan plan = must(AppendPlan::create(
        options_.device.value_or(runtime_.device()), test_.desc,
        {.pipeline_cache = runtime_.pipeline_cache(), .push_descriptors = test_.push_descriptors}));
    if (kept != nullptr) *kept = plan;
    return plan;
  }

  /// Fills all buffers with their contents before the append: new rows and numbers between NaN, other words
  /// elsewhere.
  void make_images() {
    using T = AppendTensors;
    parts_ = {{"key", &T::key, &T::cache_key, true, true, &test_.key_scales},
              {"value", &T::value, &T::cache_value, false, true, &test_.value_scales},
              {"query", &T::query, &T::query_output, true, false}};
    for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
      if (shares_its_image(row.range)) continue;
      images_[row.range] = make_image(static_cast<std::int64_t>(row.bytes(test_.desc)),
                                      test_.shift * element_bytes(row.storage(test_.desc).type),
                                      row.use.written ? 0xd5dbd1ddU : 0x7fc0beefU);
    }
    for (Part& part : parts_) {
      part.source = detail::row_of(part.source_range).storage(test_.desc);
      part.target = detail::row_of(part.target_range).storage(test_.desc);
      part.extents = detail::row_of(part.source_range).extents(test_.desc);
      fill(part, static_cast<std::uint64_t>(&part - parts_.data()));
    }
    const auto numbers = [&](BufferRange T::*range, const auto& values) {
      const auto bytes = std::as_bytes(std::span(values));
      const std::size_t used = std::min<std::size_t>(bytes.size(), detail::row_of(range).bytes(test_.desc));
      if (used != 0) std::ranges::copy(bytes.first(used), images_[range].at(0, used).begin());
    };
    numbers(&T::positions, test_.positions);
    numbers(&T::new_lengths, test_.new_lengths);
    numbers(&T::cumulative_new_lengths, test_.cumulative_new_lengths);
    numbers(&T::page_table, test_.page_table);
    numbers(&T::key_scales, test_.key_scales);
    numbers(&T::value_scales, test_.value_scales);
    numbers(&T::frequencies, test_.frequencies);
  }

  [[nodiscard]] bool shares_its_image(BufferRange AppendTensors::*range) const {
    return test_.in_place && range == &AppendTensors::query_output;
  }
  [[nodiscard]] Image& image(BufferRange AppendTensors::*range) {
    return images_[shares_its_image(range) ? &AppendTensors::query : range];
  }

  void fill(const Part& part, std::uint64_t stream) {
    const TensorExtents& e = part.extents;
    Image& from = image(part.source_range);
    if (from.bytes.empty()) return;
    std::uint64_t counter = 0;
    for (std::int64_t b = 0; b < e.batch; ++b) {
      for (std::int64_t h = 0; h < e.heads; ++h) {
        for (std::int64_t r = 0; r < e.rows; ++r) {
          for (std::int64_t d = 0; d < e.dims; ++d, ++counter) {
            const DataType type = part.source.type;
            const bool given = stream == 0 && !test_.key_elements.empty();
            write_bits(from, part.source, byte_of(part.source, b, h, r, d),
                       given ? encoded(type, test_.key_elements[counter])
                             : random_element(type, test_.seed * 8 + stream, counter));
          }
        }
      }
    }
  }

  /// Never 0, and in float16 never subnormal, because a device may flush subnormals.
  std::uint32_t random_element(DataType type, std::uint64_t stream, std::uint64_t counter) const {
    if (test_.any_bits) {
      const std::uint64_t bits = harness::random_bits(stream, counter);
      return static_cast<std::uint32_t>(type == DataType::kFloat32 ? bits : bits & 0xffffU);
    }
    const double uniform = 2 * harness::random_uniform(stream, counter) - 1;
    const double far_from_0 = std::copysign(std::max(std::abs(uniform), 0x1p-12), uniform);
    return encoded(type, static_cast<float>(far_from_0 * test_.magnitude));
  }

  void upload() {
    for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
      Image& its = images_[row.range];
      if (!its.bytes.empty()) its.buffer = filled_buffer(runtime_, its.bytes);
    }
  }

  void execute(const AppendPlan& plan) {
    AppendTensors tensors;
    for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
      tensors.*row.range = image(row.range).range();
    }
    if (!test_.push_descriptors) return bind_and_execute(runtime_, plan, tensors);
    Result<void> status;
    must(runtime_.execute([&](VkCommandBuffer c) { status = plan.record(c, tensors); }));
    must(status);
  }

  testing::AssertionResult compare() {
    for (const Part& part : parts_) {
      Image& target = image(part.target_range);
      if (target.bytes.empty()) continue;
      got_.offset = target.offset;
      got_.bytes = elements_of<std::byte>(runtime_, target.buffer, target.bytes.size());
      // Expected rows are computed from the source, which in place is also the target. Each row's elements
      // are read before it is written.
      if (auto r = expect_rows(part, target); !r) return r;
    }
    if (test_.desc.writes_kv_lengths) expect_lengths();
    for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
      if (auto r = same_bytes(row.name, images_[row.range]); !r) return r;
    }
    return testing::AssertionSuccess();
  }

  void expect_lengths() {
    const std::int64_t room = test_.desc.cache.mapping == KeyMapping::kContiguous ? test_.desc.cache_length
                              : test_.desc.cache.mapping == KeyMapping::kRing
                                  ? std::int64_t{0x7fffffff}
                                  : test_.desc.cache.page_size * test_.desc.cache.page_table_stride;
    for (std::int64_t b = 0; b < test_.desc.batch; ++b) {
      const auto length =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(position_of(b) + rows_of(b).count, 0, room));
      std::memcpy(image(&AppendTensors::kv_lengths).at(b * 4, 4).data(), &length, 4);
    }
  }

  testing::AssertionResult same_bytes(std::string_view name, const Image& image) const {
    if (image.bytes.empty()) return testing::AssertionSuccess();
    const auto now = elements_of<std::byte>(runtime_, image.buffer, image.bytes.size());
    const auto [want, is] = std::mismatch(image.bytes.begin(), image.bytes.end(), now.begin());
    if (want == image.bytes.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << name << ": byte " << want - image.bytes.begin() - static_cast<std::ptrdiff_t>(image.offset)
           << " from the first element on is " << static_cast<int>(*is) << " but should be "
           << static_cast<int>(*want);
  }

  [[nodiscard]] std::int64_t position_of(std::int64_t b) const {
    return test_.desc.has_positions ? test_.positions[static_cast<std::size_t>(b)] : test_.desc.position;
  }
  [[nodiscard]] NewRows rows_of(std::int64_t b) const {
    return new_rows(test_.desc, test_.new_lengths, test_.cumulative_new_lengths, b);
  }

  /// Whether a row also belongs to another batch entry. Then either entry may append its row there.
  [[nodiscard]] bool is_shared(std::int64_t batch, const CacheRow& from) const {
    for (std::int64_t b = 0; b < test_.desc.batch; ++b) {
      const NewRows rows = rows_of(b);
      const bool has = rows.first.batch == from.batch && from.row >= rows.first.row &&
                       from.row < rows.first.row + rows.count;
      if (b != batch && has) return true;
    }
    return false;
  }

  /// Whether the elements of a row of the target are unchanged.
  [[nodiscard]] bool is_untouched(const Part& part, Image& target, const CacheRow& row, std::int64_t head) {
    for (std::int64_t d = 0; d < part.extents.dims; d += block_elements(part.target.type)) {
      const std::int64_t byte = byte_of(part.target, row.batch, head, row.row, d);
      const std::size_t size = block_bytes(part.target.type);
      const auto was = target.at(byte, size);
      if (!std::equal(was.begin(), was.end(), got_.at(byte, size).begin())) return false;
    }
    return true;
  }

  testing::AssertionResult expect_rows(const Part& part, Image& target) {
    const CacheLayout& cache = test_.desc.cache;
    for (std::int64_t b = 0; b < test_.desc.batch; ++b) {
      const NewRows rows = rows_of(b);
      for (std::int64_t r = 0; r < rows.count; ++r) {
        const std::int64_t position = position_of(b) + r;
        const CacheRow from{rows.first.batch, rows.first.row + r};
        std::optional<CacheRow> row = from;
        if (part.cached) row = cache_row(test_.desc, test_.page_table, b, position);
        if (!row || is_behind_the_last(test_.desc, test_.cumulative_new_lengths, from.row)) continue;
        if (part.cached && cache.mapping == KeyMapping::kRing && r + cache.ring_length < rows.count) continue;
        for (std::int64_t h = 0; h < part.extents.heads; ++h) {
          if (is_shared(b, from) && is_untouched(part, target, *row, h)) continue;
          if (auto result = expect_row(part, target, from, *row, h, position); !result) {
            return result << ": " << part.name << ", batch " << b << ", head " << h << ", row " << r;
          }
        }
      }
    }
    return testing::AssertionSuccess();
  }

  testing::AssertionResult expect_row(const Part& part, Image& target, const CacheRow& from,
                                      const CacheRow& to, std::int64_t head, std::int64_t position) {
    const auto dims = static_cast<std::size_t>(part.extents.dims);
    std::vector<std::uint32_t> bits(dims);
    std::vector<float> elements(dims);
    for (std::size_t d = 0; d < dims; ++d) {
      bits[d] = read_bits(image(part.source_range), part.source,
                          byte_of(part.source, from.batch, head, from.row, static_cast<std::int64_t>(d)));
      elements[d] = decoded(part.source.type, bits[d]);
    }
    const RotaryDesc rotary = part.rotated ? test_.desc.rotary : RotaryDesc{};
    if (block_elements(part.target.type) > 1) {
      const std::vector<double> row = rotated(elements, rotary, test_.frequencies, position);
      for (std::size_t d = 0; d < dims; d += 32) {
        const std::int64_t byte = byte_of(part.target, to.batch, head, to.row, static_cast<std::int64_t>(d));
        const auto tensor_block = target.at(byte, block_bytes(part.target.type));
        if (rotary.style == RotaryStyle::kNone) {
          harness::quantise_block(part.target.type, std::span(elements).subspan(d, 32), tensor_block);
        } else if (auto r = accept_block(part, tensor_block, byte, std::span(row).subspan(d, 32)); !r) {
          return r << " in the block of dim " << d;
        }
      }
      return testing::AssertionSuccess();
    }
    return expect_elements(part, target, bits, elements, to, head, position);
  }

  testing::AssertionResult expect_elements(const Part& part, Image& target,
                                           const std::vector<std::uint32_t>& bits,
                                           const std::vector<float>& elements, const CacheRow& to,
                                           std::int64_t head, std::int64_t position) {
    const RotaryDesc rotary = part.rotated ? test_.desc.rotary : RotaryDesc{};
    const std::vector<double> row = rotated(elements, rotary, test_.frequencies, position);
    const DataType type = part.target.type;
    float scale = 1;
    if (type == DataType::kFloat8E4m3) scale = (*part.scales)[static_cast<std::size_t>(head)];
    const float inverse = 1.0F / scale;
    for (std::size_t d = 0; d < row.size(); ++d) {
      const std::int64_t byte = byte_of(part.target, to.batch, head, to.row, static_cast<std::int64_t>(d));
      const bool turns = rotary.style != RotaryStyle::kNone && std::cmp_less(d, rotary.dims);
      if (!turns) {
        const bool copies = part.source.type == type;
        write_bits(target, part.target, byte, copies ? bits[d] : encoded(type, elements[d] * inverse));
        continue;
      }
      const std::uint32_t got = read_bits(got_, part.target, byte);
      const std::size_t partner = partner_of(rotary, d);
      const double larger = std::max(std::abs(static_cast<double>(elements[d])),
                                     std::abs(static_cast<double>(elements[partner]))) *
                            std::abs(static_cast<double>(rotary.magnitude));
      const double error = std::abs(static_cast<double>(decoded(type, got) * scale) - row[d]);
      const double allowed = larger * 0x1p-20 + storage_rounding(type, row[d], scale);
      if (!(error <= allowed)) {
        return testing::AssertionFailure() << "dim " << d << " is " << decoded(type, got) * scale
                                           << " but should be " << row[d] << " at position " << position;
      }
      if (type == DataType::kFloat32) report_.largest_error = std::max(report_.largest_error, error / larger);
      write_bits(target, part.target, byte, got);
      ++report_.rotated_elements;
    }
    return testing::AssertionSuccess();
  }

  static std::size_t partner_of(const RotaryDesc& rotary, std::size_t d) {
    if (rotary.style == RotaryStyle::kInterleaved) return d ^ 1U;
    const auto half = static_cast<std::size_t>(rotary.dims / 2);
    return d < half ? d + half : d - half;
  }

  /// Half a unit in the last place, for a value within the range of the type.
  static double storage_rounding(DataType type, double value, float scale) {
    const double magnitude = std::abs(value) * 1.0001;
    switch (type) {
      case DataType::kFloat16:
        return std::max(magnitude * 0x1p-11, 0x1p-25);
      case DataType::kBfloat16:
        return magnitude * 0x1p-8;
      case DataType::kFloat8E4m3:
        return std::max(magnitude * 0x1p-4, 0x1p-10 * static_cast<double>(std::abs(scale)) * 1.0001);
      default:
        return 0;
    }
  }

  /// Compares a rotated block. Its own scale decides how far its elements may be off.
  testing::AssertionResult accept_block(const Part& part, std::span<std::byte> expected, std::int64_t byte,
                                        std::span<const double> row) {
    const auto got = got_.at(byte, block_bytes(part.target.type));
    const std::array<float, 32> elements = block_elements_of(part.target.type, got);
    double largest = 0;
    for (const double element : row) largest = std::max(largest, std::abs(element));
    // Half a code, and the rounding of the scale at code 127. q4_0 has no code for the last half step at one
    // end of its range.
    const bool q8 = part.target.type == DataType::kQ8_0;
    const double allowed = largest * (q8 ? 0.57 / 127 : 1.01 / 8) + largest * 0x1p-19;
    for (std::size_t d = 0; d < 32; ++d) {
      if (!(std::abs(static_cast<double>(elements[d]) - row[d]) <= allowed)) {
        return testing::AssertionFailure()
               << "element " << d << " is " << elements[d] << " but should be " << row[d];
      }
    }
    std::copy(got.begin(), got.end(), expected.begin());
    report_.rotated_elements += 32;
    return testing::AssertionSuccess();
  }

  const Runtime& runtime_;
  const AppendCase& test_;
  const AppendRunOptions& options_;
  std::vector<Part> parts_;
  detail::PerTensor<Image, AppendTensors> images_;  ///< the expected contents, after the execution
  Image got_;                                       ///< the target as the device has written it
  AppendReport report_;
};

}  // namespace

testing::AssertionResult appends_right(const Runtime& runtime, const AppendCase& test,
                                       const AppendRunOptions& options) {
  AppendCase resolved = test;
  resolved.desc = test.desc.resolved();
  return AppendRun(runtime, resolved, options).run();
}

void AppendTest::expect_right(const AppendCase& test, const std::string& what, AppendReport* report) {
  SCOPED_TRACE(what);
  AppendRunOptions options{.device = {}, .report = report, .kept = &plan_};
  EXPECT_TRUE(appends_right(runtime(), test, options));
  if (!capabilities().storage_buffer_16bit) return;
  options.report = nullptr;
  options.kept = &plan_in_words_;
  options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  EXPECT_TRUE(appends_right(runtime(), test, options)) << "in words";
}

}  // namespace vkattn::tests
