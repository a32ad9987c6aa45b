// The module carillon_sdk._edge: the EDGE API in Python. carillon_sdk/__init__.pyi
// says what its functions do.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/testbed_paths.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "shm/layout.h"
#include "tools/python/carillon_sdk/errors.h"
#include "tools/python/carillon_sdk/queue.h"
#include "tools/python/carillon_sdk/session.h"

namespace carillon::python {
namespace {

using namespace pybind11::literals;

// queue.poll(): what has ended, as far as the loop goes.
struct Ended {
  std::shared_ptr<Queue> queue;
};

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(Seconds(seconds));
}

std::shared_ptr<Session> Attach(const std::string& name,
                                const std::string& kind,
                                const std::string& directory,
                                std::vector<std::string> counters,
                                uint64_t submission_bytes,
                                uint64_t completion_bytes, double timeout) {
  const char* const own = std::getenv(kDeviceNameVariable);
  if (name.empty() && (own == nullptr || *own == '\0')) {
    throw EdgeError("the device has no name", "BAD_NAME",
                    fmt::format("attach(\"nic0\", kind=...), or set {}, as a "
                                "testbed does for its own devices",
                                kDeviceNameVariable));
  }
  const edge::AttachOptions options{.testbed_directory = directory,
                                    .name = name,
                                    .kind = kind,
                                    .submission_bytes = submission_bytes,
                                    .completion_bytes = completion_bytes,
                                    .counter_names = counters,
                                    .timeout = Milliseconds(timeout)};
  return std::make_shared<Session>(
      Must(UntilInterrupted([&] { return edge::Device::Attach(options); })),
      std::move(counters));
}

std::shared_ptr<Queue> Register(
    std::shared_ptr<Session> session, const std::string& kernel,
    const py::dict& parameters, const py::object& grid, const py::object& block,
    uint32_t max_in_flight, uint32_t shared_bytes, uint32_t priority,
    const std::string& label, const std::string& launch_path,
    const std::string& hands_to, const std::string& takes_from) {
  return Queue::Register(std::move(session),
                         {.kernel = kernel,
                          .grid = Dim3Of(grid),
                          .block = Dim3Of(block),
                          .shared_bytes = shared_bytes,
                          .max_in_flight = max_in_flight,
                          .priority = priority,
                          .label = label,
                          .launch_path = launch_path,
                          .hands_to = hands_to,
                          .takes_from = takes_from},
                         parameters);
}

void Launch(Session& session, const std::string& kernel,
            const py::dict& parameters, const py::object& grid,
            const py::object& block, uint32_t shared_bytes, uint32_t priority,
            double timeout) {
  session.Use();
  const edge::Device::LaunchSpec spec{
      .kernel = kernel,
      .grid = Dim3Of(grid),
      .block = Dim3Of(block),
      .shared_bytes = shared_bytes,
      .priority = priority,
      .parameters = ParametersOf(parameters, session),
      .timeout = Milliseconds(timeout)};
  Must(session.RunUntilInterrupted(
      [&](edge::Device& device) { return device.LaunchKernel(spec); }));
}

void Copy(Session& session, const Part& from, const Part& to, uint32_t priority,
          double timeout) {
  for (const Part* const part : {&from, &to}) part->buffer->CheckUsable();
  if (from.length != to.length) {
    throw EdgeError(
        fmt::format("a copy of {} bytes to {} bytes", from.length, to.length),
        "OUT_OF_RANGE", "take parts of the same length");
  }
  const edge::Device::CopySpec spec{.from = from.buffer->buffer(),
                                    .from_offset = from.offset,
                                    .to = to.buffer->buffer(),
                                    .to_offset = to.offset,
                                    .bytes = from.length,
                                    .priority = priority,
                                    .timeout = Milliseconds(timeout)};
  Must(session.RunUntilInterrupted(
      [&](edge::Device& device) { return device.Copy(spec); }));
}

std::map<std::string, std::string> Kernels(Session& session) {
  std::map<std::string, std::string> kernels;
  for (const auto& kernel : Must(session.RunUntilInterrupted(
           [](edge::Device& device) { return device.ListKernels(); })))
    kernels[kernel.name] = kernel.summary;
  return kernels;
}

// Python's own __new__ makes an object that has nothing behind it.
template <typename Class>
void OnlyMadeHere(const Class& made) {
  reinterpret_cast<PyTypeObject*>(made.ptr())->tp_new =
      [](PyTypeObject* type, PyObject*, PyObject*) -> PyObject* {
    return PyErr_Format(PyExc_TypeError, "a %s is made by a method only",
                        type->tp_name);
  };
}

// Those of _waiting.py sleep on descriptors that end, or become others.
void WakeSleepers(const py::object& device) {
  if (device.cast<const Session&>().forked()) return;  // they are another's
  const py::object sleepers = py::getattr(device, "_sleepers", py::none());
  if (!sleepers.is_none()) sleepers.attr("wake")();
}

void Close(const py::object& device) {
  WakeSleepers(device);
  device.cast<Session&>().Detach();
}

void BindDevice(py::module_& module) {
  py::class_<Session, std::shared_ptr<Session>> device(module, "Device",
                                                       py::dynamic_attr());
  OnlyMadeHere(device);
  device.def("__enter__", [](std::shared_ptr<Session> self) { return self; })
      .def("__exit__",
           [](const py::object& self, const py::args&) { Close(self); })
      .def("close", &Close)
      .def_property_readonly("closed", &Session::detached)
      .def_property_readonly("name",
                             [](Session& self) { return self.device().name(); })
      .def_property_readonly(
          "device_id", [](Session& self) { return self.device().device_id(); })
      .def("buffer", &Buffer::Allocate, "place"_a, "shape"_a, "dtype"_a = "u1")
      .def("register", &Register, "kernel"_a, "parameters"_a = py::dict(),
           py::kw_only(), "grid"_a = 1, "block"_a = 32, "max_in_flight"_a = 32,
           "shared_bytes"_a = 0, "priority"_a = 0, "label"_a = "",
           "launch_path"_a = "", "hands_to"_a = "", "takes_from"_a = "")
      .def("launch", &Launch, "kernel"_a, "parameters"_a = py::dict(),
           py::kw_only(), "grid"_a = 1, "block"_a = 32, "shared_bytes"_a = 0,
           "priority"_a = 0, "timeout"_a = 60.0)
      .def("copy", &Copy, "source"_a, "target"_a, py::kw_only(),
           "priority"_a = 0, "timeout"_a = 60.0)
      .def("kernels", &Kernels)
      .def("count", &Session::Count, "counter"_a, "by"_a = 1)
      .def(
          "report_ready",
          [](Session& self, const std::string& note) {
            Must(self.RunUntilInterrupted([&](edge::Device& device) {
              return device.ReportReady(note);
            }));
          },
          "note"_a = "")
      .def("check", [](Session& self) { Must(self.Use().status()); })
      .def_property_readonly("may_resume", &Session::may_resume)
      .def(
          "resume",
          [](const py::object& self, double timeout) {
            WakeSleepers(self);
            self.cast<Session&>().Resume(timeout);
          },
          "timeout"_a)
      // For await (_waiting.py).
      .def_property_readonly("_descriptors",
                             [](Session& self) {
                               edge::Device& device = self.Use();
                               return py::make_tuple(device.completion_fd(),
                                                     device.connection_fd());
                             })
      .def("_arm", [](Session& self) { self.Use().ArmCompletionFd(); })
      .def("_disarm", [](Session& self) { self.Use().DisarmCompletionFd(); })
      .def(
          "_wait_for_end",
          [](Session& self, double timeout) {
            const auto within = Milliseconds(timeout);
            self.Run([&](edge::Device& device) {
                  return device.WaitForEnd(within);
                })
                .IgnoreError();
          },
          "timeout"_a);
}

void BindBuffers(py::module_& module) {
  py::class_<Part> part(module, "Part");
  OnlyMadeHere(part);
  part.def_property_readonly("buffer",
                             [](const Part& self) { return self.buffer; })
      .def_readonly("offset", &Part::offset)
      .def_readonly("length", &Part::length);
  py::class_<Buffer, std::shared_ptr<Buffer>> buffer(module, "Buffer");
  OnlyMadeHere(buffer);
  buffer.def("__enter__", [](std::shared_ptr<Buffer> self) { return self; })
      .def("__exit__",
           [](Buffer& self, const py::object& kind, const py::args&) {
             // What the device's end has taken along is free.
             if (self.freed() || self.session()->detached()) return;
             try {
               self.Free();
             } catch (const EdgeError&) {
               // An error of the block itself is the one to see.
               if (kind.is_none()) throw;
             }
           })
      .def_property_readonly("array", &Buffer::View)
      .def("__array__",
           [](Buffer& self, const py::args& arguments) -> py::object {
             if (arguments.empty()) return self.View();
             return self.View().attr("astype")(*arguments, "copy"_a = false);
           })
      .def("__getitem__",
           [](Buffer& self, const py::object& key) -> py::object {
             return self.View()[key];
           })
      .def("__setitem__",
           [](Buffer& self, const py::object& key, const py::object& value) {
             self.View()[key] = value;
           })
      .def("__len__", [](Buffer& self) { return py::len(self.View()); })
      .def_property_readonly("nbytes", &Buffer::bytes)
      .def_property_readonly("place", &Buffer::place)
      .def_property_readonly("lost", &Buffer::lost)
      .def(
          "part",
          [](std::shared_ptr<Buffer> self, int64_t offset,
             std::optional<int64_t> length) {
            const auto bytes = static_cast<int64_t>(self->bytes());
            return PartOf(
                self, offset,
                length ? *length : std::max(bytes - offset, int64_t{0}));
          },
          "offset"_a = 0, "length"_a = py::none())
      .def("per_slot",
           [](std::shared_ptr<Buffer> self) {
             self->CheckUsable();
             const uint64_t bytes = self->slot_bytes();
             return Part{self, 0, bytes, bytes};
           })
      .def("free", &Buffer::Free);
}

void BindQueue(py::module_& module) {
  py::class_<PerEvent>(module, "PerEvent")
      .def(py::init([](std::shared_ptr<Buffer> buffer) {
             return PerEvent{std::move(buffer)};
           }),
           "buffer"_a = py::none());
  py::class_<Taken>(module, "Taken")
      .def(py::init([](std::string from) { return Taken{std::move(from)}; }),
           "parameter"_a);
  py::class_<Completion> completion(module, "Completion");
  OnlyMadeHere(completion);
  completion.def_readonly("sequence", &Completion::sequence)
      .def_readonly("slot", &Completion::slot)
      .def_readonly("status", &Completion::status)
      .def_property_readonly("state", &StateOf)
      .def_property_readonly("ok",
                             [](const Completion& self) {
                               return self.state ==
                                          uint32_t(shm::EventState::kDone) &&
                                      self.status == 0;
                             })
      .def("__repr__", [](const Completion& self) {
        return fmt::format("<Completion {} in slot {}: {}, status {}>",
                           self.sequence, self.slot, StateOf(self),
                           self.status);
      });
  py::class_<Ended> ended(module, "Ended");
  OnlyMadeHere(ended);
  ended.def("__iter__", [](py::object self) { return self; })
      .def("__next__", [](Ended& self) {
        auto done = self.queue->Poll();
        if (!done) throw py::stop_iteration();
        return *done;
      });
  py::class_<Queue, std::shared_ptr<Queue>> queue(module, "Queue",
                                                  py::dynamic_attr());
  OnlyMadeHere(queue);
  queue
      .def_property_readonly("device",
                             [](Queue& self) { return self.session(); })
      .def_property_readonly("kernel",
                             [](Queue& self) { return self.Use().kernel(); })
      .def_property_readonly("event_id",
                             [](Queue& self) { return self.Use().event_id(); })
      .def_property_readonly(
          "launch_path", [](Queue& self) { return self.Use().launch_path(); })
      .def_property_readonly(
          "free_slots", [](Queue& self) { return self.Use().free_slots(); })
      .def_property_readonly("in_flight",
                             [](Queue& self) { return self.Use().in_flight(); })
      .def_property_readonly("next_slot",
                             [](Queue& self) { return self.Use().next_slot(); })
      .def_property_readonly("event_dtype", &Queue::event_dtype)
      .def("ring", &Queue::Ring)
      .def("ring_batch", &Queue::RingBatch, "events"_a)
      .def("poll",
           [](std::shared_ptr<Queue> self) {
             self->Use();
             return Ended{std::move(self)};
           })
      .def("wait", &Queue::Wait, "timeout"_a = py::none())
      .def("take", &Queue::Take, "records"_a, "timeout"_a = 0.0)
      .def("completion",
           [](const py::object& self) -> py::object {
             return py::module_::import("carillon_sdk._waiting")
                 .attr("completion")(self);
           })
      .def("_note_missed", &Queue::NoteMissed, "seconds"_a)
      .def("unregister", &Queue::Unregister)
      .def("release_barrier", &Queue::ReleaseBarrier);
}

}  // namespace
}  // namespace carillon::python

PYBIND11_MODULE(_edge, module) {
  using namespace carillon::python;
  PYBIND11_NUMPY_DTYPE(Completion, sequence, slot, state, status, reserved);
  RegisterErrors();
  NoteForks();
  BindDevice(module);
  BindBuffers(module);
  BindQueue(module);
  module.attr("COMPLETION") = CompletionDtype();
  module.def("attach", &Attach, "name"_a = "", py::kw_only(), "kind"_a,
             "directory"_a = "", "counters"_a = std::vector<std::string>(),
             "submission_bytes"_a = uint64_t{1} << 20,
             "completion_bytes"_a = uint64_t{1} << 20, "timeout"_a = 5.0);
}
