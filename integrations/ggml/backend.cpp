// A back end of ggml for attention: ggml loads this library (GGML_BACKEND_PATH), asks it which nodes it
// computes, and gives it graphs of those. Tensors stay in host memory, so that all else can be computed by
// ggml's CPU back end.
#include <vkattn/runtime.hpp>

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "interface.hpp"
#include "problem.hpp"

namespace {

using vkattn::AttentionPlan;
using vkattn::Runtime;
using vkattn::ggml::Problem;

void log(enum ggml_log_level level, const std::string& text) {
  ggml_log_callback callback = nullptr;
  void* user = nullptr;
  ggml_log_get(&callback, &user);
  if (callback != nullptr) callback(level, ("vkattn: " + text + "\n").c_str(), user);
}

/// The library's one device, and what ggml holds pointers to.
struct Library {
  std::optional<Runtime> runtime;  ///< of one thread at a time
  std::mutex mutex;
  std::string device_name;
  ggml_backend_reg reg;
  ggml_backend_device device;

  Library();
};

Library& library() {
  static Library& instance = *new Library;  // never destroyed: programs free back ends at exit
  return instance;
}

/// Nodes that compute nothing: their data is that of another tensor.
bool is_view(const ggml_tensor& node) {
  return node.op == GGML_OP_NONE || node.op == GGML_OP_RESHAPE || node.op == GGML_OP_VIEW ||
         node.op == GGML_OP_PERMUTE || node.op == GGML_OP_TRANSPOSE;
}

/// Whether the device takes the problem: a plan that is not compiled is made in microseconds.
bool computes(ggml_backend_dev_t, const ggml_tensor* node) try {
  if (is_view(*node)) return true;
  if (node->op != GGML_OP_FLASH_ATTN_EXT) return false;
  Problem problem = vkattn::ggml::problem_of(*node);
  if (problem.reason.empty()) {
    vkattn::PlanOptions options;
    options.deferred_compilation = true;
    const std::scoped_lock lock(library().mutex);
    const auto plan = AttentionPlan::create(library().runtime->device(), problem.desc, options);
    if (!plan) problem.reason = plan.error().message;
  }
  if (problem.reason.empty()) return true;
  log(GGML_LOG_LEVEL_DEBUG, std::string(node->name) + " is left to others: " + problem.reason);
  return false;
} catch (const std::bad_alloc&) {
  return false;
}

bool compute_node(const ggml_tensor& node) {
  const Problem problem = vkattn::ggml::problem_of(node);
  std::string reason = problem.reason;
  if (reason.empty()) {
    std::vector<float> slopes;
    const vkattn::HostTensors arrays = vkattn::ggml::arrays_of(node, problem, slopes);
    const std::scoped_lock lock(library().mutex);
    if (const auto done = library().runtime->compute(problem.desc, arrays); !done)
      reason = done.error().message;
  }
  if (reason.empty()) return true;
  log(GGML_LOG_LEVEL_ERROR, std::string(node.name) + " was not computed: " + reason);
  return false;
}

/// ggml does not expect exceptions: a lack of memory is a failure of the graph.
enum ggml_status compute_graph(ggml_backend_t, ggml_cgraph* graph) try {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor& node = *ggml_graph_node(graph, i);
    if (is_view(node) || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
    if (node.op != GGML_OP_FLASH_ATTN_EXT) {
      log(GGML_LOG_LEVEL_ERROR, std::string(node.name) + " is no attention, and was not computed");
      return GGML_STATUS_FAILED;
    }
    if (!compute_node(node)) return GGML_STATUS_FAILED;
  }
  return GGML_STATUS_SUCCESS;
} catch (const std::bad_alloc&) {
  log(GGML_LOG_LEVEL_ERROR, "no host memory is left");
  return GGML_STATUS_ALLOC_FAILED;
}

const char* name() {
  return "vkattn";
}

void destroy(ggml_backend_t backend) {
  {
    const std::scoped_lock lock(library().mutex);
    (void)library().runtime->save_pipeline_cache();  // a cache that cannot be kept is no failure
  }
  delete backend;
}

ggml_backend_t make_backend(ggml_backend_dev_t device, const char*) {
  static ggml_guid identity = {0x76, 0x6b, 0x61, 0x74, 0x74, 0x6e, 0x2d, 0x66,
                               0x6c, 0x61, 0x73, 0x68, 0x2d, 0x61, 0x74, 0x74};
  auto* backend = new (std::nothrow) ggml_backend;
  if (backend == nullptr) return nullptr;
  backend->identity = &identity;
  backend->name = [](ggml_backend_t) { return name(); };
  backend->destroy = destroy;
  backend->compute = compute_graph;
  backend->device = device;
  return backend;
}

void describe(ggml_backend_dev_t, ggml_backend_dev_props* properties) {
  properties->name = name();
  properties->description = library().device_name.c_str();
  properties->type = GGML_BACKEND_DEVICE_TYPE_ACCEL;
  properties->caps.buffer_from_host_ptr = true;
  properties->caps.mmap_support = true;
}

ggml_backend_device make_device(ggml_backend_reg_t reg) {
  ggml_backend_device device;
  device.name = [](ggml_backend_dev_t) { return name(); };
  device.description = [](ggml_backend_dev_t) { return library().device_name.c_str(); };
  // Tensors lie in the host's memory, of which others tell.
  device.memory = [](ggml_backend_dev_t, std::size_t* free, std::size_t* total) { *free = *total = 0; };
  device.type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
  device.properties = describe;
  device.make_backend = make_backend;
  device.buffer_type = [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); };
  device.buffer_of = [](ggml_backend_dev_t, void* memory, std::size_t bytes, std::size_t) {
    return ggml_backend_cpu_buffer_from_ptr(memory, bytes);
  };
  device.computes = computes;
  device.takes_memory_of = [](ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return ggml_backend_buft_is_host(type);
  };
  device.library = reg;
  return device;
}

Library::Library() {
  vkattn::RuntimeOptions options;
  options.import_host_memory = true;
  auto made = Runtime::create(options);
  if (!made) {
    log(GGML_LOG_LEVEL_INFO, made.error().message);
    return;
  }
  runtime.emplace(*std::move(made));
  device_name = runtime->device().capabilities().device_name;
  device = make_device(&reg);
  reg.name = [](ggml_backend_reg_t) { return name(); };
  reg.device_count = [](ggml_backend_reg_t) { return std::size_t{1}; };
  reg.device = [](ggml_backend_reg_t, std::size_t index) { return index == 0 ? &library().device : nullptr; };
}

}  // namespace

int ggml_backend_score() {
  return library().runtime ? 1 : 0;
}

ggml_backend_reg_t ggml_backend_init() {
  return library().runtime ? &library().reg : nullptr;
}
