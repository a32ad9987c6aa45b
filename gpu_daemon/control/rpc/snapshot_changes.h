// Samples of a testbed, and how one differs from another: what
// Admin.StreamSnapshots sends.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <memory>

#include "base/clock.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

// All histograms of all devices and event kernels, with all their buckets.
struct HistogramSample {
  using Histograms = google::protobuf::RepeatedPtrField<v1::Histogram>;
  Nanoseconds taken_ns = 0;
  std::map<uint32_t, Histograms> of_device;  // by device_id
  std::map<uint32_t, Histograms> of_ring;    // by the ring's generation
};

// A whole picture, in three parts, since they come at different times: a
// picture is every reader's, peaks are one reader's.
struct Sample {
  // Devices by device_id, event kernels and their figures by ekt_index, without
  // histograms and peaks. Null: there is none yet.
  std::shared_ptr<const v1::Snapshot> picture;
  std::shared_ptr<const HistogramSample> histograms;
  std::map<uint32_t, uint32_t> peaks;  // by the ring's generation; none: 0
};

// The message after which a reader of `from`, or of nothing if it has no
// picture, has `to`. Its number is 0.
v1::Snapshot ChangesBetween(const Sample& from, const Sample& to);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_CHANGES_H_
