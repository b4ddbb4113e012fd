// Runs an append on poisoned buffers with guard bands, and compares every byte with the reference.
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

/// A descriptor and everything that is needed to make its data. Inputs that the descriptor asks for must be
/// set.
struct AppendCase {
  AppendDesc desc;
  std::vector<std::int32_t> positions, new_lengths, cumulative_new_lengths, page_table;
  std::vector<float> frequencies, key_scales, value_scales;
  std::int64_t shift = 0;           ///< unused elements before each tensor in its buffer
  bool in_place = false;            ///< query_output is the query
  bool push_descriptors = false;    ///< recorded with tensors instead of bindings
  bool any_bits = false;            ///< sources hold random bits instead of random numbers
  std::vector<float> key_elements;  ///< elements of `key` instead of random ones, row by row
  double magnitude = 1;
  std::uint64_t seed = 1;
};

/// Three batch entries with 3 KV heads and 5 new rows of 64 dims (32 in V), for a contiguous cache of 12
/// rows.
[[nodiscard]] AppendCase small_append(DataType source = DataType::kFloat32,
                                      DataType cache = DataType::kFloat32);

void use_ring(AppendCase& test, std::int64_t rows);
/// Sets pages of this size, so many for each batch entry. Two pages belong to no entry. Neighbours in the
/// table lie apart.
void use_pages(AppendCase& test, std::int64_t page_size, std::int64_t pages_per_entry);
/// Packs the rows. The numbers give the count of batch entries.
void use_packed(AppendCase& test, const std::vector<std::int32_t>& cumulative_lengths, std::int64_t total);
void use_positions(AppendCase& test, const std::vector<std::int32_t>& positions);

/// Sets the promise of all tensors of the descriptor. 0 promises the size of an element.
void promise_alignment(AppendDesc& desc, std::uint32_t bytes);

/// Findings of the comparison.
struct AppendReport {
  std::int64_t rotated_elements = 0;  ///< elements compared with a tolerance
  double largest_error = 0;  ///< of rotated float32 elements, as a share of the larger element of the pair
};

struct AppendRunOptions {
  std::optional<Device> device;  ///< instead of the runtime's own device
  AppendReport* report = nullptr;
  std::optional<AppendPlan>* kept = nullptr;  ///< the last plan on the device, used again if it fits
};

/// Plans, runs and compares. Written elements are compared one by one. Everything else (guard bands, padding,
/// rows that must stay, inputs) is compared byte by byte with its earlier contents.
///
/// Elements and blocks of rows that are not rotated must be exact. A rotated element may differ by 2^-20 of
/// the larger element of its pair plus half a unit of its storage type. In blocks it may differ by what
/// rounding to the codes, and rounding the scale to float16, can cause.
[[nodiscard]] testing::AssertionResult appends_right(const Runtime& runtime, const AppendCase& test,
                                                     const AppendRunOptions& options = {});

/// Tests of appends run on the device as it is, and again as if it had no 16-bit storage.
class AppendTest : public GpuTest {
 protected:
  void expect_right(const AppendCase& test, const std::string& what, AppendReport* report = nullptr);

 private:
  std::optional<AppendPlan> plan_, plan_in_words_;
};

}  // namespace vkattn::tests
