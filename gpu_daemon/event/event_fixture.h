// One event kernel with a ring of four, for the tests of its parts.
#ifndef CARILLON_GPU_DAEMON_EVENT_EVENT_FIXTURE_H_
#define CARILLON_GPU_DAEMON_EVENT_EVENT_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <functional>
#include <utility>

#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {

class EventFixture : public testing::Test {
 protected:
  TestDevice device_;
  TestDevice::Event event_ =
      device_.Register({.kernel = simt::FindKernel("null_event"),
                        .bindings = {{.constant_bits = 0}},
                        .entries = 4});

  uint32_t Pending() {
    const DoorbellCursor::Pending pending =
        event_.kernel->cursor().PendingRings();
    EXPECT_FALSE(pending.violation);
    return pending.rings;
  }
  void RingDoorbell(int count) {
    for (int i = 0; i < count; ++i) event_.ring->Commit();
    event_.ring->RingDoorbell();
  }
};

// Calls `action` right before the next completion is written to the ring, in
// the thread that writes it.
class BeforeCompletion {
 public:
  BeforeCompletion(const EventKernel& kernel, std::function<void()> action) {
    const uint64_t ecq = kernel.ring().layout().ecq_offset;
    page_ = kernel.memory().completion().At(ecq & ~uint64_t{kPage - 1});
    action_ = std::move(action);
    struct sigaction act {};
    act.sa_handler = [](int) {
      action_();
      mprotect(page_, kPage, PROT_READ | PROT_WRITE);
    };
    sigaction(SIGSEGV, &act, &before_);
    EXPECT_EQ(mprotect(page_, kPage, PROT_READ), 0);
  }
  ~BeforeCompletion() { sigaction(SIGSEGV, &before_, nullptr); }

 private:
  static constexpr size_t kPage = 4096;
  static inline void* page_;
  static inline std::function<void()> action_;
  struct sigaction before_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_EVENT_FIXTURE_H_
