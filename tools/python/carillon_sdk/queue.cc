#include "tools/python/carillon_sdk/queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::python {
namespace {

using edge::ValueType;

// As EventQueue::Wait() has it: shorter ones are looks, not waits.
constexpr std::chrono::milliseconds kLongWait{100};

// Nobody else uses the queue while there is one.
class Turn {
 public:
  explicit Turn(bool& busy) : busy_(busy) { busy_ = true; }
  ~Turn() { busy_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool& busy_;
};

const char* FormatOf(ValueType type) {
  switch (type) {
    case ValueType::kU32:
      return "<u4";
    case ValueType::kI32:
      return "<i4";
    case ValueType::kU64:
      return "<u8";
    case ValueType::kI64:
      return "<i8";
    case ValueType::kF32:
      return "<f4";
    case ValueType::kF64:
      return "<f8";
    case ValueType::kBuffer:
      break;
  }
  return "";
}

py::dtype DtypeOf(const py::object& format) {
  return py::module_::import("numpy").attr("dtype")(format);
}

[[noreturn]] void RefuseValue(std::string_view name, py::handle value,
                              std::string_view expected) {
  throw EdgeError(
      fmt::format("parameter '{}' cannot hold {}", name, Repr(value)),
      "BAD_PARAMETER", fmt::format("give it {}", expected));
}

// An integer of Python's or NumPy's that T can hold.
template <class T>
T IntegerOf(std::string_view name, py::handle value,
            std::string_view expected) {
  const auto integer =
      py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!integer) {
    PyErr_Clear();
    RefuseValue(name, value, expected);
  }
  if constexpr (std::is_signed_v<T>) {
    int overflow = 0;
    const long long number =
        PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
    if (overflow == 0 && number >= std::numeric_limits<T>::min() &&
        number <= std::numeric_limits<T>::max()) {
      return static_cast<T>(number);
    }
  } else {
    const unsigned long long number = PyLong_AsUnsignedLongLong(integer.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
    } else if (number <= std::numeric_limits<T>::max()) {
      return static_cast<T>(number);
    }
  }
  RefuseValue(name, value, expected);
}

template <class T>
T FloatOf(std::string_view name, py::handle value, std::string_view expected) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    RefuseValue(name, value, expected);
  }
  if (std::isfinite(number) &&
      std::abs(number) > std::numeric_limits<T>::max()) {
    RefuseValue(name, value, expected);
  }
  return static_cast<T>(number);
}

void CheckOwn(const std::string& name, const Buffer& buffer,
              const Session& session) {
  buffer.CheckUsable();
  if (buffer.session().get() != &session) {
    throw EdgeError(
        fmt::format("parameter '{}' is a buffer of another device", name),
        "BAD_PARAMETER", "allocate it from this one");
  }
}

edge::Parameter ConstantOf(const std::string& name, py::handle value) {
  if (py::isinstance<py::float_>(value)) {
    return edge::ConstantFloat(name, value.cast<double>());
  }
  const auto integer =
      py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (integer) {
    if (integer < py::int_(0)) {
      return edge::ConstantSigned(
          name, IntegerOf<int64_t>(name, value, "an integer of 64 bits"));
    }
    return edge::Constant(
        name, IntegerOf<uint64_t>(name, value, "an integer of 64 bits"));
  }
  PyErr_Clear();
  if (PyFloat_Check(value.ptr()) || PyNumber_Check(value.ptr()) != 0) {
    return edge::ConstantFloat(
        name, FloatOf<double>(name, value, "a number of 64 bits"));
  }
  RefuseValue(name, value,
              "a number, a buffer, a part of one, PerEvent or Taken");
}

// The bytes of a 1-dimensional array of records of that type, and their stride.
struct Records {
  std::byte* bytes;
  int64_t stride;
  uint64_t count;
};

Records RecordsOf(const py::array& array, const py::dtype& dtype,
                  bool writable) {
  if (!array.dtype().is(dtype) && !array.dtype().equal(dtype)) {
    throw EdgeError(fmt::format("an array of {}, not of {}",
                                Repr(array.dtype()), Repr(dtype)),
                    "BAD_DTYPE",
                    writable ? "take carillon_sdk.COMPLETION"
                             : "take the queue's event_dtype");
  }
  if (array.ndim() != 1) {
    throw EdgeError(fmt::format("an array of {} dimensions", array.ndim()),
                    "BAD_DTYPE", "take one of one dimension");
  }
  if (writable && !array.writeable()) {
    throw EdgeError("this array is read-only", "BAD_DTYPE",
                    "take one that can be written");
  }
  return {static_cast<std::byte*>(const_cast<void*>(array.data())),
          array.strides(0), static_cast<uint64_t>(array.shape(0))};
}

}  // namespace

std::string StateOf(const Completion& completion) {
  switch (static_cast<shm::EventState>(completion.state)) {
    case shm::EventState::kDone:
      return "done";
    case shm::EventState::kFailed:
      return "failed";
    case shm::EventState::kAborted:
      return "aborted";
    case shm::EventState::kNone:
      break;
  }
  return fmt::format("unknown ({})", completion.state);
}

edge::Dim3 Dim3Of(const py::object& given) {
  edge::Dim3 dim;
  try {
    if (!py::isinstance<py::tuple>(given)) {
      dim.x = given.cast<uint32_t>();
      return dim;
    }
    const auto tuple = given.cast<py::tuple>();
    if (!tuple.empty() && tuple.size() <= 3) {
      dim.x = tuple[0].cast<uint32_t>();
      if (tuple.size() > 1) dim.y = tuple[1].cast<uint32_t>();
      if (tuple.size() > 2) dim.z = tuple[2].cast<uint32_t>();
      return dim;
    }
  } catch (const py::cast_error&) {
  }
  throw EdgeError(fmt::format("{} are no dimensions", Repr(given)), "BAD_SHAPE",
                  "an int or a tuple of one to three");
}

std::vector<edge::Parameter> ParametersOf(const py::dict& given,
                                          const Session& session) {
  std::vector<edge::Parameter> parameters;
  for (const auto& [key, value] : given) {
    if (!py::isinstance<py::str>(key)) {
      throw EdgeError(fmt::format("{} is no name of a parameter", Repr(key)),
                      "BAD_PARAMETER", "`carillon kernels` lists the names");
    }
    const auto name = key.cast<std::string>();
    if (py::isinstance<Buffer>(value)) {
      const auto& buffer = value.cast<const Buffer&>();
      CheckOwn(name, buffer, session);
      parameters.push_back(edge::Fixed(name, buffer.buffer()));
    } else if (py::isinstance<Part>(value)) {
      const auto& part = value.cast<const Part&>();
      CheckOwn(name, *part.buffer, session);
      parameters.push_back(edge::Fixed(name, part.buffer->buffer(),
                                       {.offset = part.offset,
                                        .length = part.length,
                                        .slot_stride = part.stride}));
    } else if (py::isinstance<PerEvent>(value)) {
      const auto& per_event = value.cast<const PerEvent&>();
      if (per_event.buffer == nullptr) {
        parameters.push_back(edge::Writable(name));
      } else {
        CheckOwn(name, *per_event.buffer, session);
        parameters.push_back(
            edge::WritableBuffer(name, per_event.buffer->buffer()));
      }
    } else if (py::isinstance<Taken>(value)) {
      parameters.push_back(edge::Taken(name, value.cast<const Taken&>().from));
    } else {
      parameters.push_back(ConstantOf(name, value));
    }
  }
  return parameters;
}

std::shared_ptr<Queue> Queue::Register(std::shared_ptr<Session> session,
                                       const Registration& registration,
                                       const py::dict& parameters) {
  session->Use();
  const edge::EventSpec spec{.kernel = registration.kernel,
                             .grid = registration.grid,
                             .block = registration.block,
                             .shared_bytes = registration.shared_bytes,
                             .max_in_flight = registration.max_in_flight,
                             .priority = registration.priority,
                             .modifyable = false,
                             .label = registration.label,
                             .launch_path = registration.launch_path,
                             .parameters = ParametersOf(parameters, *session),
                             .hands_to = registration.hands_to,
                             .takes_from = registration.takes_from};
  std::map<std::string, std::shared_ptr<Buffer>> buffers;
  for (const auto& [key, value] : parameters) {
    if (!py::isinstance<PerEvent>(value)) continue;
    buffers[key.cast<std::string>()] = value.cast<const PerEvent&>().buffer;
  }
  edge::EventQueue* const queue =
      Must(session->RunUntilInterrupted([&](edge::Device& device) {
        return edge::edgeRegisterEvent(device, spec);
      }));
  return std::shared_ptr<Queue>(new Queue(std::move(session), queue, buffers));
}

Queue::Queue(std::shared_ptr<Session> session, edge::EventQueue* queue,
             const std::map<std::string, std::shared_ptr<Buffer>>& buffers)
    : session_(std::move(session)), queue_(queue) {
  py::list members;
  uint64_t offset = 0;
  for (const edge::WritableParameter& parameter : queue->writable()) {
    fields_.push_back({parameter, offset, buffers.at(parameter.name)});
    offset += parameter.bytes;
    py::object type = py::str(FormatOf(parameter.type));
    if (parameter.type == ValueType::kBuffer) {
      py::list reference;
      reference.append(py::make_tuple("offset", "<u8"));
      reference.append(py::make_tuple("length", "<u8"));
      type = reference;
    }
    members.append(py::make_tuple(parameter.name, type));
  }
  record_bytes_ = offset;
  event_dtype_ = DtypeOf(members);
}

edge::EventQueue& Queue::Use() const {
  session_->Use();
  if (queue_ == nullptr) {
    throw EdgeError("this queue was unregistered", "UNREGISTERED",
                    "register the kernel again");
  }
  if (busy_) {
    throw EdgeError(
        fmt::format("another thread uses the queue of '{}'", queue_->kernel()),
        "BUSY", "a queue is for one thread at a time");
  }
  return *queue_;
}

void Queue::Convert(const Field& field, py::handle value, std::byte* record) {
  const auto& [name, type, offset, bytes] = field.parameter;
  const auto put = [&](const auto& converted) {
    std::memcpy(record + field.record_offset, &converted, sizeof(converted));
  };
  switch (type) {
    case ValueType::kU32:
      return put(IntegerOf<uint32_t>(name, value, "a u32"));
    case ValueType::kI32:
      return put(IntegerOf<int32_t>(name, value, "an i32"));
    case ValueType::kU64:
      return put(IntegerOf<uint64_t>(name, value, "a u64"));
    case ValueType::kI64:
      return put(IntegerOf<int64_t>(name, value, "an i64"));
    case ValueType::kF32:
      return put(FloatOf<float>(name, value, "an f32"));
    case ValueType::kF64:
      return put(FloatOf<double>(name, value, "an f64"));
    case ValueType::kBuffer:
      break;
  }
  if (!py::isinstance<Part>(value) ||
      value.cast<const Part&>().buffer != field.buffer) {
    RefuseValue(name, value,
                "a part of the buffer that it was registered with");
  }
  const Part& part = value.cast<const Part&>();
  put(shm::BufferRef{part.offset, part.length});
}

void Queue::SetFields(edge::EventQueue& queue, const std::byte* record) const {
  for (const Field& field : fields_) {
    queue.SetBytes(
        field.parameter.offset,
        std::span(record + field.record_offset, field.parameter.bytes));
  }
}

uint64_t Queue::Ring(const py::kwargs& parameters) {
  Use();
  absl::InlinedVector<std::byte, 128> record(record_bytes_);
  for (const Field& field : fields_) {
    PyObject* const value =
        PyDict_GetItemString(parameters.ptr(), field.parameter.name.c_str());
    if (value == nullptr) {
      throw EdgeError(
          fmt::format("parameter '{}' is missing", field.parameter.name),
          "BAD_PARAMETER", "each event brings all that are PerEvent");
    }
    Convert(field, value, record.data());
  }
  if (parameters.size() != fields_.size()) {
    for (const auto& [key, value] : parameters) {
      const auto name = key.cast<std::string>();
      if (std::ranges::any_of(fields_, [&](const Field& field) {
            return field.parameter.name == name;
          })) {
        continue;
      }
      throw EdgeError(fmt::format("parameter '{}' of '{}' does not come with "
                                  "events",
                                  name, Use().kernel()),
                      "BAD_PARAMETER", "register it as PerEvent");
    }
  }
  // What converted the values may have unregistered this queue, or rung.
  edge::EventQueue& queue = Use();
  if (queue.free_slots() == 0) {
    throw EdgeError(fmt::format("no room in the ring of '{}': {} events are in "
                                "flight",
                                queue.kernel(), queue.in_flight()),
                    "RING_FULL", "take completions first");
  }
  SetFields(queue, record.data());
  return queue.RingDoorbell().value();
}

uint64_t Queue::RingBatch(const py::object& events) {
  Use();
  Records records{.bytes = nullptr, .stride = 0, .count = 0};
  if (py::isinstance<py::array>(events)) {
    records =
        RecordsOf(events.cast<py::array>(), event_dtype_, /*writable=*/false);
  } else {
    records.count =
        IntegerOf<uint64_t>("events", events, "a number or an array");
    if (!fields_.empty()) {
      throw EdgeError(
          fmt::format("events of '{}' have parameters", Use().kernel()),
          "BAD_PARAMETER", "give an array of the queue's event_dtype");
    }
  }
  // What converted the number may have unregistered this queue, or rung.
  edge::EventQueue& queue = Use();
  const uint64_t count = std::min<uint64_t>(queue.free_slots(), records.count);
  for (uint64_t i = 0; i < count; ++i, records.bytes += records.stride) {
    if (!fields_.empty()) SetFields(queue, records.bytes);
    queue.Commit();
  }
  if (count > 0) queue.RingCommitted();
  return count;
}

Completion Queue::TakeOne(edge::EventQueue& queue,
                          const edge::Completion& done) {
  const Completion completion{
      done.sequence.value(), queue.SlotOf(done.sequence),
      static_cast<uint32_t>(done.state), done.status, 0};
  queue.Free();
  return completion;
}

std::optional<Completion> Queue::Poll() {
  edge::EventQueue& queue = Use();
  if (const auto done = queue.Poll()) return TakeOne(queue, *done);
  const absl::Status status = session_->device().status();
  if (status.ok()) return std::nullopt;
  // What was completed before the end still counts.
  if (const auto done = queue.Poll()) return TakeOne(queue, *done);
  throw EdgeError(status);
}

bool Queue::WaitForOne(edge::EventQueue& queue, std::optional<double> timeout) {
  if (queue.Poll()) return true;
  using std::chrono::nanoseconds;
  const auto limit = timeout ? Seconds(*timeout) : nanoseconds::max();
  const auto start = std::chrono::steady_clock::now();
  // Signal handlers run in between, and are refused, too.
  const Session::Running running(*session_);
  const Turn turn(busy_);
  // What is waited for in vain is noted now and then: one slice alone is too
  // short for EventQueue::Wait() to do it.
  nanoseconds note_after = std::min<nanoseconds>(kLongWait, limit);
  while (true) {
    const nanoseconds waited = std::chrono::steady_clock::now() - start;
    const auto slice = std::clamp<nanoseconds>(limit - waited, nanoseconds(0),
                                               kLookForSignals);
    const auto done = Unlocked([&] { return queue.Wait(slice); });
    session_->Use();  // another thread may have closed it
    if (done.ok()) return true;
    if (!absl::IsDeadlineExceeded(done.status())) Must(done.status());
    const bool in_vain = limit - waited <= kLookForSignals;
    if (waited + slice >= note_after || in_vain) {
      if (waited + slice >= kLongWait) queue.NoteMissed(waited + slice);
      note_after = 2 * (waited + slice);
    }
    if (in_vain) return false;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    session_->Use();
  }
}

Completion Queue::Wait(std::optional<double> timeout) {
  edge::EventQueue& queue = Use();
  if (!WaitForOne(queue, timeout)) {
    throw EdgeError(
        fmt::format("no event of '{}' (event {}) ended within {} "
                    "s; {} in flight",
                    queue.kernel(), queue.event_id(), *timeout,
                    queue.in_flight()),
        "DEADLINE_EXCEEDED",
        queue.in_flight() == 0 ? "ring before you wait" : "wait for longer");
  }
  return TakeOne(queue, *queue.Poll());
}

uint64_t Queue::Take(const py::array& array, double timeout) {
  edge::EventQueue& queue = Use();
  Records records = RecordsOf(array, CompletionDtype(), /*writable=*/true);
  if (records.count == 0) return 0;
  auto done = queue.Poll();
  if (!done) {
    if (!WaitForOne(queue, timeout)) return 0;
    // The array may have got other memory meanwhile.
    records = RecordsOf(array, CompletionDtype(), /*writable=*/true);
    done = queue.Poll();
  }
  uint64_t count = 0;
  while (done && count < records.count) {
    const Completion completion = TakeOne(queue, *done);
    std::memcpy(records.bytes, &completion, sizeof(completion));
    records.bytes += records.stride;
    ++count;
    done = queue.Poll();
  }
  return count;
}

void Queue::NoteMissed(double seconds) { Use().NoteMissed(Seconds(seconds)); }

void Queue::Unregister() {
  edge::EventQueue& queue = Use();
  queue_ = nullptr;
  Must(session_->RunUntilInterrupted([&](edge::Device& device) {
    return edge::edgeUnregisterEvent(device, &queue);
  }));
}

void Queue::ReleaseBarrier() {
  edge::EventQueue& queue = Use();
  const Turn turn(busy_);
  Must(session_->RunUntilInterrupted([&](edge::Device& device) {
    return edge::edgeReleaseBarrier(device, &queue);
  }));
}

py::dtype CompletionDtype() { return py::dtype::of<Completion>(); }

}  // namespace carillon::python
