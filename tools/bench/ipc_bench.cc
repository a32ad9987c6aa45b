// Measures the same 64-byte request and reply over every transport that a
// launch could use, for each way in which its two sides may wait.
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {
namespace {

struct Way {
  Wait wait;
  std::string_view what;
};
constexpr Way kWays[] = {
    {Wait::kSpins, "both spin"},
    {Wait::kSpinsThenSleeps, "both spin, then sleep"},
    {Wait::kSleeps, "both sleep"},
};

std::vector<Contender> Contenders(Wait wait) {
  std::vector<Contender> all;
  for (const std::string_view transport :
       {"plain_ring", "ring", "ring", "event_echo", "unix_seqpacket",
        "boost_mq", "zmq_ipc", "grpc_unary"}) {
    Contender contender;
    contender.name = transport;
    contender.label = FindTransport(transport)->label;
    contender.job.transport = transport;
    contender.job.wait = wait;
    if (!all.empty() && all.back().name == contender.name) {
      contender.name += "_again";
      contender.label += " (control)";
    }
    all.push_back(std::move(contender));
  }
  return all;
}

void AddFigures(const Part& part, const Way& way, BenchResult* result) {
  const auto ratio = [&](std::string_view name, std::string_view what,
                         std::string_view of, std::string_view to,
                         std::string_view path) {
    result->figures.push_back({fmt::format("{}_{}", name, NameOf(way.wait)),
                               fmt::format("{}: {}", way.what, what), "x",
                               part.Ratio(of, to, path)});
  };
  constexpr std::string_view kP50 = "/round_trip_ns/p50";
  constexpr std::string_view kRate = "/pipelined/per_second";
  ratio("control_p50", "control: the same ring twice, p50", "ring_again",
        "ring", kP50);
  ratio("event_over_ring_p50", "event path / ring, p50", "event_echo", "ring",
        kP50);
  for (const auto& [name, label] :
       {std::pair("unix_seqpacket", "Unix seqpacket"),
        std::pair("boost_mq", "Boost message_queue"),
        std::pair("zmq_ipc", "ZeroMQ ipc"), std::pair("grpc_unary", "gRPC")}) {
    ratio(fmt::format("{}_over_event_p50", name),
          fmt::format("{} / event path, p50", label), name, "event_echo", kP50);
    ratio(fmt::format("event_over_{}_rate", name),
          fmt::format("event path / {}, pipelined rate", label), "event_echo",
          name, kRate);
  }
}

absl::StatusOr<BenchResult> Run(const BenchRun& run) {
  BenchResult result;
  for (const Way& way : kWays) {
    ASSIGN_OR_RETURN(
        auto part,
        run.Measure(fmt::format("64-byte request and reply, {}", way.what),
                    Contenders(way.wait)));
    AddFigures(part, way, &result);
    result.bases[part.name()] = "ring";
    result.parts.push_back(std::move(part));
  }
  return result;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  return carillon::bench::BenchMain(
      argc, argv,
      {.name = "ipc",
       .summary =
           "Carillon's rings and event path beside gRPC, ZeroMQ, Boost and "
           "Unix sockets: the same 64-byte request and reply, for each way to "
           "wait.",
       .run = &carillon::bench::Run});
}
