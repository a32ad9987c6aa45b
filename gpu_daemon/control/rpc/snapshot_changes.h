// Samples of a testbed, and how one differs from another: what
// Admin.StreamSnapshots sends.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

// Of a device or an event kernel.
using Histograms = google::protobuf::RepeatedPtrField<v1::Histogram>;
using SharedHistograms = std::shared_ptr<const Histograms>;

// Of the same device or event kernel: whether each has the same values.
bool SameHistograms(const Histograms& a, const Histograms& b);

// All histograms of all devices and event kernels, with all their buckets.
struct HistogramSample {
  Nanoseconds taken_ns = 0;
  std::map<uint32_t, SharedHistograms> of_device;  // by device_id
  std::map<uint32_t, SharedHistograms> of_ring;    // by the ring's generation
};

// A sample has the last one's messages where nothing has changed: a testbed at
// rest is neither described nor compared again.
struct DeviceSample {
  Nanoseconds attached_ns = 0;
  std::string state;  // what may change of `device`, as bytes
  std::shared_ptr<const v1::Device> device;          // without attached_ns_ago
  std::shared_ptr<const v1::DeviceFigures> figures;  // without histograms
};
struct RingSample {
  std::shared_ptr<const v1::SnapshotEventKernel> event_kernel;
  std::shared_ptr<const v1::RingFigures> figures;  // without stages and peak
  uint32_t generation() const { return event_kernel->ring().generation(); }
};
struct PictureSample {
  // The moment, the totals, the queues and the launch paths.
  v1::Snapshot common;
  std::vector<DeviceSample> devices;  // by device_id
  std::vector<RingSample> rings;      // by ekt_index
};

// Three parts, since they come at different times: a picture is every reader's,
// peaks are one reader's.
struct Sample {
  std::shared_ptr<const PictureSample> picture;  // null: there is none yet
  std::shared_ptr<const HistogramSample> histograms;
  std::map<uint32_t, uint32_t> peaks;  // by the ring's generation; none: 0
};

// The message after which a reader of `from`, or of nothing if it has no
// picture, has `to`. Its number is 0.
v1::Snapshot ChangesBetween(const Sample& from, const Sample& to);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_
