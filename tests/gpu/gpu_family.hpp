// Families of GPUs that the device of the tests can be taken for: what the tile table and the kernels choose
// there then runs here, in every third problem of some tests.
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
  std::uint32_t least_lanes;  ///< of its subgroups, which tell a vendor's families apart
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

/// Makes capabilities those of the same device as if it were of the family. Features, limits and subgroups
/// stay its own. Where these subgroups are another family's, their size is pretended, and nothing that
/// depends on it can be had: rows are reduced through shared memory, decode and matrix refuse. For kernels on
/// matrix units a CPU stays one: it takes long to unroll the loops that GPUs have there.
inline void pretend(Capabilities& c, const GpuFamily& family, std::string_view kernel) {
  c.vendor_id = family.vendor_id;
  if (c.is_cpu() && kernel.starts_with("matrix")) return;
  if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
  if (detail::architecture(c) == family.architecture) return;
  c.subgroup_shuffle = c.cooperative_matrix = false;
  c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = family.least_lanes;
}

/// The device of a run as if it were of the family; nothing where its kernel refuses the problem there.
[[nodiscard]] inline std::optional<Device> device_as(const GpuFamily& family, const RunOptions& options,
                                                     const Runtime& runtime, const AttentionDesc& desc) {
  const Device device = options.device.value_or(runtime.device());
  Capabilities c = device.capabilities();
  pretend(c, family, options.kernel);
  if (!reason_against(c, options.kernel, desc, options.arithmetic_type).empty()) return std::nullopt;
  return device.state().seen_through(std::move(c));
}

/// Makes a run one on that device, where there is one.
inline void run_as(const GpuFamily& family, RunOptions& options, const Runtime& runtime,
                   const AttentionDesc& desc) {
  std::optional<Device> device = device_as(family, options, runtime, desc);
  if (!device) return;
  options.device = std::move(device);
  options.family = family.name;
}

/// Has every third of a test's pipelines be one of a family, the families in turn. Each test of a
/// suite begins elsewhere, and each part of it: of kernels that go through the same list and of short lists.
class FamilyTurns {
 public:
  /// The family that the next is to be of, null where it is the device's own: where it is not its turn, or
  /// where every family refuses the problem, which leaves the turn to the one after it.
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
  /// How many are of one.
  [[nodiscard]] std::size_t taken() const { return taken_; }
  /// Fails where none is, though there were enough: of a few, all may be too wide for decode in the subgroups
  /// of a CPU.
  void expect_some() const {
    if (asked_ >= (refused_ == 0 ? kEvery : 4 * kEvery)) {
      EXPECT_GT(taken_, 0U) << "as on GPUs of families, of " << asked_;
    }
  }

 private:
  /// The place of the running test in its suite, whichever of them run.
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
