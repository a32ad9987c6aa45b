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
#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "devices/sdk/cancel_calls.h"
#include "devices/sdk/edge.h"
#include "tools/python/carillon_sdk/errors.h"

namespace carillon::python {

namespace py = pybind11;

// Runs `call` without the interpreter's lock. When the interpreter ends, it ends
// a thread that wants the lock back, by unwinding its stack: no destructor may
// do that.
template <class Call>
auto Unlocked(Call call) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = call();
  PyEval_RestoreThread(state);
  return result;
}

// After so long a wait looks whether Ctrl-C was pressed.
constexpr std::chrono::milliseconds kLookForSignals{50};

// Runs `call` for a user who may want to end before it does: another thread makes
// it, this one looks for Ctrl-C, ends its calls to gpud, drops what it may have got
// nevertheless, and throws KeyboardInterrupt.
template <class Call>
auto UntilInterrupted(Call call) {
  const UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  auto outcome = std::async(std::launch::async, [&] {
    const edge::CancelCalls cancel_calls(stop.get());
    return call();
  });
  while (Unlocked([&] { return outcome.wait_for(kLookForSignals); }) !=
         std::future_status::ready) {
    if (PyErr_CheckSignals() == 0) continue;
    const py::error_already_set interrupt;
    eventfd_write(stop.get(), 1);
    // A device that has attached says goodbye to gpud.
    Unlocked([&] {
      static_cast<void>(outcome.get());
      return true;
    });
    throw interrupt;
  }
  return outcome.get();
}

// Has Session::Use() refuse what a fork() has copied. Once.
void NoteForks();

class Session {
 public:
  Session(std::unique_ptr<edge::Device> device,
          std::vector<std::string> counters);
  ~Session();

  // For a call that needs the session. Errors: FORKED, DETACHED, RESUMING, and
  // after a Resume() that found no other gpud the session's end.
  edge::Device& Use();
  // Runs `call` with the device and without the interpreter's lock; Resume() is
  // refused meanwhile. Errors: those of Use().
  template <class Call>
  auto Run(Call call) {
    edge::Device& device = Use();
    const Running running(*this);
    return Unlocked([&] { return call(device); });
  }
  // The same for a call to gpud that nobody needs any more once the user wants to
  // end. What gpud may have made of it nevertheless goes with the device.
  template <class Call>
  auto RunUntilInterrupted(Call call) {
    edge::Device& device = Use();
    const Running running(*this);
    return UntilInterrupted([&] { return call(device); });
  }
  // Resume() is refused while there is one.
  class Running {
   public:
    explicit Running(Session& session) : session_(session) {
      ++session_.running_;
    }
    ~Running() { --session_.running_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Session& session_;
  };

  // Whether Detach() was called; gpud may have ended it, too.
  bool detached() const { return detached_; }
  // Does nothing in a process that fork() has made. Errors: RESUMING (by another
  // thread).
  void Detach();
  // Whether fork() has copied this from the process that had attached.
  bool forked() const;
  // Whether Resume() is worth a call. Errors: FORKED, DETACHED, RESUMING.
  bool may_resume() const;
  // Goes on with another gpud. Ctrl-C ends it. Errors: BUSY, those of the SDK;
  // if no other gpud came, the session's end: then all but Detach() and another
  // Resume() is refused with it.
  void Resume(double timeout);

  // Adds to one of the device's own counters. Errors: NO_COUNTER.
  void Count(const std::string& counter, uint64_t by);

  // For what needs none: descriptors, state, names.
  edge::Device& device() { return *device_; }

 private:
  // Errors: FORKED, DETACHED, RESUMING.
  void CheckNobodyResumes() const;

  std::unique_ptr<edge::Device> device_;
  const std::vector<std::string> counters_;
  const uint64_t forks_;  // before it
  bool detached_ = false;
  bool resuming_ = false;  // some thread is in Resume()
  // How the session ended that a Resume() could not replace so far.
  absl::Status unresumed_;
  uint32_t running_ = 0;
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
