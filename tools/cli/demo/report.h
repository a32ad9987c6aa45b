// What the demo found: figures, their verdict, and how they are shown.
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

struct DemoFigures {
  MemcaslapResult client;
  // The NIC's requests: from datagram in to reply out, and the stages of its
  // events in the order in which they happen.
  shm::HistogramSnapshot request_latency;
  std::vector<NamedHistogram> stages;
  v1::Device nic;
  v1::Device fpga;
  v1::Device host;
  // The background kernel's times without and with the client's load.
  shm::HistogramSnapshot kernel_time_alone;
  shm::HistogramSnapshot kernel_time_loaded;
  // Of all devices, after they have ended.
  v1::EventCounts ledger;
  // Processes that did not end well.
  std::vector<std::string> casualties;
};

// The value of a device's counter; 0 for one that it does not have.
uint64_t CounterOf(const v1::Device& device, std::string_view name);
// The histogram of that name, empty when the device has none.
shm::HistogramSnapshot HistogramOf(const v1::Device& device,
                                   std::string_view name);
// What came to a histogram between two looks at it.
shm::HistogramSnapshot Difference(const shm::HistogramSnapshot& after,
                                  const shm::HistogramSnapshot& before);

// Every promise that the figures break, as a sentence. DataLoss: a value, a
// frame, a result or the ledger was wrong, or a process did not end well.
// FailedPrecondition: something did not happen.
absl::Status Judge(const DemoFigures& figures,
                   std::vector<std::string>* complaints);

void PrintReport(const DemoFigures& figures,
                 const std::vector<std::string>& complaints, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_DEMO_REPORT_H_
