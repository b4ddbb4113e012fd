// Scenarios with the files that the runtime reads and writes beside its caches: tensors, and measurements of
// kernels.
#include <vkattn/runtime.hpp>
#include <vkattn/safetensors.hpp>

#include <array>
#include <map>
#include <span>
#include <string>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/scenario.hpp"
#include "runtime/tuning_file.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {

namespace {

/// Writes a file of two tensors. Whatever fails, no file is left under another name.
class StoringTensors : public Scenario {
 public:
  StoringTensors() {
    must(write());
    step("write_safetensors", [this] {
      const Result<void> written = write();
      const UncountedMemory ours;
      if (folder_.file_count() != 1) throw Failed{{ErrorCode::kIo, 0, "a temporary file is left"}};
      return written;
    });
    step("open and read", [this] {
      SafetensorsFile file = must(SafetensorsFile::open(path_));
      std::array<std::byte, 16> bytes{};
      must(file.read(file.tensors().front(), bytes));
      if (must(file.read_floats(tensors_.front().name)).size() != floats_.size())
        throw Failed{{ErrorCode::kIo, 0, "numbers are missing"}};
    });
  }

 private:
  Result<void> write() { return write_safetensors(path_, tensors_, metadata_); }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "weights.safetensors";
  std::array<float, 4> floats_{1, 2, 3, 4};
  std::array<std::uint8_t, 4> flags_{};
  std::array<TensorToStore, 2> tensors_{
      TensorToStore{
          "too long a name for its string", StoredType::kFloat32, {2, 2}, std::as_bytes(std::span(floats_))},
      TensorToStore{"flags", StoredType::kBool, {4}, std::as_bytes(std::span(flags_))}};
  std::map<std::string, std::string> metadata_{{"format", "pt"}};
};

/// A runtime that reads a tuning file. A valid file must never be reported as invalid.
class Tuned : public Scenario {
 public:
  Tuned() {
    write_tuning();
    options_.tuning_file = folder_ / "tuning.json";
    step("create with a tuning file", [this] {
      const Runtime runtime = must(Runtime::create(options_));
      const Shared<const Tuning> tuning = runtime.tuning();
      const std::size_t known = tuning->problems.size() + tuning->gradients.size() + tuning->products.size();
      if (known != 3) throw Failed{{ErrorCode::kIo, 0, tuning->warning}};
      must(runtime.make_plan(small_attention()));
      must(runtime.make_plan(small_gradients()));
      must(runtime.make_plan(small_product()));
    });
  }

 private:
  void write_tuning() {
    const Runtime runtime = Runtime::create(options_).value();
    const MatmulTile tile = runtime.make_plan(small_product(), {.kernel = "tile"})->tile();
    const std::vector<detail::TuningResult> results{
        {TunedProblem{"a problem", small_attention().resolved(), {"tile", {}}, 0, {}}, 1, "lane", 2},
        {TunedBackward{"gradients", small_attention().resolved(), "tile", 128, {}}, 1, "lane", 2},
        {TunedMatmul{"a product", small_product().resolved(), {"tile", tile}, 2}, 1, "lane", 2}};
    const auto text = detail::merge_tuning({}, runtime.device().capabilities(), results);
    write_file(folder_ / "tuning.json", text.value());
  }

  TempFolder folder_;
  RuntimeOptions options_ = small_runtime(folder_.path());
};

}  // namespace

std::vector<ScenarioRow> files_scenarios() {
  return {row<StoringTensors>("Safetensors", {}),
          // If a plan that the tuning file asks for fails, it is made without the file.
          row<Tuned>("RuntimeTuned", {"vkSetDebugUtilsObjectNameEXT", "vkCreateDescriptorSetLayout",
                                      "vkCreatePipelineLayout", "vkCreateComputePipelines",
                                      "vkCreateShaderModule", "vkGetPipelineCacheData", "vkDeviceWaitIdle"})};
}

}  // namespace vkattn::tests
