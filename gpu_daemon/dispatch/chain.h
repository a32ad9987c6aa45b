// Chains: an event of one device starts when an event of another device is done,
// and reads what that one wrote (docs/decisions/018-chains-of-events.md).
//
//   source    the event kernel that hands its events on
//   follower  the one that takes them. Its device rings for each result that it
//             has room for, and each ring waits here for one.
//
//   source:    rung -> runs -> done - - - - - - - - - - - - - - - - -> completed
//                                \ its buffers                      /
//   follower:  rung -> waits ----- gets them, goes to the KMU -> completed
//
// The source's completion waits for the follower's kernel to end, so its device
// writes to none of its buffers while that reads them.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_CHAIN_H_
#define CARILLON_GPU_DAEMON_DISPATCH_CHAIN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/kernel_launch.h"

namespace carillon::gpud {

// Both ends may come and go in any order; there is one of each at most. Thread
// safe.
class Chain final : public ChainLink {
 public:
  // Starts a launch: Backend::Submit().
  using Submit = std::function<void(std::unique_ptr<KernelLaunch>)>;
  explicit Chain(Submit submit) : submit_(std::move(submit)) {}

  // To be called before the event kernel's doorbell is polled. Errors:
  // AlreadyExists (there is such an end), FailedPrecondition (a parameter that
  // the follower takes is none of the source's, or another type).
  absl::Status AddSource(const std::shared_ptr<EventKernel>& event);
  absl::Status AddFollower(const std::shared_ptr<EventKernel>& event);
  // The event kernel, if it is an end of this chain, takes no part from now on:
  // its doorbell is not polled any more, and what waits here is the caller's to
  // abort. `stays`: gpud goes down, and what is done from now on waits for its
  // own session's end.
  void Leave(const EventKernel& event, bool stays);

  bool HandOn(const EventKernel& source, shm::Sequence sequence,
              const EventOutcome& outcome) override;
  void Await(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
             const CheckedEntry& entry) override;

 private:
  bool GoesDown();
  // Where a buffer of the source's goes in the follower's arguments.
  struct Step {
    uint32_t args_offset = 0;
    uint32_t element_bytes = 0;
    ParameterBinding binding;  // the source's
  };
  static absl::Status Connect(const EventKernel& source,
                              const EventKernel& follower,
                              std::vector<Step>* steps);
  bool Start(std::unique_ptr<KernelLaunch> launch,
             std::shared_ptr<EventKernel> source, shm::Sequence sequence,
             const EventOutcome& outcome, const std::vector<Step>& steps);

  const Submit submit_;
  Mutex mutex_;
  std::shared_ptr<EventKernel> source_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<EventKernel> follower_ ABSL_GUARDED_BY(mutex_);
  std::vector<Step> steps_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<KernelLaunch>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool goes_down_ ABSL_GUARDED_BY(mutex_) = false;
};

// The chains of a testbed, by the names of their devices. Thread safe.
class ChainTable {
 public:
  // The same one for the same names, as long as somebody has it.
  std::shared_ptr<Chain> Find(const std::string& source,
                              const std::string& follower,
                              const Chain::Submit& submit);

 private:
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Chain>> chains_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_CHAIN_H_
