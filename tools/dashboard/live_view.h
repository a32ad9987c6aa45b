// A living testbed, or what is left of one: follows its gpud, and looks at its
// supervisor's file and its board of faults.
#ifndef CARILLON_TOOLS_DASHBOARD_LIVE_VIEW_H_
#define CARILLON_TOOLS_DASHBOARD_LIVE_VIEW_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tools/dashboard/history.h"
#include "tools/dashboard/picture.h"
#include "tools/dashboard/recorder_reader.h"
#include "tools/dashboard/view.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/client/fault_board.h"
#include "tools/testbed/client/snapshot_rates.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::dashboard {

class LiveView : public View {
 public:
  // `changed` is called by the view's thread for each new picture. `program` is
  // RecorderReader's.
  LiveView(testbed::Testbed testbed, std::string program,
           std::function<void()> changed);
  ~LiveView() override;

  // Ten pictures a second while somebody reads a stream, else one.
  void SetReaders(size_t readers) { readers_ = readers; }

  Picture Newest() const override;
  std::vector<SharedText> History(uint64_t seconds) const override;
  Json Logs(size_t lines) override;
  absl::StatusOr<Json> Faults() override;
  absl::StatusOr<Json> Story() override;
  absl::StatusOr<SharedFile> Trace(uint64_t seconds) override;
  std::string Metrics() override;

  absl::StatusOr<Json> Inject(const faults::Fault& fault) override;
  absl::StatusOr<Json> Clear(const std::string& fault) override;
  absl::StatusOr<Json> SetPolicy(const std::string& policy) override;
  absl::StatusOr<Json> SetTracing(bool on) override;
  absl::StatusOr<Json> Restart(const std::string& process, bool kill) override;

 private:
  // The view's thread.
  void Follow();
  // Reads a stream of gpud's to its end.
  absl::Status FollowOnce();
  uint32_t Interval() const;
  void LookAround();
  // Once a second.
  void LookAtRates() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePeaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes a picture of sight_.
  void Publish(GpudState gpud, const std::string& note);
  absl::StatusOr<std::unique_ptr<testbed::FaultBoard>> OpenBoard() const;

  const testbed::Testbed testbed_;
  const std::function<void()> changed_;
  testbed::AdminClient client_;
  std::atomic<size_t> readers_{0};
  std::atomic<bool> stop_{false};

  RecorderReader recorders_;
  mutable Mutex mutex_;
  Sight sight_ ABSL_GUARDED_BY(mutex_);
  Picture newest_ ABSL_GUARDED_BY(mutex_);
  dashboard::History history_ ABSL_GUARDED_BY(mutex_);
  // Of the last seconds, the newest last.
  std::deque<Peaks> peaks_ ABSL_GUARDED_BY(mutex_);
  // Of the view's thread. CLOCK_MONOTONIC: when each second's work was done last.
  uint64_t looked_ns_ = 0;
  uint64_t kept_ns_ = 0;
  testbed::SnapshotRates rates_;  // of one gpud
  // CLOCK_MONOTONIC of gpud's machine: of the picture that rates_ looked at last.
  uint64_t rated_ns_ = 0;
  GpudState shown_ = GpudState::kGone;

  std::thread thread_;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_LIVE_VIEW_H_
