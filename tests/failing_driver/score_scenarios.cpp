// Scenarios of compiled score functions: they are saved as bytes, loaded and used in plans.
// score_compiler_test.cpp tests their compiler without memory.
#include <vkattn/vkattn.h>
#include <vkattn/score_shaders.hpp>

#include <array>
#include <map>
#include <span>
#include <utility>

#include "common/message.hpp"
#include "failing_driver/c_interface.hpp"
#include "failing_driver/host_memory.hpp"
#include "failing_driver/on_device.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::tests {

namespace {

/// Uses the library's own shaders as those of a score function. A driver that computes nothing accepts them
/// as well.
class MadeUpScores final : public ScoreShaders {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "made up"; }
  [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override { return buffers_; }
  [[nodiscard]] bool hides_keys() const noexcept override { return true; }
  [[nodiscard]] Result<std::span<const std::uint32_t>> binary(
      std::string_view shader) const noexcept override {
    return detail::without_exceptions([&]() -> Result<std::span<const std::uint32_t>> {
      // Allocates and keeps memory, as a compiled shader does.
      const auto code = detail::built_shader(detail::shader_binaries(), shader);
      if (!code) return code.error();
      auto words = code->words();
      if (!words) return words.error();
      const UncountedMemory ours;
      const auto kept = words_.try_emplace(std::string(shader), *words);
      return std::span<const std::uint32_t>(kept.first->second);
    });
  }

 private:
  std::vector<ScoreBuffer> buffers_{{"table", ScoreBufferType::kFloat}};
  mutable std::map<std::string, std::vector<std::uint32_t>, std::less<>> words_;
};

AttentionDesc with_scores(Shared<const ScoreShaders> function) {
  AttentionDesc desc = small_attention();
  desc.score_function = std::move(function);
  return desc;
}

PlanOptions of_scored_tiles() {
  return {.kernel = "tile", .kv_splits = 2};
}

/// The shaders that a plan with the function needs.
std::vector<std::string> shaders_of_tiles(const Device& device) {
  const AttentionDesc desc = with_scores(Shared<const ScoreShaders>(std::make_shared<MadeUpScores>()));
  const AttentionPlan plan = AttentionPlan::create(device, desc, of_scored_tiles()).value();
  std::vector<std::string> names;
  for (const PipelineInfo& pipeline : plan.pipelines()) {
    if (pipeline.shader.ends_with("_features")) names.emplace_back(pipeline.shader);
  }
  return names;
}

class Scoring : public OnDevice {
 public:
  Scoring() {
    step("save", [this] { return save_score_shaders(made_up_, shaders_); });
    step("load", [this] { return load_score_shaders(blob_); });
    step("plan with what was loaded", [this] {
      const AttentionDesc desc = with_scores(must(load_score_shaders(blob_)));
      const AttentionPlan plan = must(AttentionPlan::create(device_, desc, of_scored_tiles()));
      AttentionTensors tensors = made_up_tensors(plan);
      tensors.score_buffers[0] = made_up_buffer(50);
      plan.record(made_up_commands(), must(plan.make_bindings(tensors, made_up_buffer(100))));
    });
  }

 private:
  MadeUpScores made_up_;
  std::vector<std::string> shaders_ = shaders_of_tiles(device_);
  std::vector<std::byte> blob_ = save_score_shaders(made_up_, shaders_).value();
};

/// Saves without naming shaders, so all are saved. Shaders that do not compile are left out, but no others.
class ScoringAll : public Scenario {
 public:
  ScoringAll() {
    step("save all", [this] {
      const std::vector<std::byte> saved = must(save_score_shaders(some_));
      if (saved.size() != whole_) throw Failed{{ErrorCode::kIo, 0, "a shader is missing"}};
    });
  }

 private:
  /// A function of which only some shaders compile.
  class OneOfAll final : public ScoreShaders {
   public:
    [[nodiscard]] std::string_view name() const noexcept override { return "one of all"; }
    [[nodiscard]] const std::vector<ScoreBuffer>& buffers() const noexcept override { return buffers_; }
    [[nodiscard]] bool hides_keys() const noexcept override { return false; }
    [[nodiscard]] Result<std::span<const std::uint32_t>> binary(
        std::string_view shader) const noexcept override {
      return detail::without_exceptions([&]() -> Result<std::span<const std::uint32_t>> {
        std::string why = detail::message("the shader ", shader, " does not compile with this function");
        if (shader == "attention_tile_features" || shader == "attention_lane_features") {
          return std::span<const std::uint32_t>(words_);
        }
        return Error{ErrorCode::kUnsupported, 0, std::move(why)};
      });
    }

   private:
    std::vector<ScoreBuffer> buffers_;
    std::array<std::uint32_t, 4> words_{};
  };

  OneOfAll some_;
  std::size_t whole_ = save_score_shaders(some_).value().size();
};

class InterfaceScoring : public InterfaceOnDevice {
 public:
  InterfaceScoring() {
    step("save", [this] {
      std::size_t bytes = 0;
      must_succeed(vkattn_score_function_save(function_.get(), names_.data(),
                                              static_cast<std::uint32_t>(names_.size()), nullptr, &bytes,
                                              &error_));
    });
    step("load", [this] {
      OwnedScoreFunction function;
      must_succeed(vkattn_score_function_load(blob_.data(), blob_.size(), function.target(), &error_));
      must_succeed(vkattn_score_function_retain(function.get()));
      must_succeed(vkattn_score_function_release(function.get()));
    });
    step("plan", [this] {
      problem_.structure.score_function = function_.get();
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.kernel = "tile";
      OwnedPlan plan;
      must_succeed(
          vkattn_plan_create_attention(device_.get(), &problem_.structure, &options, plan.target(), &error_));
      CTensors tensors{};
      vkattn_execution execution = execution_of(plan.get(), tensors);
      const BufferRange range = made_up_buffer(90);
      const vkattn_binding table{0, range.buffer, range.offset, range.size};
      execution.score_buffers = &table;
      execution.score_buffer_count = 1;
      OwnedBindings bindings;
      must_succeed(
          vkattn_bindings_create(plan.get(), &execution, VK_NULL_HANDLE, bindings.target(), &error_));
    });
    for (const std::string& shader : shaders_) names_.push_back(shader.c_str());
    must_succeed(vkattn_score_function_load(blob_.data(), blob_.size(), function_.target(), &error_));
  }

 private:
  std::vector<std::string> shaders_ = shaders_of_tiles(borrow_device().value());
  std::vector<const char*> names_;
  CProblem<AttentionDesc> problem_{small_attention()};
  std::vector<std::byte> blob_ = save_score_shaders(MadeUpScores(), shaders_).value();
  OwnedScoreFunction function_;
};

}  // namespace

std::vector<ScenarioRow> score_scenarios() {
  const std::set<std::string> got_over{"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets"};
  return {row<Scoring>("Score", got_over), row<ScoringAll>("ScoreAll", {}),
          row<InterfaceScoring>("CInterfaceScore", got_over)};
}

}  // namespace vkattn::tests
