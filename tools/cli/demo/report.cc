#include "tools/cli/demo/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

uint64_t Hits(const MemcaslapResult& client) {
  return client.gets - std::min(client.gets, client.get_misses);
}

// The time under load over the time alone; 0 if either was not measured.
double Slowdown(const DemoFigures& figures) {
  const uint64_t alone = figures.kernel_time_alone.Percentile(0.5);
  const uint64_t loaded = figures.kernel_time_loaded.Percentile(0.5);
  return alone == 0 ? 0 : static_cast<double>(loaded) / alone;
}

Json ClientToJson(const MemcaslapResult& client) {
  return {{"requests", client.operations},
          {"gets", client.gets},
          {"sets", client.sets},
          {"hits", Hits(client)},
          {"misses", client.get_misses},
          {"verify_failures", client.verify_failed},
          {"seconds", client.seconds},
          {"requests_per_s", client.operations_per_s},
          {"latency_min_us", client.min_us},
          {"latency_average_us", client.average_us},
          {"latency_max_us", client.max_us},
          {"udp_timeouts", client.udp_timeout},
          {"packet_drops", client.packet_drop},
          {"packet_disorder", client.packet_disorder}};
}

Json CountersToJson(const v1::Device& device) {
  Json counters = Json::object();
  for (const v1::Counter& counter : device.counters()) {
    counters[counter.name()] = counter.value();
  }
  return counters;
}

Json PoliciesToJson(const std::vector<PolicyFigures>& policies) {
  Json result = Json::array();
  for (const PolicyFigures& figures : policies) {
    result.push_back(
        {{"policy", figures.policy},
         {"seconds", figures.seconds},
         {"requests", figures.requests},
         {"frames", figures.frames},
         {"background_kernels", figures.kernel_time.count()},
         {"event_latency", PercentilesToJson(figures.event_latency)},
         {"kernel_time", PercentilesToJson(figures.kernel_time)}});
  }
  return result;
}

Json ToDocument(const DemoFigures& figures,
                const std::vector<std::string>& complaints) {
  Json stages = Json::object();
  for (const auto& [name, histogram] : figures.stages) {
    stages[name] = PercentilesToJson(histogram);
  }
  const v1::EventCounts& ledger = figures.ledger;
  return {{"ok", complaints.empty()},
          {"complaints", complaints},
          {"client", ClientToJson(figures.client)},
          {"request_latency", PercentilesToJson(figures.request_latency)},
          {"stages", std::move(stages)},
          {"nic", CountersToJson(figures.nic)},
          {"fpga", CountersToJson(figures.fpga)},
          {"background", CountersToJson(figures.host)},
          {"background_slowdown",
           {{"ratio", Slowdown(figures)},
            {"alone", PercentilesToJson(figures.kernel_time_alone)},
            {"loaded", PercentilesToJson(figures.kernel_time_loaded)}}},
          {"policies", PoliciesToJson(figures.policies)},
          {"ledger",
           {{"rung", ledger.rung()},
            {"done", ledger.done()},
            {"failed", ledger.failed()},
            {"aborted", ledger.aborted()}}}};
}

std::string Arrow(std::string name) {
  for (size_t at; (at = name.find("_to_")) != name.npos;) {
    name.replace(at, 4, " -> ");
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void PrintLatencies(const DemoFigures& figures, Console& console) {
  Table table({"LATENCY", ">COUNT", ">P50", ">P90", ">P99", ">P99.9", ">MAX"});
  const auto add = [&](const std::string& name,
                       const shm::HistogramSnapshot& histogram) {
    table.AddRow(PercentileRow({name}, histogram));
  };
  for (const auto& [name, histogram] : figures.stages) {
    add(Arrow(name), histogram);
  }
  add("a request in the NIC", figures.request_latency);
  console.Print(table);
}

void PrintPolicies(const std::vector<PolicyFigures>& policies,
                   Console& console) {
  Table table({"POLICY", ">REQUESTS/S", ">EVENT P50", ">P99", ">FRAMES/S",
               ">KERNELS/S", ">KERNEL P50"});
  for (const PolicyFigures& figures : policies) {
    const auto rate = [&](uint64_t count) {
      return FormatCount(
          static_cast<uint64_t>(count / std::max(figures.seconds, 0.001)));
    };
    table.AddRow({figures.policy, rate(figures.requests),
                  FormatNanoseconds(figures.event_latency.Percentile(0.5)),
                  FormatNanoseconds(figures.event_latency.Percentile(0.99)),
                  rate(figures.frames), rate(figures.kernel_time.count()),
                  FormatNanoseconds(figures.kernel_time.Percentile(0.5))});
  }
  console.Print(table);
}

}  // namespace

uint64_t CounterOf(const v1::Device& device, std::string_view name) {
  for (const v1::Counter& counter : device.counters()) {
    if (counter.name() == name) return counter.value();
  }
  return 0;
}

shm::HistogramSnapshot HistogramOf(const v1::Device& device,
                                   std::string_view name) {
  for (const v1::Histogram& histogram : device.histograms()) {
    if (histogram.name() == name) return ToSnapshot(histogram);
  }
  return {};
}

shm::HistogramSnapshot Difference(const shm::HistogramSnapshot& after,
                                  const shm::HistogramSnapshot& before) {
  shm::HistogramSnapshot difference;
  for (uint32_t i = 0; i < shm::kHistogramBuckets; ++i) {
    const uint64_t then = std::min(after.buckets()[i], before.buckets()[i]);
    difference.AddBucket(i, after.buckets()[i] - then);
  }
  difference.AddSum(after.sum() - before.sum());
  return difference;
}

absl::Status Judge(const DemoFigures& figures,
                   std::vector<std::string>* complaints) {
  const MemcaslapResult& client = figures.client;
  const v1::EventCounts& ledger = figures.ledger;
  const auto require = [&](bool holds, std::string complaint) {
    if (!holds) complaints->push_back(std::move(complaint));
  };
  // What must never be wrong.
  require(client.verify_failed == 0,
          fmt::format("{} values came back wrong", client.verify_failed));
  // A miss is allowed if the lost datagram may have been the SET.
  require(client.get_misses == 0 || client.udp_timeout + client.packet_drop > 0,
          fmt::format("{} keys were gone although no datagram was lost",
                      client.get_misses));
  require(ledger.rung() == ledger.done(),
          fmt::format("{} events rung, {} done, {} failed, {} aborted",
                      ledger.rung(), ledger.done(), ledger.failed(),
                      ledger.aborted()));
  for (const auto& [device, counter] :
       {std::pair(&figures.nic, "events_failed"),
        std::pair(&figures.fpga, "events_failed"),
        std::pair(&figures.fpga, "mismatches"),
        std::pair(&figures.fpga, "activation_errors"),
        std::pair(&figures.host, "verify_failures")}) {
    const uint64_t value = CounterOf(*device, counter);
    require(value == 0,
            fmt::format("{}: {} {}", device->name(), counter, value));
  }
  for (const std::string& casualty : figures.casualties) {
    require(false, fmt::format("a process did not end well: {}", casualty));
  }
  const bool violated = !complaints->empty();
  // What must have happened.
  require(client.gets > 0 && client.sets > 0, "the client got no answers");
  require(CounterOf(figures.fpga, "frames_done") > 0, "no frame was computed");
  require(CounterOf(figures.host, "launches") > 0,
          "no background kernel was launched");
  for (const PolicyFigures& policy : figures.policies) {
    require(policy.event_latency.count() > 0,
            fmt::format("no event ended under policy {}", policy.policy));
  }
  if (complaints->empty()) return absl::OkStatus();
  const std::string text = fmt::format("{}", fmt::join(*complaints, "; "));
  return violated ? absl::DataLossError(text)
                  : absl::FailedPreconditionError(text);
}

void PrintReport(const DemoFigures& figures,
                 const std::vector<std::string>& complaints, Console& console) {
  if (console.json()) {
    console.PrintDocument(ToDocument(figures, complaints));
    return;
  }
  const MemcaslapResult& client = figures.client;
  const v1::EventCounts& ledger = figures.ledger;
  const auto line = [&](std::string_view name, const std::string& text) {
    console.Print(fmt::format("{:<11} {}\n", name, text));
  };
  console.Print("\n");
  line("requests",
       fmt::format("{} in {:.1f} s: {} a second ({} GET, {} SET)",
                   FormatCount(client.operations), client.seconds,
                   FormatCount(client.operations_per_s),
                   FormatCount(client.gets), FormatCount(client.sets)));
  line("hits",
       fmt::format("{} of {} GETs, {} values wrong", FormatCount(Hits(client)),
                   FormatCount(client.gets), client.verify_failed));
  line(
      "client",
      fmt::format("round trip {} on average, {} at most; {} time-outs",
                  FormatNanoseconds(client.average_us * 1000),
                  FormatNanoseconds(client.max_us * 1000), client.udp_timeout));
  line("batches",
       fmt::format("{} events for {} requests",
                   FormatCount(CounterOf(figures.nic, "batches")),
                   FormatCount(CounterOf(figures.nic, "batch_requests"))));
  line("frames",
       fmt::format("{} checked, {} wrong",
                   FormatCount(CounterOf(figures.fpga, "frames_done")),
                   CounterOf(figures.fpga, "mismatches")));
  line(
      "background",
      fmt::format("{} kernels, {} wrong; {} alone, {} beside the requests "
                  "({:.2f} times as long)",
                  FormatCount(CounterOf(figures.host, "launches")),
                  CounterOf(figures.host, "verify_failures"),
                  FormatNanoseconds(figures.kernel_time_alone.Percentile(0.5)),
                  FormatNanoseconds(figures.kernel_time_loaded.Percentile(0.5)),
                  Slowdown(figures)));
  line("ledger",
       fmt::format("{} rung = {} done + {} failed + {} aborted",
                   FormatCount(ledger.rung()), FormatCount(ledger.done()),
                   ledger.failed(), ledger.aborted()));
  console.Print("\n");
  PrintLatencies(figures, console);
  console.Print("\n");
  PrintPolicies(figures.policies, console);
  console.Print("\n");
  for (const std::string& complaint : complaints) {
    console.Print(fmt::format("{}: {}\n", console.Bad("WRONG"), complaint));
  }
  if (complaints.empty()) {
    console.Print(console.Good("everything holds") + "\n");
  }
}

}  // namespace carillon::cli
