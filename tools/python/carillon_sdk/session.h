// An attached device and its buffers, as Python holds them.
//
// Whatever Python still holds of a device keeps its memory mapped: a NumPy array
// refers to its Session. What ends with the device is the session
// with gpud; after it, every call is refused, and arrays keep their last bytes.
// The interpreter's lock guards all members; it is released for calls that wait.
#ifndef CARILLON_TOOLS_PYTHON_CARILLON_SDK_SESSION_H_
#define CARILLON_TOOLS_PYTHON_CARILLON_SDK_SESSION_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/sdk/edge.h"
#include "tools/python/carillon_sdk/errors.h"

namespace carillon::python {

namespace py = pybind11;

// Runs `call` without the interpreter's lock.
template <class Call>
auto Unlocked(Call call) {
  py::gil_scoped_release unlocked;
  return call();
}

class Session {
 public:
  Session(std::unique_ptr<edge::Device> device,
          std::vector<std::string> counters)
      : device_(std::move(device)), counters_(std::move(counters)) {}
  ~Session();

  // For a call that needs the session. Errors: DETACHED, RESUMING.
  edge::Device& Use();
  // Whether Detach() was called; gpud may have ended it, too.
  bool detached() const { return detached_; }
  void Detach();
  // Goes on with another gpud. Ctrl-C ends it.
  void Resume(double timeout);

  // Adds to one of the device's own counters. Errors: NO_COUNTER.
  void Count(const std::string& counter, uint64_t by);

  // For what needs none: descriptors, state, names.
  edge::Device& device() { return *device_; }

  // Calls that use a queue without the interpreter's lock.
  void BeginWait() { ++waiting_; }
  void EndWait() { --waiting_; }

 private:
  std::unique_ptr<edge::Device> device_;
  const std::vector<std::string> counters_;
  bool detached_ = false;
  bool resuming_ = false;
  uint32_t waiting_ = 0;
};

// Seconds of Python's, at least 0. Errors: BAD_TIMEOUT.
std::chrono::nanoseconds Seconds(double seconds);

// A buffer of a device's. Its memory is the device's until free().
class Buffer : public std::enable_shared_from_this<Buffer> {
 public:
  // `place` is "input", "output", "gpu" or "durable"; `shape` an int or a tuple.
  static std::shared_ptr<Buffer> Allocate(std::shared_ptr<Session> session,
                                          const std::string& place,
                                          const py::object& shape,
                                          const py::object& dtype);

  const edge::Buffer& buffer() const { return buffer_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  uint64_t bytes() const { return bytes_; }
  // Bytes of one element of the first axis, and how many there are.
  uint64_t slot_bytes() const { return bytes_ / slots_; }
  const std::string& place() const { return place_; }

  // The memory itself. Errors: DETACHED, FREED, NO_VIEW (GPU memory).
  py::array View();
  // Errors: DETACHED, FREED.
  void CheckUsable() const;
  // Errors: those of the SDK; VIEWS_ALIVE while arrays look at it.
  void Free();
  bool freed() const { return freed_; }
  // Whether resume() has begun it anew as zeros.
  bool lost() const;

 private:
  std::shared_ptr<Session> session_;
  edge::Buffer buffer_;
  std::string place_;
  uint64_t bytes_ = 0;
  uint64_t slots_ = 1;
  bool freed_ = false;
  py::object view_;  // none for GPU memory
};

// Bytes of a buffer: for each slot of a ring those `stride` further on.
struct Part {
  std::shared_ptr<Buffer> buffer;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t stride = 0;
};

// Errors: OUT_OF_RANGE.
Part PartOf(std::shared_ptr<Buffer> buffer, int64_t offset, int64_t length);

}  // namespace carillon::python

#endif  // CARILLON_TOOLS_PYTHON_CARILLON_SDK_SESSION_H_
