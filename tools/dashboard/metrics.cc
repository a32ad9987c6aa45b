#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "shm/histogram.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/dashboard/picture.h"

namespace carillon::dashboard {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// The buckets of Prometheus' histograms: powers of two from 64 ns to 1.07 s.
constexpr uint64_t kFirstBound = 64;
constexpr int kBounds = 25;

class Family {
 public:
  Family(MetricType type, const char* name, const char* help)
      : family_{.name = name, .help = help, .type = type, .metric = {}} {}

  void Add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }
  void Add(Labels labels, const shm::HistogramSnapshot& histogram) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram.sample_count = histogram.count();
    metric.histogram.sample_sum = static_cast<double>(histogram.sum()) / 1e9;
    uint64_t cumulative = 0;
    uint32_t bucket = 0;
    for (int i = 0; i < kBounds; ++i) {
      const uint64_t bound = kFirstBound << i;
      // A power of two begins a bucket of ours, so only values of exactly the
      // bound, which `le` would count, are in the next one.
      while (bucket < histogram.buckets().size() &&
             shm::HistogramBucketFloor(bucket) < bound) {
        cumulative += histogram.buckets()[bucket++];
      }
      metric.histogram.bucket.push_back(
          {.cumulative_count = cumulative,
           .upper_bound = static_cast<double>(bound) / 1e9});
    }
    metric.histogram.bucket.push_back(
        {.cumulative_count = histogram.count(),
         .upper_bound = std::numeric_limits<double>::infinity()});
    family_.metric.push_back(std::move(metric));
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

Labels LabelsOf(const testbed::SnapshotPicture::EventKernel& event) {
  return {{"device", event.ring.device()},
          {"event", std::to_string(event.ring.event_id())},
          {"kernel", event.ring.kernel()},
          {"label", event.ring.label()}};
}

Labels With(Labels labels, const char* name, const std::string& value) {
  labels.push_back({name, value});
  return labels;
}

}  // namespace

std::string ToMetrics(const Sight& sight, const Peaks& peaks) {
  constexpr MetricType kCounter = MetricType::Counter;
  constexpr MetricType kGauge = MetricType::Gauge;
  Family build(kGauge, "carillon_build_info", "Always 1, of this release.");
  build.Add({{"version", std::string(kVersion)}}, 1);
  Family up(kGauge, "carillon_gpud_up",
            "1 if gpud sends its figures; all but this, build info, restarts "
            "and strikes are missing otherwise.");
  const bool live = sight.gpud == GpudState::kLive;
  up.Add({{"testbed", sight.testbed}}, live ? 1 : 0);

  Family events(kCounter, "carillon_events_total", "Events that have ended.");
  Family rung(kCounter, "carillon_rung_events_total",
              "Events that devices rang.");
  Family stages(MetricType::Histogram, "carillon_event_stage_seconds",
                "How long stages of events took, while tracing is on.");
  Family entries(kGauge, "carillon_ring_entries", "Slots of a ring.");
  Family pending(kGauge, "carillon_ring_pending",
                 "Events that were rung and have not ended.");
  Family peak(kGauge, "carillon_ring_peak",
              "The most pending events of the last 15 s.");
  Family silence(kGauge, "carillon_device_silence_seconds",
                 "Since a device's last sign of life; 0 below half a second.");
  Family figure(kGauge, "carillon_device_figure",
                "What a device counts of itself.");
  Family memory(kGauge, "carillon_memory_used_bytes",
                "Memory that gpud has given to devices.");
  if (live) {
    for (const auto& [index, event] : sight.snapshot.event_kernels()) {
      const Labels labels = LabelsOf(event);
      const v1::EventCounts& counts = event.entry.counts();
      const uint64_t ended = counts.done() + counts.failed() + counts.aborted();
      for (const auto& [result, count] : {std::pair("done", counts.done()),
                                          {"failed", counts.failed()},
                                          {"aborted", counts.aborted()}}) {
        events.Add(With(labels, "result", result), static_cast<double>(count));
      }
      rung.Add(labels, static_cast<double>(counts.rung()));
      for (const v1::Histogram& stage : event.entry.stages()) {
        stages.Add(With(labels, "stage", stage.name()), cli::ToSnapshot(stage));
      }
      entries.Add(labels, event.ring.entries());
      pending.Add(labels, static_cast<double>(counts.rung() -
                                              std::min(counts.rung(), ended)));
      const auto found =
          peaks.find({event.ring.device(), event.ring.event_id()});
      peak.Add(labels, found == peaks.end() ? 0 : found->second);
    }
    for (const auto& [id, device] : sight.snapshot.devices()) {
      silence.Add({{"device", device.name()}},
                  static_cast<double>(device.silent_ns()) / 1e9);
      for (const v1::Counter& counter : device.counters()) {
        figure.Add({{"device", device.name()}, {"name", counter.name()}},
                   static_cast<double>(counter.value()));
      }
    }
    memory.Add({}, static_cast<double>(sight.snapshot.totals().memory_used()));
  }
  Family restarts(kCounter, "carillon_process_restarts_total",
                  "How often the supervisor started a process again.");
  if (sight.state) {
    for (const testbed::ProcessRecord& record : sight.state->processes) {
      restarts.Add({{"process", record.name}}, record.restarts);
    }
  }
  Family strikes(kCounter, "carillon_fault_strikes_total",
                 "How often faults on purpose have struck.");
  if (sight.board) {
    strikes.Add({}, static_cast<double>(sight.board->struck));
  }

  std::vector<MetricFamily> families;
  for (Family* const family :
       {&build, &up, &events, &rung, &stages, &entries, &pending, &peak,
        &silence, &figure, &memory, &restarts, &strikes}) {
    MetricFamily taken = family->Take();
    if (!taken.metric.empty()) families.push_back(std::move(taken));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace carillon::dashboard
