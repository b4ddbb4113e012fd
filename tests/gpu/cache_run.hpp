// Running an append on poisoned buffers with guard bands, and comparing every byte with the reference.
#pragma once

#include <vkattn/cache.hpp>
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {

/// A descriptor with everything that is needed to make its data. What the descriptor asks for must be there.
struct AppendCase {
  AppendDesc desc;
  std::vector<std::int32_t> positions, new_lengths, cumulative_new_lengths, page_table;
  std::vector<float> frequencies, key_scales, value_scales;
  std::int64_t shift = 0;           ///< elements left free before each tensor in its buffer
  bool in_place = false;            ///< query_output is the query
  bool push_descriptors = false;    ///< recorded with tensors in place of bindings
  bool any_bits = false;            ///< sources of random bits, in place of random numbers
  std::vector<float> key_elements;  ///< those of `key`, row by row, in place of random ones
  double magnitude = 1;
  std::uint64_t seed = 1;
};

/// Three batch entries of 3 KV heads and 5 new rows of 64 dims (32 in V), for a contiguous cache of 12.
[[nodiscard]] AppendCase small_append(DataType source = DataType::kFloat32,
                                      DataType cache = DataType::kFloat32);

void use_ring(AppendCase& test, std::int64_t rows);
/// So many for each batch entry; two are no entry's, and neighbours in the table lie apart.
void use_pages(AppendCase& test, std::int64_t page_size, std::int64_t pages_per_entry);
/// As many batch entries as the numbers say.
void use_packed(AppendCase& test, const std::vector<std::int32_t>& cumulative_lengths, std::int64_t total);
void use_positions(AppendCase& test, const std::vector<std::int32_t>& positions);

/// Of all tensors of the descriptor: 0 for an element's size.
void promise_alignment(AppendDesc& desc, std::uint32_t bytes);

/// What the comparison has seen.
struct AppendReport {
  std::int64_t rotated_elements = 0;  ///< compared by tolerance
  double largest_error = 0;           ///< of those in float32, as a share of the larger one of the pair
};

struct AppendRunOptions {
  std::optional<Device> device;  ///< in place of the runtime's own
  AppendReport* report = nullptr;
  std::optional<AppendPlan>* kept = nullptr;  ///< the last plan on that device: taken again where it fits
};

/// Plans, runs and compares: what is to be written element by element, everything else (guard bands, padding,
/// rows that must be left alone, inputs) byte for byte with what was there before.
///
/// Elements that are not rotated, and blocks of rows that are not, must be exact. Rotated ones may differ by
/// 2^-20 of the larger one of the pair, and half a unit of their storage type; in blocks by what rounding to
/// the scale's codes, and of the scale to float16, can make of that.
[[nodiscard]] testing::AssertionResult appends_right(const Runtime& runtime, const AppendCase& test,
                                                     const AppendRunOptions& options = {});

/// Tests of appends that run as the device is, and as if it had no 16-bit storage.
class AppendTest : public GpuTest {
 protected:
  void expect_right(const AppendCase& test, const std::string& what, AppendReport* report = nullptr);

 private:
  std::optional<AppendPlan> plan_, plan_in_words_;
};

}  // namespace vkattn::tests
