// Refusals of every tensor that plans of every operation bind. The tables give the tensors, so a new
// operation or tensor is tested automatically. It runs on a Vulkan without a device, which ends the program
// at a range that the library should have refused. tests/gpu/overlap_test.cpp tests results in place, and
// tensors that lie between each other's elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "support/c_problem.hpp"
#include "support/host_vulkan.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/small_problems.hpp"
#include "unit/build.hpp"
#include "unit/made_up_device.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

bool is_parameter_gradient(vkattn_tensor tensor) {
  return tensor >= VKATTN_TENSOR_GRAD_IN_PROJ_WEIGHT && tensor <= VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS;
}

/// The name of a tensor in messages. It is that of C, from the list of the ABI.
std::string name_of(vkattn_tensor tensor) {
  static const std::map<vkattn_tensor, std::string> all = [] {
    std::map<vkattn_tensor, std::string> names;
    std::ifstream list(build::kFunctionList);
    constexpr std::string_view kPrefix = "VKATTN_TENSOR_";
    for (std::string line; std::getline(list, line);) {
      if (!line.starts_with(kPrefix)) continue;
      const std::size_t end = line.find(' ');
      std::string name = line.substr(kPrefix.size(), end - kPrefix.size());
      std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
      names[static_cast<vkattn_tensor>(std::stoul(line.substr(end + 3)))] = name;
    }
    return names;
  }();
  if (!is_parameter_gradient(tensor)) return "the " + all.at(tensor) + " tensor";
  return "the gradient of " + all.at(tensor).substr(std::string_view("grad_").size());
}

template <class Desc>
class EveryOperation : public testing::Test {
 protected:
  using Tensors = typename Desc::Plan::Tensors;

  EveryOperation() {
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const VkDeviceSize bytes = c::range_bytes(plan_, tensor, next_);
      if (bytes == 0) continue;
      used_.push_back(tensor);
      at(good_, tensor) = {arena_, next_, bytes};
      next_ += kApart;
    }
    workspace_ = {arena_, next_, plan_.requirements().workspace_bytes};
    if (workspace_.size == 0) workspace_ = {};
  }

  [[nodiscard]] static BufferRange& at(Tensors& tensors, vkattn_tensor tensor) {
    return *c::place(tensors, tensor);
  }
  /// Whether a tensor of the small problems is written.
  [[nodiscard]] static bool is_written(vkattn_tensor tensor) {
    const bool is_gradient = tensor >= VKATTN_TENSOR_GRAD_QUERY && tensor <= VKATTN_TENSOR_GRAD_SINKS;
    if (is_gradient || is_parameter_gradient(tensor)) return true;
    if (std::string_view(InC<Desc>::kName).ends_with("backward")) return false;
    const vkattn_tensor others[] = {VKATTN_TENSOR_OUTPUT,    VKATTN_TENSOR_LSE,
                                    VKATTN_TENSOR_SAVED,     VKATTN_TENSOR_QUERY_OUTPUT,
                                    VKATTN_TENSOR_CACHE_KEY, VKATTN_TENSOR_CACHE_VALUE};
    return std::ranges::find(others, tensor) != std::end(others);
  }

  /// Checks that neither new nor existing bindings take the tensors.
  void expect_refused(const Tensors& tensors, const std::vector<std::string>& words) {
    expect_refused(tensors, workspace_, words);
  }
  void expect_refused(const Tensors& tensors, const BufferRange& workspace,
                      const std::vector<std::string>& words) {
    const auto refused = [&](const auto& result) {
      if (result.ok()) return testing::AssertionFailure() << "nothing is refused";
      Error error = result.error();
      std::ranges::replace(error.message, '.', '_');  // out_proj.weight has another name in C
      return names(error, ErrorCode::kInvalidArgument, words);
    };
    EXPECT_TRUE(refused(plan_.make_bindings(tensors, workspace)));
    EXPECT_TRUE(refused(plan_.rewrite(bindings(), tensors, workspace)));
  }
  [[nodiscard]] Bindings& bindings() {
    if (!bindings_) bindings_.emplace(must(plan_.make_bindings(good_, workspace_)));
    return *bindings_;
  }

  /// more bytes than two tensors take
  static constexpr VkDeviceSize kApart = VkDeviceSize{1} << 16U;

  HostVulkan vulkan_{HostSettings{}};
  std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device_{HostVulkan::borrow(),
                                                                           &vkattn_device_release};
  typename Desc::Plan plan_ =
      must(Desc::Plan::create(device_->device, small_problem<Desc>(), tiles_in_parts<Desc>()));
  VkBuffer arena_ = HostVulkan::buffer(0, VkDeviceSize{1} << 23U);
  VkDeviceSize next_ = 0;
  std::vector<vkattn_tensor> used_;
  Tensors good_;
  BufferRange workspace_;
  std::optional<Bindings> bindings_;
};

/// `Nothing` stands before the first row, because each row begins with a comma.
template <class Nothing, class... Descs>
struct AllDescs {
  using Types = testing::Types<Descs...>;
};
using EveryDesc = AllDescs<void
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) , DESC
#include "common/operations.def"
                           >::Types;
struct OperationName {
  template <class Desc>
  static std::string GetName(int /*index*/) {
    return InC<Desc>::kName;
  }
};
TYPED_TEST_SUITE(EveryOperation, EveryDesc, OperationName);

TYPED_TEST(EveryOperation, TellsItsMemory) {
  const PlanMemory memory = must(this->plan_.memory());
  const PlanRequirements needs = this->plan_.requirements();
  EXPECT_EQ(memory.workspace_bytes, needs.workspace_bytes);
  EXPECT_EQ(memory.parameter_bytes, needs.parameter_bytes);
  EXPECT_EQ(memory.pipelines, this->plan_.pipelines().size());
  EXPECT_GT(memory.spirv_bytes, memory.pipelines * 1000U) << "no shader is smaller";
  EXPECT_EQ(memory.code_bytes, 0U) << "the plan keeps no statistics";
  EXPECT_EQ(memory.total_bytes(), needs.workspace_bytes + needs.parameter_bytes);
  auto in_c = initial(vkattn_memory_init);
  vkattn_plan* plan = nullptr;
  c::give(std::make_unique<vkattn_plan>(c::AnyPlan(this->plan_)), &plan);
  ASSERT_EQ(vkattn_plan_get_memory(plan, &in_c, nullptr), VKATTN_SUCCESS);
  EXPECT_EQ(in_c.workspace_bytes, memory.workspace_bytes);
  EXPECT_EQ(in_c.parameter_bytes, memory.parameter_bytes);
  EXPECT_EQ(in_c.spirv_bytes, memory.spirv_bytes);
  EXPECT_EQ(in_c.code_bytes, memory.code_bytes);
  EXPECT_EQ(in_c.total_bytes, memory.total_bytes());
  EXPECT_EQ(in_c.pipelines, memory.pipelines);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TYPED_TEST(EveryOperation, RefusesEachTensorThatIsNotThereOrTooSmall) {
  EXPECT_GE(this->used_.size(), 3U);
  for (const vkattn_tensor tensor : this->used_) {
    const std::string name = name_of(tensor);
    const BufferRange good = this->at(this->good_, tensor);
    const auto refused = [&](const BufferRange& range, const std::string& words) {
      auto tensors = this->good_;
      this->at(tensors, tensor) = range;
      this->expect_refused(tensors, {name, words});
    };
    const std::string needs = "needs " + std::to_string(good.size) + " bytes but its ";
    refused({}, needs + "buffer is null");
    refused({good.buffer, good.offset, good.size - 1}, needs + "range has " + std::to_string(good.size - 1));
    refused({good.buffer, good.offset + 2, good.size}, "which is no multiple of ");
    refused({good.buffer, good.offset, VK_WHOLE_SIZE}, "no buffer has: give its size, not VK_WHOLE_SIZE");
    refused({good.buffer, good.offset + 64, VK_WHOLE_SIZE - 64}, "no buffer has");
  }
  EXPECT_TRUE(this->plan_.rewrite(this->bindings(), this->good_, this->workspace_).ok());
}

TYPED_TEST(EveryOperation, RefusesAWorkspaceThatIsNotThereOrTooSmall) {
  const BufferRange good = this->workspace_;
  if (good.size == 0) return;
  this->expect_refused(this->good_, {}, {"workspace", "null"});
  this->expect_refused(this->good_, {good.buffer, good.offset, VK_WHOLE_SIZE},
                       {"workspace", "VK_WHOLE_SIZE"});
  this->expect_refused(this->good_, {good.buffer, good.offset, good.size - 1},
                       {"workspace", std::to_string(good.size), std::to_string(good.size - 1)});
  for (const vkattn_tensor tensor : this->used_) {
    auto tensors = this->good_;
    this->at(tensors, tensor).offset = good.offset;
    this->expect_refused(tensors, {"the workspace, bytes ", "overlaps " + name_of(tensor)});
  }
}

/// A tensor that begins within a tensor that is written.
TYPED_TEST(EveryOperation, RefusesTensorsThatLieInWhatIsWritten) {
  std::size_t count = 0;
  for (const vkattn_tensor written : this->used_) {
    const BufferRange there = this->at(this->good_, written);
    if (!this->is_written(written) || there.size <= 16) continue;
    for (const vkattn_tensor other : this->used_) {
      if (other == written) continue;
      auto tensors = this->good_;
      this->at(tensors, other).offset = there.offset + 16;
      this->expect_refused(tensors, {name_of(written), name_of(other), " of its buffer, overlaps "});
      ++count;
    }
  }
  EXPECT_GE(count, 2U);
}

TYPED_TEST(EveryOperation, RefusesBindingsOfOtherPlans) {
  auto options = tiles_in_parts<TypeParam>();
  const auto other =
      must(TypeParam::Plan::create(this->device_->device, small_problem<TypeParam>(), options));
  EXPECT_TRUE(this->plan_.has_made(this->bindings()));
  EXPECT_FALSE(other.has_made(this->bindings()));
  EXPECT_TRUE(is_refused(other.rewrite(this->bindings(), this->good_, this->workspace_),
                         ErrorCode::kInvalidArgument, {"another plan"}));
  options.push_descriptors = true;
  const auto pushing =
      must(TypeParam::Plan::create(this->device_->device, small_problem<TypeParam>(), options));
  EXPECT_FALSE(pushing.make_bindings(this->good_, this->workspace_).ok());
  EXPECT_FALSE(this->plan_.record(HostVulkan::commands(), this->good_, this->workspace_).ok());
}

TYPED_TEST(EveryOperation, NamesLimitsOfDescriptors) {
  const auto refused = [&](bool pushes, ErrorCode code, const std::vector<std::string>& words, auto change) {
    auto options = tiles_in_parts<TypeParam>();
    options.push_descriptors = pushes;
    const detail::DeviceState& state = this->device_->device.state();
    const Device device = state.seen_through(changed(state.capabilities, change));
    EXPECT_TRUE(
        is_refused(TypeParam::Plan::create(device, small_problem<TypeParam>(), options), code, words));
  };
  refused(true, ErrorCode::kUnsupported, {"VK_KHR_push_descriptor"},
          [](Capabilities& c) { c.push_descriptors = false; });
  refused(true, ErrorCode::kLimitExceeded, {" push descriptors; maxPushDescriptors is 2"},
          [](Capabilities& c) { c.max_push_descriptors = 2; });
  refused(false, ErrorCode::kLimitExceeded, {" storage buffers", "maxPerStageDescriptorStorageBuffers", "2"},
          [](Capabilities& c) { c.max_stage_storage_buffers = 2; });
}

}  // namespace
}  // namespace vkattn::tests
