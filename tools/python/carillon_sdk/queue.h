// A registered event kernel, as Python holds it.
#ifndef CARILLON_TOOLS_PYTHON_CARILLON_SDK_QUEUE_H_
#define CARILLON_TOOLS_PYTHON_CARILLON_SDK_QUEUE_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/sdk/edge.h"
#include "tools/python/carillon_sdk/session.h"

namespace carillon::python {

// What a parameter of a registration says instead of a value: it comes with
// every ring.
struct PerEvent {
  std::shared_ptr<Buffer> buffer;  // null: a value
};

// ... or with the event that another device hands on.
struct Taken {
  std::string from;
};

// An event that has ended. The layout of a record of Queue::Take().
struct Completion {
  uint64_t sequence;
  uint32_t slot;
  uint32_t state;   // shm::EventState
  uint32_t status;  // shm::EventStatus, or the kernel's own
  uint32_t reserved;
};

// "done", "failed", "aborted".
std::string StateOf(const Completion& completion);

struct Registration {
  std::string kernel;
  edge::Dim3 grid;
  edge::Dim3 block;
  uint32_t shared_bytes = 0;
  uint32_t max_in_flight = 32;
  uint32_t priority = 0;
  std::string label;
  std::string launch_path;
  std::string hands_to;
  std::string takes_from;
};

// An int or a tuple of up to three. Errors: BAD_SHAPE.
edge::Dim3 Dim3Of(const py::object& given);
// Constants, buffers and parts of buffers by the names of parameters, for kernels
// that no ring starts as well. Errors: BAD_PARAMETER, DETACHED, FREED.
std::vector<edge::Parameter> ParametersOf(const py::dict& given,
                                          const Session& session);

// For one thread at a time: while one waits, others are refused (BUSY).
class Queue {
 public:
  static std::shared_ptr<Queue> Register(std::shared_ptr<Session> session,
                                         const Registration& registration,
                                         const py::dict& parameters);

  const std::shared_ptr<Session>& session() const { return session_; }
  // Errors of this and all below: those of Session::Use(), UNREGISTERED, BUSY.
  edge::EventQueue& Use() const;

  // Rings for one event with these parameters; returns its sequence. Errors:
  // RING_FULL, BAD_PARAMETER.
  uint64_t Ring(const py::kwargs& parameters);
  // Rings once for as many of the records as there is room for, or for that many
  // events without parameters, and returns their number. Errors: BAD_DTYPE,
  // BAD_PARAMETER.
  uint64_t RingBatch(const py::object& events);
  // The type of RingBatch()'s records.
  const py::dtype& event_dtype() const { return event_dtype_; }

  // Takes the oldest event if it has ended, and frees its slot. Errors: the
  // session's end, once there is nothing left to take.
  std::optional<Completion> Poll();
  // The same, waiting: forever if there is no timeout. Errors: and
  // DEADLINE_EXCEEDED. Ctrl-C ends it.
  Completion Wait(std::optional<double> timeout);
  // Takes all that have ended, as far as `records` reach; waits for the first.
  // Returns how many: 0 if there was none in time. Errors: BAD_DTYPE, and those of
  // Wait() but DEADLINE_EXCEEDED.
  uint64_t Take(const py::array& records, double timeout);

  // For the flight recorder: asyncio has waited for so long in vain.
  void NoteMissed(double seconds);

  void Unregister();
  void ReleaseBarrier();

 private:
  struct Field {
    edge::WritableParameter parameter;
    uint64_t record_offset = 0;      // in event_dtype()
    std::shared_ptr<Buffer> buffer;  // of a buffer
  };

  Queue(std::shared_ptr<Session> session, edge::EventQueue* queue,
        const std::map<std::string, std::shared_ptr<Buffer>>& buffers);
  // Writes the parameter to where its record has it. Python's code may run.
  static void Convert(const Field& field, py::handle value, std::byte* record);
  void SetFields(edge::EventQueue& queue, const std::byte* record) const;
  Completion TakeOne(edge::EventQueue& queue, const edge::Completion& done);
  // Until there is something to take. False: not in time.
  bool WaitForOne(edge::EventQueue& queue, std::optional<double> timeout);

  std::shared_ptr<Session> session_;
  edge::EventQueue* queue_;  // null: unregistered
  std::vector<Field> fields_;
  uint64_t record_bytes_ = 0;
  py::dtype event_dtype_;
  bool busy_ = false;
};

// The type of Take()'s records.
py::dtype CompletionDtype();

}  // namespace carillon::python

#endif  // CARILLON_TOOLS_PYTHON_CARILLON_SDK_QUEUE_H_
