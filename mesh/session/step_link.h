// The steps of sessions in both directions, each once and in order, over a link
// of two rings: what the near end says are the events of one, and what the far
// end says are the ends of the other's, which are empty and always rung ahead.
#ifndef CARILLON_MESH_SESSION_STEP_LINK_H_
#define CARILLON_MESH_SESSION_STEP_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "mesh/far_link.h"
#include "mesh/near_link.h"
#include "proto/link.pb.h"
#include "shm/types.h"

namespace carillon::mesh {

// What HELLO says of the catalogue in simulated time: hosts whose `simulation`,
// which tells the topology, differs have no link.
std::string SimulatedCatalogue(std::string_view catalogue,
                               std::string_view simulation);

// Of one step. More is a broken peer's, and ends the link.
inline constexpr uint32_t kMaxStepBytes = 1 << 20;

// What has come since the last look.
struct StepNews {
  std::vector<v1::SessionStep> steps;
  // All sessions are over: those steps, if any, are of a new near end. At a near
  // end, for good, and why.
  std::optional<std::string> lost;
};

// Steps that wait to be sent, or for their acknowledgement.
class StepQueue {
 public:
  void Push(const v1::SessionStep& step);
  void Pop();
  void Clear();
  const std::string& at(uint64_t i) const { return steps_[i]; }
  size_t size() const { return steps_.size(); }
  bool is_full() const;

 private:
  std::deque<std::string> steps_;
  size_t bytes_ = 0;
};

// Thread safe.
class NearStepLink final : private NearHost {
 public:
  // `on_news` is called in the link's thread, under its lock: Take() is due.
  // Errors: those of NearLink::Start().
  static absl::StatusOr<std::unique_ptr<NearStepLink>> Start(
      const NearLink::Settings& settings, std::function<void()> on_news);
  ~NearStepLink() override { link_.reset(); }

  void Send(const v1::SessionStep& step);
  // So much waits to be sent that whoever sends at others' bidding is to wait,
  // too: until a Take() after which it is not so.
  bool is_full() const;
  StepNews Take();
  LinkStatus status() { return link_->status(); }

 private:
  explicit NearStepLink(std::function<void()> on_news)
      : on_news_(std::move(on_news)) {}
  void RingAll();

  void ReadEvent(RingId ring, shm::Sequence number, std::string* to) override;
  bool TakeEnd(RingId ring, shm::Sequence number, const End& end) override;
  void FlushEnds() override { on_news_(); }
  void LoseRing(RingId ring, const std::string& why, bool passing) override;
  void LoseLink(const std::string& why) override;

  const std::function<void()> on_news_;
  mutable Mutex mutex_;  // taken after the link's lock
  StepQueue out_ ABSL_GUARDED_BY(mutex_);
  uint64_t stored_ ABSL_GUARDED_BY(mutex_) =
      0;  // the first of out_ is one later
  std::vector<std::string> in_ ABSL_GUARDED_BY(mutex_);
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> lost_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<NearLink> link_;
};

// Thread safe.
class FarStepLink final : private FarHost {
 public:
  // As above. Errors: those of FarLink::Start().
  static absl::StatusOr<std::unique_ptr<FarStepLink>> Start(
      const FarLink::Settings& settings, std::function<void()> on_news);
  ~FarStepLink() override { link_.reset(); }

  void Send(const v1::SessionStep& step);
  // As above, but for what has come that is lost.
  bool is_full() const;
  StepNews Take();
  const std::string& address() const { return link_->address(); }
  LinkStatus status() { return link_->status(); }

 private:
  explicit FarStepLink(std::function<void()> on_news)
      : on_news_(std::move(on_news)) {}
  void SayDone();

  std::optional<absl::Status> MakeRing(RingId ring, RingSerial serial,
                                       const RingLimits& limits,
                                       shm::Sequence last) override;
  void RunEvent(RingId ring, shm::Sequence number,
                std::string_view event) override;
  void FlushRuns(RingId) override { on_news_(); }
  End ReadEnd(RingId ring, shm::Sequence number, std::string* output) override;
  void Free(RingId ring, shm::Sequence last) override;
  void DropRing(RingId ring, GoneReason why) override;

  const std::function<void()> on_news_;
  mutable Mutex mutex_;  // taken after the link's lock
  RingSerial up_ ABSL_GUARDED_BY(mutex_);
  RingSerial down_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> in_ ABSL_GUARDED_BY(mutex_);
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  StepQueue out_ ABSL_GUARDED_BY(mutex_);
  uint64_t freed_ ABSL_GUARDED_BY(mutex_) =
      0;  // the first of out_ is one later
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // events of the ring down
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<FarLink> link_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_SESSION_STEP_LINK_H_
