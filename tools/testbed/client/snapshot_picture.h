// Makes whole pictures of a testbed of what Admin.StreamSnapshots sends.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_PICTURE_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_PICTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/admin.pb.h"

namespace carillon::testbed {

// One stream's. Not thread safe.
class SnapshotPicture {
 public:
  struct EventKernel {
    v1::EktEntry entry;  // as ListEkt gives it
    v1::Ring ring;       // as ListRings gives it
    uint32_t peak = 0;   // RingFigures.peak
    v1::EventLife life;  // sequence 0: none
  };

  // Takes the stream's next message; the first one must be whole. Errors:
  // DataLoss (a change of what the picture lacks): it is of no use any more.
  absl::Status Apply(const v1::Snapshot& message);

  // Of the last message:
  uint64_t number() const { return number_; }
  uint64_t monotonic_ns() const { return monotonic_ns_; }
  uint64_t time_ns() const { return time_ns_; }
  const v1::SnapshotTotals& totals() const { return totals_; }
  // Those that were ever filled, in no order.
  const std::vector<v1::Queue>& queues() const { return queues_; }
  // The default first.
  const std::vector<v1::LaunchPath>& launch_paths() const {
    return launch_paths_;
  }
  // As ListDevices gives them, but silent_ns is 0 below half a second. By
  // device_id.
  const std::map<uint32_t, v1::Device>& devices() const { return devices_; }
  // By ekt_index.
  const std::map<uint32_t, EventKernel>& event_kernels() const {
    return event_kernels_;
  }

 private:
  // What is not shown of a device.
  struct Since {
    uint64_t attached_ns = 0;
    uint64_t silent_ns = 0;  // 0: it is not
  };

  void ApplyDescription(const v1::Device& device);
  void ApplyDescription(const v1::SnapshotEventKernel& event);
  absl::Status ApplyFigures(const v1::DeviceFigures& figures);
  absl::Status ApplyFigures(const v1::RingFigures& figures);

  uint64_t number_ = 0;
  uint64_t monotonic_ns_ = 0;
  uint64_t time_ns_ = 0;
  v1::SnapshotTotals totals_;
  std::vector<v1::Queue> queues_;
  std::vector<v1::LaunchPath> launch_paths_;
  std::map<uint32_t, v1::Device> devices_;
  std::map<uint32_t, Since> since_;  // of devices_
  std::map<uint32_t, EventKernel> event_kernels_;
  // With all four stages, those without a count too: entry has only the others.
  std::map<uint32_t, google::protobuf::RepeatedPtrField<v1::Histogram>>
      stages_;  // of event_kernels_
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_SNAPSHOT_PICTURE_H_
