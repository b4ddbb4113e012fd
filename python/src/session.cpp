// Sessions and the list of devices: see session.hpp.
#include "session.hpp"

#include <pybind11/stl.h>

#include <map>

namespace py = pybind11;

namespace vkattn::python {
namespace {

struct Sessions {
  std::mutex mutex;
  /// Sessions by the text that named their device. Several texts may share a session.
  std::map<std::string, std::shared_ptr<Session>> by_name;
  long process = 0;

  /// A session on this device that is not lost; null if there is none.
  [[nodiscard]] std::shared_ptr<Session> of_device(std::uint32_t index) const {
    for (const auto& [name, session] : by_name) {
      if (session && !session->is_lost() && session->device_index() == index) return session;
    }
    return nullptr;
  }
};

/// Called with the interpreter's lock. Never destroyed: the interpreter closes sessions before it ends, and
/// drivers may be gone afterwards. A forked process can neither use nor end its parent's sessions, as it
/// lacks their threads.
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
          "True if it has VK_KHR_cooperative_matrix.")
      .def_readonly("rejected", &DeviceInfo::rejected, "Why vkattn cannot use it; empty if it can.")
      .def("__repr__", &describe);
  module.def("devices", [] {
    const InterpreterUnlocked unlocked;
    return take(Runtime::list_devices());
  });
}

}  // namespace

void Session::require_own_process() const {
  if (process_ == this_process()) return;
  fail("this was made by process " + std::to_string(process_) + ", from which process " +
       std::to_string(this_process()) +
       " was forked; what lies on a device is not for forked processes, so make it again in this one");
}

void Session::require_own(const Session& other, const char* what, const char* owner) const {
  if (this == &other) return;
  other.require_own_process();
  const std::string text(what);
  if (other.is_lost())
    fail(text + " was on the device " + other.device_name() + " before it was lost; make it again");
  fail(text + " is on another device than " + owner + ": on " + other.device_name() + ", number " +
       std::to_string(other.device_index()) + ", not " + device_name() + ", number " +
       std::to_string(device_index()));
}

std::vector<std::string> Session::validation_messages() {
  return use([](const Runtime& runtime) { return runtime.validation_messages(); });
}

std::string Session::device_name() const {
  return runtime_.device().capabilities().device_name;
}

std::shared_ptr<Session> open_session(const std::string& device) {
  Sessions& all = sessions();
  const InterpreterUnlocked unlocked;
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Session>& session = all.by_name[device];
  if (!session || session->is_lost()) {
    RuntimeOptions options;
    options.device = device;
    // Only an open device tells which device a name means. A session on it under another name is taken
    // instead.
    auto opened = make_of_process<Session>(take(Runtime::create(options)));
    std::shared_ptr<Session> other = all.of_device(opened->device_index());
    session = other ? std::move(other) : std::move(opened);
  }
  return session;
}

void register_session(py::module_& module) {
  register_devices(module);
  py::class_<Session, std::shared_ptr<Session>>(module, "Session")
      .def("validation_messages", &Session::validation_messages)
      .def_property_readonly("device_name", &Session::device_name);
  module.def("open", &open_session);
  module.def("set_patience", [](int milliseconds) { set_patience(std::chrono::milliseconds(milliseconds)); });
  module.def("close_all", [] {
    Sessions& all = sessions();
    const InterpreterUnlocked unlocked;
    const std::lock_guard lock(all.mutex);
    all.by_name.clear();
  });
}

}  // namespace vkattn::python
