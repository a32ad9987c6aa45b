// Measures the same 64-byte request and reply over every transport that a
// launch could use.
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {
namespace {

Contender Make(std::string_view transport, std::string_view name = "") {
  Contender contender;
  contender.name = name.empty() ? transport : name;
  contender.label = FindTransport(transport)->label;
  contender.job.transport = transport;
  return contender;
}

absl::StatusOr<BenchResult> Run(const BenchRun& run) {
  Contender again = Make("ring_spin", "ring_spin_again");
  again.label += " (control)";
  Contender futex = Make("ring_futex");
  futex.job.spin = std::chrono::microseconds(20);
  ASSIGN_OR_RETURN(
      auto part,
      run.Measure("64-byte request and reply",
                  {Make("plain_ring"), Make("ring_spin"), std::move(again),
                   std::move(futex), Make("event_echo"), Make("unix_seqpacket"),
                   Make("boost_mq"), Make("zmq_ipc"), Make("grpc_unary")}));
  BenchResult result;
  result.bases = {{part.name(), "ring_spin"}};
  const auto ratio = [&](std::string name, std::string what,
                         std::string_view of, std::string_view to,
                         std::string_view path) {
    result.figures.push_back({.name = std::move(name),
                              .what = std::move(what),
                              .unit = "x",
                              .value = part.Ratio(of, to, path)});
  };
  constexpr std::string_view kP50 = "/round_trip_ns/p50";
  constexpr std::string_view kRate = "/pipelined/per_second";
  ratio("control_p50", "control: the same ring twice, p50", "ring_spin_again",
        "ring_spin", kP50);
  ratio("event_over_ring_p50", "event path / ring, p50", "event_echo",
        "ring_spin", kP50);
  for (const auto& [name, label] :
       {std::pair("unix_seqpacket", "Unix seqpacket"),
        std::pair("boost_mq", "Boost message_queue"),
        std::pair("zmq_ipc", "ZeroMQ ipc"), std::pair("grpc_unary", "gRPC")}) {
    ratio(std::string(name) + "_over_event_p50",
          std::string(label) + " / event path, p50", name, "event_echo", kP50);
    ratio("event_over_" + std::string(name) + "_rate",
          "event path / " + std::string(label) + ", pipelined rate",
          "event_echo", name, kRate);
  }
  result.parts.push_back(std::move(part));
  return result;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  return carillon::bench::BenchMain(
      argc, argv, "ipc",
      "Carillon's rings and event path beside gRPC, ZeroMQ, Boost and Unix "
      "sockets: the same 64-byte request and reply.",
      &carillon::bench::Run);
}
