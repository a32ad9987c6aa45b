#include "tools/python/carillon_sdk/session.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::python {
namespace {

constexpr double kMaxSeconds = 1e9;
constexpr size_t kMostAxes = 32;  // NumPy's

// How many fork() lie behind this process since the module was loaded. Changed
// where only one thread is.
uint64_t forks = 0;

constexpr std::array<std::pair<std::string_view, edge::Place>, 4> kPlaces = {{
    {"input", edge::Place::kInput},
    {"output", edge::Place::kOutput},
    {"gpu", edge::Place::kGpuMemory},
    {"durable", edge::Place::kDurable},
}};

edge::Place PlaceOf(const std::string& name) {
  for (const auto& [known, place] : kPlaces) {
    if (known == name) return place;
  }
  throw EdgeError(fmt::format("there is no place '{}'", name), "BAD_PLACE",
                  "one of input, output, gpu, durable");
}

std::vector<int64_t> ShapeOf(const py::object& shape) {
  std::vector<int64_t> axes;
  try {
    if (py::isinstance<py::tuple>(shape) || py::isinstance<py::list>(shape)) {
      for (const py::handle axis : shape) axes.push_back(axis.cast<int64_t>());
    } else {
      axes.push_back(shape.cast<int64_t>());
    }
  } catch (const py::cast_error&) {
    axes.clear();
  }
  if (axes.empty() || axes.size() > kMostAxes ||
      std::ranges::any_of(axes, [](int64_t axis) { return axis <= 0; })) {
    throw EdgeError(fmt::format("{} is no shape of a buffer", Repr(shape)),
                    "BAD_SHAPE",
                    "an int or a tuple of at most 32 ints, each at least 1");
  }
  return axes;
}

py::dtype DtypeOf(const py::object& given) {
  py::object dtype;
  try {
    dtype = py::module_::import("numpy").attr("dtype")(given);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    throw EdgeError(fmt::format("{} is no type of NumPy's", Repr(given)),
                    "BAD_DTYPE", "as 'u1', 'f4' or a structured dtype");
  }
  // A kernel would write addresses that Python follows.
  if (dtype.attr("hasobject").cast<bool>() ||
      dtype.attr("itemsize").cast<int64_t>() == 0) {
    throw EdgeError(
        fmt::format("memory that a GPU shares holds no {}", Repr(dtype)),
        "BAD_DTYPE", "take a type of plain values");
  }
  return dtype;
}

}  // namespace

// --- The session.

void NoteForks() {
  pthread_atfork(nullptr, nullptr, [] { ++forks; });
}

Session::Session(std::unique_ptr<edge::Device> device,
                 std::vector<std::string> counters)
    : device_(std::move(device)),
      counters_(std::move(counters)),
      forks_(forks) {}

Session::~Session() {
  if (forked()) {
    // Its threads are not here, and the session is the other process's.
    static_cast<void>(device_.release());
    return;
  }
  // It may have to tell gpud.
  if (PyGILState_Check() == 0) return;
  PyThreadState* const state = PyEval_SaveThread();
  device_.reset();
  PyEval_RestoreThread(state);
}

bool Session::forked() const { return forks_ != forks; }

edge::Device& Session::Use() {
  CheckNobodyResumes();
  Must(unresumed_);
  return *device_;
}

void Session::CheckNobodyResumes() const {
  if (forked()) {
    throw EdgeError("this process was forked from the one that had attached",
                    "FORKED", "attach after fork(), under another name");
  }
  if (detached_) {
    throw EdgeError(fmt::format("device '{}' was closed", device_->name()),
                    "DETACHED", "attach again");
  }
  if (resuming_) {
    throw EdgeError(
        fmt::format("device '{}' is being resumed by another thread",
                    device_->name()),
        "RESUMING", "wait for resume() to return");
  }
}

void Session::Detach() {
  if (detached_ || forked()) return;
  CheckNobodyResumes();
  detached_ = true;
  Unlocked([&] {
    device_->Detach();
    return true;
  });
}

bool Session::may_resume() const {
  CheckNobodyResumes();
  return !unresumed_.ok() || device_->may_resume();
}

void Session::Count(const std::string& counter, uint64_t by) {
  const auto found = std::ranges::find(counters_, counter);
  if (found == counters_.end()) {
    throw EdgeError(fmt::format("device '{}' has no counter '{}'",
                                device_->name(), counter),
                    "NO_COUNTER", "name it in attach(counters=...)");
  }
  Use().AddToCounter(static_cast<uint32_t>(found - counters_.begin()), by);
}

void Session::Resume(double timeout) {
  const auto within = Seconds(timeout);
  CheckNobodyResumes();
  if (running_ != 0) {
    throw EdgeError(
        fmt::format("another call uses device '{}'", device_->name()), "BUSY",
        "let all calls end before resume()");
  }
  const auto deadline = std::chrono::steady_clock::now() + within;
  // Once it is sure that another gpud may follow, only Resume() may be called.
  if (unresumed_.ok()) {
    const absl::Status ended = device_->status();
    if (ended.ok()) return;
    if (!device_->may_resume()) throw EdgeError(ended);
    unresumed_ = ended;
  }
  struct Resuming {
    bool& flag;
    explicit Resuming(bool& its_flag) : flag(its_flag) { flag = true; }
    ~Resuming() { flag = false; }
  } const resuming(resuming_);
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const absl::Status status = Unlocked([&] {
      return device_->Resume(
          std::clamp(left, std::chrono::milliseconds(0), kLookForSignals));
    });
    if (!absl::IsUnavailable(status)) {
      unresumed_ = absl::OkStatus();
      return Must(status);
    }
    if (left.count() <= 0) break;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  throw EdgeError(absl::UnavailableError(
      fmt::format("{}; no other gpud within {} s",
                  std::string(unresumed_.message()), timeout)));
}

std::chrono::nanoseconds Seconds(double seconds) {
  if (std::isnan(seconds) || seconds < 0) {
    throw EdgeError(fmt::format("a timeout of {} seconds", seconds),
                    "BAD_TIMEOUT", "give seconds from 0 on");
  }
  return std::chrono::nanoseconds(
      static_cast<int64_t>(std::min(seconds, kMaxSeconds) * 1e9));
}

// --- Buffers.

std::shared_ptr<Buffer> Buffer::Allocate(std::shared_ptr<Session> session,
                                         const std::string& place,
                                         const py::object& shape,
                                         const py::object& given_dtype) {
  session->Use();
  const edge::Place where = PlaceOf(place);
  const std::vector<int64_t> axes = ShapeOf(shape);
  const py::dtype dtype = DtypeOf(given_dtype);
  int64_t bytes = dtype.itemsize();
  for (const int64_t axis : axes) {
    if (__builtin_mul_overflow(bytes, axis, &bytes)) {
      throw EdgeError("a buffer of more than 2^63 bytes", "BAD_SHAPE",
                      "take a smaller one");
    }
  }
  auto self = std::make_shared<Buffer>();
  self->buffer_ = Must(session->RunUntilInterrupted([&](edge::Device& device) {
    return device.AllocateBuffer(where, static_cast<uint64_t>(bytes));
  }));
  self->place_ = place;
  self->bytes_ = static_cast<uint64_t>(bytes);
  self->slots_ = static_cast<uint64_t>(axes[0]);
  self->session_ = std::move(session);
  self->view_ = py::none();
  if (where == edge::Place::kGpuMemory) return self;
  const py::capsule owner(
      new std::shared_ptr<Session>(self->session_), [](void* session) {
        delete static_cast<std::shared_ptr<Session>*>(session);
      });
  py::array view(dtype, axes, self->buffer_.bytes.data(), owner);
  // Writing there faults.
  if (where != edge::Place::kInput) view.attr("setflags")(false);
  self->view_ = view;
  return self;
}

void Buffer::CheckUsable() const {
  session_->Use();
  if (freed_) {
    throw EdgeError(fmt::format("this buffer of {} bytes was freed", bytes_),
                    "FREED", "allocate another one");
  }
}

py::array Buffer::View() {
  CheckUsable();
  if (view_.is_none()) {
    throw EdgeError("only kernels reach a buffer in GPU memory", "NO_VIEW",
                    "device.copy() copies to and from it");
  }
  return py::array(view_);
}

void Buffer::Free() {
  CheckUsable();
  // Ours alone, or somebody looks at it, or at a part of it.
  if (!view_.is_none() && view_.ref_count() > 1) {
    throw EdgeError(
        fmt::format("arrays look at this buffer of {} bytes", bytes_),
        "VIEWS_ALIVE", "drop them first, or leave it to the device's end");
  }
  // After an interrupt nobody knows whether gpud has it still: it stays so.
  freed_ = true;
  const absl::Status status = session_->RunUntilInterrupted(
      [&](edge::Device& device) { return device.FreeBuffer(buffer_); });
  freed_ = status.ok();
  Must(status);
  view_ = py::none();
}

bool Buffer::lost() const {
  CheckUsable();
  return absl::IsDataLoss(session_->device().status(buffer_));
}

Part PartOf(std::shared_ptr<Buffer> buffer, int64_t offset, int64_t length) {
  buffer->CheckUsable();
  const auto bytes = static_cast<int64_t>(buffer->bytes());
  if (offset < 0 || length < 0 || offset > bytes || length > bytes - offset) {
    throw EdgeError(fmt::format("bytes {} to {}+{} of a buffer of {} bytes",
                                offset, offset, length, bytes),
                    "OUT_OF_RANGE", "stay inside of the buffer");
  }
  return {std::move(buffer), static_cast<uint64_t>(offset),
          static_cast<uint64_t>(length), 0};
}

}  // namespace carillon::python
