// Twenty plans made at load time, and compiled on two of the program's own threads. The program keeps a
// pipeline cache in a file between its starts. It ignores a file that is torn or belongs to another driver,
// says so, and replaces it.
//
// The driver decides how much a warm start gains. lavapipe, for one, compiles a pipeline when it first runs,
// and puts nothing into its cache. The program says so where it sees it.
//
//   vkattn_example_prewarm_cache FILE    one start with this file
//   vkattn_example_prewarm_cache         three starts with a file of its own: without it, with it, and with
//   half of it
#include <vkattn/pipeline_cache.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "common.hpp"

namespace {

using example::Buffer;
using example::checked;
using example::Gpu;
namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kWorkers = 2;

// Returns nothing if there is no file, as at the first start.
Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes;
  for (std::istreambuf_iterator<char> it(file), end; it != end; ++it)
    bytes.push_back(static_cast<std::byte>(*it));
  return bytes;
}

// Writes to another name and renames that file: if the program is ended meanwhile, the old file stays.
bool write_file(const fs::path& path, std::span<const std::byte> bytes) {
  fs::path temporary = path;
  temporary += ".new";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) return false;
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  return !error;
}

// The problems that a game may know in advance: decode and prefill, some head sizes, two types.
std::vector<vkattn::AttentionDesc> problems() {
  std::vector<vkattn::AttentionDesc> all;
  for (const std::int64_t head_dim : {16, 32, 64, 96, 128}) {
    for (const std::int64_t query_length : {1, 256}) {
      for (const vkattn::DataType type : {vkattn::DataType::kFloat32, vkattn::DataType::kFloat16}) {
        vkattn::AttentionDesc desc;
        desc.query_heads = 8;
        desc.kv_heads = 2;
        desc.query_length = query_length;
        desc.kv_length = 256;
        desc.head_dim = head_dim;
        desc.causal = query_length > 1;
        desc.set_type(type);
        all.push_back(desc);
      }
    }
  }
  return all;
}

// Each worker takes the next plan until none is left. An engine would give these jobs to its own thread pool.
bool compile(const std::vector<vkattn::AttentionPlan>& plans) {
  std::atomic<std::size_t> next = 0;
  std::atomic<int> failures = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < plans.size(); i = next++) {
      const vkattn::Result<void> done = plans[i].compile();
      if (done.ok()) continue;
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      ++failures;
    }
  };
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < kWorkers; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return failures == 0 &&
         std::all_of(plans.begin(), plans.end(), [](const auto& plan) { return plan.is_compiled(); });
}

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// The first and the second run of one plan.
struct Runs {
  bool is_right = true;
  double first_ms = 0, second_ms = 0;
};

// Checks the first plan, of one query in float32, against the plain formula.
Runs run_twice(const Gpu& gpu, std::uint32_t family, const vkattn::AttentionPlan& plan) {
  const vkattn::AttentionDesc& desc = plan.desc();
  const auto dim = static_cast<std::size_t>(desc.head_dim),
             heads = static_cast<std::size_t>(desc.query_heads);
  const auto kv_heads = static_cast<std::size_t>(desc.kv_heads),
             keys = static_cast<std::size_t>(desc.kv_length);
  const vkattn::PlanRequirements needs = plan.requirements();
  const auto buffer = [&](std::size_t floats) {
    Buffer made(gpu, floats * sizeof(float), needs.tensor_usage);
    for (std::size_t i = 0; i < floats; ++i) made.values()[i] = std::sin(static_cast<float>(i + floats));
    return made;
  };
  const Buffer query = buffer(heads * dim), key = buffer(kv_heads * keys * dim),
               value = buffer(kv_heads * keys * dim);
  const Buffer output = buffer(heads * dim), workspace = example::make_workspace(gpu, plan);
  vkattn::AttentionTensors tensors;
  tensors.query = query.range();
  tensors.key = key.range();
  tensors.value = value.range();
  tensors.output = output.range();
  const vkattn::Bindings bindings = checked(plan.make_bindings(tensors, workspace.range()));
  const example::CommandPool pool(gpu, family);
  VkQueue queue = VK_NULL_HANDLE;
  vkGetDeviceQueue(gpu.device, family, 0, &queue);
  Runs runs;
  for (double* const ms : {&runs.first_ms, &runs.second_ms}) {
    const auto begun = std::chrono::steady_clock::now();
    example::execute(queue, pool, [&](VkCommandBuffer commands) {
      plan.record(commands, bindings);
      example::barrier(commands, needs.last_stages, needs.last_access, VK_PIPELINE_STAGE_HOST_BIT,
                       VK_ACCESS_HOST_READ_BIT);
    });
    *ms = ms_since(begun);
  }
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t first = head / (heads / kv_heads) * keys * dim;
    const std::vector<double> expected = example::plain_attention(query.values().subspan(head * dim, dim),
                                                                  key.values().subspan(first, keys * dim),
                                                                  value.values().subspan(first, keys * dim));
    runs.is_right = runs.is_right &&
                    example::largest_difference(output.values().subspan(head * dim, dim), expected) < 1e-5;
  }
  return runs;
}

struct Start {
  bool is_right = false;
  bool had_blob = false, was_ignored = false;
  double compile_ms = 0;
  std::size_t kept_bytes = 0;
  Runs runs;
};

// A start of the program: a device of its own, plans, and the cache saved again.
Start start(const char* name, const fs::path& path) {
  Gpu gpu(VK_API_VERSION_1_1);
  const std::optional<std::uint32_t> family = gpu.family(VK_QUEUE_COMPUTE_BIT);
  if (!family) example::skip("no Vulkan device with a compute queue");
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = *family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  gpu.open({&queue, 1});

  Start result;
  const auto begun = std::chrono::steady_clock::now();
  const Bytes blob = read_file(path);
  const vkattn::PipelineCache cache = checked(vkattn::PipelineCache::create(gpu.attention(), blob));
  result.had_blob = !blob.empty();
  result.was_ignored = !cache.ignored().empty();
  if (result.was_ignored)
    std::printf("%s start: the file is passed over: %s\n", name, cache.ignored().c_str());
  vkattn::PlanOptions options;
  options.pipeline_cache = cache.handle();  // must live until the plans are compiled
  options.deferred_compilation = true;
  std::vector<vkattn::AttentionPlan> plans;
  for (const vkattn::AttentionDesc& desc : problems())
    plans.push_back(checked(vkattn::AttentionPlan::create(gpu.attention(), desc, options)));
  const double plan_ms = ms_since(begun);
  const auto planned = std::chrono::steady_clock::now();
  const bool compiled = compile(plans);
  result.compile_ms = ms_since(planned);
  const Bytes kept = checked(cache.save());
  result.kept_bytes = kept.size();
  const bool written = write_file(path, kept);
  std::printf(
      "%s start: %zu bytes read, %zu plans made in %.1f ms and compiled in %.1f ms on %zu workers, %zu bytes "
      "kept\n",
      name, blob.size(), plans.size(), plan_ms, result.compile_ms, kWorkers, kept.size());
  if (!written) std::fprintf(stderr, "%s could not be written\n", path.string().c_str());
  result.runs = run_twice(gpu, *family, plans.front());
  result.is_right = compiled && written && result.runs.is_right;
  return result;
}

// What the cache has won, or why it has won nothing.
void explain(const Start& cold, const Start& warm) {
  constexpr std::size_t kHeaders = 256;  // at most, of the library and of Vulkan
  constexpr double kCompiles = 3;        // times the second run: no noise
  if (cold.kept_bytes > kHeaders) {
    std::printf("compiling took %.0f %% of the cold start's time in the warm one\n",
                100 * warm.compile_ms / cold.compile_ms);
    return;
  }
  std::printf(
      "the cache wins nothing here: the driver has put no pipeline into it, its %zu bytes are headers\n",
      cold.kept_bytes);
  if (cold.runs.first_ms > kCompiles * cold.runs.second_ms) {
    std::printf(
        "a plan's first run took %.1f ms and its second %.1f ms: the driver compiles a pipeline when it "
        "first "
        "runs\n",
        cold.runs.first_ms, cold.runs.second_ms);
  }
}

bool three_starts() {
  std::error_code error;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const fs::path path =
      fs::temp_directory_path(error) / ("vkattn_example_prewarm." + std::to_string(now) + ".cache");
  const Start cold = start("cold", path);
  const Start warm = start("warm", path);
  explain(cold, warm);
  const Bytes whole = read_file(path);
  const bool halved = write_file(path, std::span(whole).first(whole.size() / 2));
  const Start torn = start("torn", path);
  fs::remove(path, error);
  return cold.is_right && !cold.had_blob && warm.is_right && warm.had_blob && !warm.was_ignored && halved &&
         torn.is_right && torn.was_ignored;
}

}  // namespace

int main(int count, char** words) {
  if (const auto code = example::help_code(
          count, words, 1,
          "vkattn_example_prewarm_cache [FILE]\n\nOne start with the pipeline cache in FILE, which is made "
          "where it is not there; without FILE three starts."))
    return *code;
  return example::exit_code(count > 1 ? start("this", words[1]).is_right : three_starts());
}
