// Sessions and the list of devices: see session.hpp.
#include "session.hpp"

#include <pybind11/stl.h>

#include <map>

#ifdef __unix__
#include <unistd.h>
#endif

namespace py = pybind11;

namespace vkattn::python {
namespace {

struct Sessions {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Session>> by_device;
  long process = 0;
};

long this_process() {
#ifdef __unix__
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

/// Called with the interpreter's lock. Never destroyed: the interpreter closes sessions before it ends, and
/// drivers may be gone after it. What a forked process has of its parent's sessions cannot be used, nor
/// ended: their threads are not there.
Sessions& sessions() {
  static Sessions* all = new Sessions{{}, {}, this_process()};
  if (all->process != this_process()) all = new Sessions{{}, {}, this_process()};
  return *all;
}

const char* type_name(DeviceType type) {
  switch (type) {
    case DeviceType::kIntegratedGpu:
      return "integrated GPU";
    case DeviceType::kDiscreteGpu:
      return "discrete GPU";
    case DeviceType::kVirtualGpu:
      return "virtual GPU";
    case DeviceType::kCpu:
      return "CPU";
    case DeviceType::kOther:
      break;
  }
  return "other";
}

std::string describe(const DeviceInfo& info) {
  std::string text = "<vkattn.Device " + std::to_string(info.index) + ": " + info.capabilities.device_name +
                     " - " + type_name(info.capabilities.device_type);
  if (!info.rejected.empty()) text += ", cannot be used: " + info.rejected;
  return text + ">";
}

void register_devices(py::module_& module) {
  py::class_<DeviceInfo>(module, "Device",
                         "A Vulkan device of this machine, as found by devices(). Any call takes it as its "
                         "`device`.")
      .def_readonly("index", &DeviceInfo::index, "Its number in devices().")
      .def_property_readonly("name", [](const DeviceInfo& d) { return d.capabilities.device_name; })
      .def_property_readonly(
          "type", [](const DeviceInfo& d) { return type_name(d.capabilities.device_type); },
          "'discrete GPU', 'integrated GPU', 'virtual GPU', 'CPU' or 'other'.")
      .def_property_readonly(
          "driver",
          [](const DeviceInfo& d) { return d.capabilities.driver_name + " " + d.capabilities.driver_info; },
          "The driver's name and version.")
      .def_property_readonly(
          "matrix_units", [](const DeviceInfo& d) { return d.capabilities.cooperative_matrix; },
          "That it has VK_KHR_cooperative_matrix.")
      .def_readonly("rejected", &DeviceInfo::rejected, "Why vkattn cannot use it; empty where it can.")
      .def("__repr__", &describe);
  module.def("devices", [] {
    const py::gil_scoped_release released;
    return take(Runtime::list_devices());
  });
}

}  // namespace

const AttentionPlan& Session::attention_plan(const AttentionDesc& desc, const std::string& kernel) {
  const AttentionDesc whole = desc.resolved();
  return attention_plans_.get(whole, kernel, [&] {
    PlanOptions options;
    options.kernel = kernel;
    return take(runtime_.make_plan(whole, options));
  });
}

const BackwardPlan& Session::backward_plan(const BackwardDesc& desc, const std::string& kernel) {
  const BackwardDesc whole = desc.resolved();
  return backward_plans_.get(whole, kernel, [&] {
    BackwardOptions options;
    options.kernel = kernel;
    return take(runtime_.make_backward_plan(whole, options));
  });
}

const MultiHeadAttentionPlan& Session::layer_plan(const MultiHeadAttentionDesc& desc) {
  const MultiHeadAttentionDesc whole = desc.resolved();
  return layer_plans_.get(whole, {}, [&] { return take(runtime_.make_multi_head_attention_plan(whole)); });
}

const MultiHeadAttentionBackwardPlan& Session::layer_backward_plan(
    const MultiHeadAttentionBackwardDesc& desc) {
  const MultiHeadAttentionBackwardDesc whole = desc.resolved();
  return layer_backward_plans_.get(
      whole, {}, [&] { return take(runtime_.make_multi_head_attention_backward_plan(whole)); });
}

bool Session::is_lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::vector<std::string> Session::validation_messages() {
  return use([](const Runtime& runtime) { return runtime.validation_messages(); });
}

std::string Session::device_name() const {
  return runtime_.device().capabilities().device_name;
}

std::shared_ptr<Session> open_session(const std::string& device) {
  Sessions& all = sessions();
  const py::gil_scoped_release released;
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Session>& session = all.by_device[device];
  if (!session || session->is_lost()) {
    RuntimeOptions options;
    options.device = device;
    session = std::make_shared<Session>(take(Runtime::create(options)));
  }
  return session;
}

void register_session(py::module_& module) {
  register_devices(module);
  py::class_<Session, std::shared_ptr<Session>>(module, "Session")
      .def("validation_messages", &Session::validation_messages)
      .def_property_readonly("device_name", &Session::device_name);
  module.def("open", &open_session);
  module.def("close_all", [] {
    Sessions& all = sessions();
    const py::gil_scoped_release released;
    const std::lock_guard lock(all.mutex);
    all.by_device.clear();
  });
}

}  // namespace vkattn::python
