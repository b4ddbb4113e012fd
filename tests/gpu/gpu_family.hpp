// Families of GPUs that the tests' device can stand for. What the tile table and the kernels choose for a
// family then runs on this device, in every third problem of some tests.
#pragma once

#include <vkattn/capabilities.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "gpu/support.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "support/test_part.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {

struct GpuFamily {
  const char* name;
  detail::Architecture architecture;
  std::uint32_t vendor_id;
  std::uint32_t least_lanes;  ///< lanes of its subgroups, which distinguish the families of a vendor
};

inline constexpr GpuFamily kAmdGcn{"GCN", detail::Architecture::kAmdGcn, detail::kVendorAmd, 64};
inline constexpr GpuFamily kIntelGen12{"Intel before Xe2", detail::Architecture::kIntelGen12,
                                       detail::kVendorIntel, 8};
inline constexpr GpuFamily kIntelXe2{"Intel's Xe2", detail::Architecture::kIntelXe2, detail::kVendorIntel,
                                     16};
inline constexpr GpuFamily kAdreno{"Adreno", detail::Architecture::kAdreno, detail::kVendorQualcomm, 64};
inline constexpr GpuFamily kGpuFamilies[] = {
    kAmdGcn,
    {"RDNA", detail::Architecture::kAmdRdna, detail::kVendorAmd, 32},
    {"NVIDIA", detail::Architecture::kNvidia, detail::kVendorNvidia, 32},
    kIntelGen12,
    kIntelXe2,
    {"Mali", detail::Architecture::kMali, detail::kVendorArm, 16},
    kAdreno,
};

/// Changes capabilities to those of the same device if it were of the family. Features, limits and subgroups
/// stay. If the subgroups are those of another family, their size is pretended, and features that depend on
/// it are off: rows are reduced through shared memory, and decode and matrix refuse. For kernels on matrix
/// units a CPU stays a CPU, because it takes long to unroll the loops of the GPU forms.
inline void pretend(Capabilities& c, const GpuFamily& family, std::string_view kernel) {
  c.vendor_id = family.vendor_id;
  if (c.is_cpu() && kernel.starts_with("matrix")) return;
  if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
  if (detail::architecture(c) == family.architecture) return;
  c.subgroup_shuffle = c.cooperative_matrix = false;
  c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = family.least_lanes;
}

/// The device of a run as if it were of the family. Nothing if its kernel refuses the problem there.
[[nodiscard]] inline std::optional<Device> device_as(const GpuFamily& family, const RunOptions& options,
                                                     const Runtime& runtime, const AttentionDesc& desc) {
  const Device device = options.device.value_or(runtime.device());
  Capabilities c = device.capabilities();
  pretend(c, family, options.kernel);
  if (!reason_against(c, kernel_of(options.kernel), desc, options.arithmetic_type).empty())
    return std::nullopt;
  return device.state().seen_through(std::move(c));
}

/// Makes a run use that device, if there is one.
inline void run_as(const GpuFamily& family, RunOptions& options, const Runtime& runtime,
                   const AttentionDesc& desc) {
  std::optional<Device> device = device_as(family, options, runtime, desc);
  if (!device) return;
  options.device = std::move(device);
  options.family = family.name;
}

/// Makes every third pipeline of a test one of a family. The families take turns. Each test of a suite and
/// each part of the tests begins with another family, because kernels go through the same list and lists are
/// short.
class FamilyTurns {
 public:
  /// The family for the next pipeline. Null if it is the device's own: if it is not a family's turn, or if
  /// every family refuses the problem. In the latter case the next call has the turn.
  [[nodiscard]] const GpuFamily* next(const RunOptions& options, const Runtime& runtime,
                                      const AttentionDesc& desc) {
    ++asked_;
    const std::size_t turn = begin_ + asked_;
    is_due_ = is_due_ || turn % kEvery == 0;
    if (!is_due_) return nullptr;
    constexpr std::size_t kCount = std::size(kGpuFamilies);
    for (std::size_t i = 0; i < kCount; ++i) {
      const GpuFamily& family = kGpuFamilies[(turn / kEvery + i) % kCount];
      if (!device_as(family, options, runtime, desc)) continue;
      is_due_ = false;
      ++taken_;
      return &family;
    }
    ++refused_;
    return nullptr;
  }
  /// The number of pipelines of a family.
  [[nodiscard]] std::size_t taken() const { return taken_; }
  /// Fails if no pipeline was of a family although there were enough. If there are few, all may be too wide
  /// for decode in the subgroups of a CPU.
  void expect_some() const {
    if (asked_ >= (refused_ == 0 ? kEvery : 4 * kEvery)) {
      EXPECT_GT(taken_, 0U) << "as on GPUs of families, of " << asked_;
    }
  }

 private:
  /// The index of the running test in its suite, whichever tests are selected.
  static std::size_t place_of_test() {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    const testing::TestSuite& suite = *all.current_test_suite();
    int place = 0;
    while (suite.GetTestInfo(place) != all.current_test_info()) ++place;
    return static_cast<std::size_t>(place);
  }

  static constexpr std::size_t kEvery = 3;
  std::size_t begin_ = place_of_test() + wanted_test_part().index;
  std::size_t asked_ = 0, taken_ = 0, refused_ = 0;
  bool is_due_ = false;
};

}  // namespace vkattn::tests
