// The demo's results: figures, the verdict on them, and how they are shown.
#ifndef CARILLON_TOOLS_CLI_DEMO_REPORT_H_
#define CARILLON_TOOLS_CLI_DEMO_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/admin.pb.h"
#include "shm/histogram.h"
#include "tools/cli/demo/memcaslap.h"
#include "tools/cli/ui/console.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {

// What a policy had while it was the one in force.
struct PolicyFigures {
  std::string policy;
  double seconds = 0;
  uint64_t requests = 0;
  uint64_t frames = 0;
  // From rung to completion seen, of the NIC's events.
  shm::HistogramSnapshot event_latency;
  shm::HistogramSnapshot kernel_time;
};

struct DemoFigures {
  MemcaslapResult client;
  // The NIC's request latencies, from datagram in to reply out, and the stages
  // of its events in their order.
  shm::HistogramSnapshot request_latency;
  std::vector<NamedHistogram> stages;
  v1::Device nic;
  v1::Device fpga;
  v1::Device host;
  // The background kernel's times without and with the client's load.
  shm::HistogramSnapshot kernel_time_alone;
  shm::HistogramSnapshot kernel_time_loaded;
  // In their order; one if the back-end has no other.
  std::vector<PolicyFigures> policies;
  // The ledger of all devices, after they have ended.
  v1::EventCounts ledger;
  // The processes that did not end well.
  std::vector<std::string> casualties;
};

// A device's counter; 0 if it does not have it.
uint64_t CounterOf(const v1::Device& device, std::string_view name);
// The histogram of that name; empty if the device has none.
shm::HistogramSnapshot HistogramOf(const v1::Device& device,
                                   std::string_view name);
// What was added to a histogram between two readings.
shm::HistogramSnapshot Difference(const shm::HistogramSnapshot& after,
                                  const shm::HistogramSnapshot& before);

// Names every promise that the figures break, in a sentence. DataLoss: a value,
// a frame, a result or the ledger was wrong, or a process did not end well.
// FailedPrecondition: something did not happen.
absl::Status Judge(const DemoFigures& figures,
                   std::vector<std::string>* complaints);

void PrintReport(const DemoFigures& figures,
                 const std::vector<std::string>& complaints, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_DEMO_REPORT_H_
