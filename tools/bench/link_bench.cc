// Measures a link between two hosts, which are both this machine: events that
// another host's gpud runs, by both engines, compared with the TLS stream that
// carries those of the engine tls.
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

using std::chrono::milliseconds;

constexpr std::string_view kP50 = "/round_trip_ns/p50";
constexpr std::string_view kRate = "/pipelined/per_second";

Contender Make(std::string transport, std::string name, std::string label) {
  Contender contender;
  contender.name = std::move(name);
  contender.label = std::move(label);
  contender.job.transport = std::move(transport);
  // As linkd and the link's threads do.
  contender.job.wait = Wait::kSleeps;
  return contender;
}

std::vector<Contender> RoundTrips() {
  std::vector<Contender> all = {
      Make("tls", "tls", "the link's TLS stream, 64 bytes"),
      Make("remote_null", "remote", "null event over a link"),
      Make("remote_echo", "remote_echo", "64-byte echo event over a link"),
      Make("remote_null_ucx", "remote_ucx", "null event over a link, by ucx"),
      Make("remote_echo_ucx", "remote_echo_ucx",
           "64-byte echo event over a link, by ucx"),
      Make("event_null", "local", "null event on one host"),
      Make("tls", "tls_again", "the link's TLS stream (control)")};
  for (Contender& contender : all) contender.job.pipeline_time = {};
  return all;
}

std::vector<Contender> FarRoundTrips() {
  std::vector<Contender> all = {
      Make("tls_far", "tls", "the link's TLS stream, 64 bytes"),
      Make("remote_null_far", "remote", "null event over a link"),
      Make("tls_far", "tls_again", "the link's TLS stream (control)")};
  for (Contender& contender : all) contender.job.pipeline_time = {};
  return all;
}

std::vector<Contender> Batches() {
  std::vector<Contender> all = {
      Make("tls", "tls", "the link's TLS stream, 64 bytes"),
      Make("remote_null", "remote", "null events over a link"),
      Make("remote_echo", "remote_echo", "64-byte echo events over a link"),
      Make("remote_null_ucx", "remote_ucx", "null events over a link, by ucx"),
      Make("remote_echo_ucx", "remote_echo_ucx",
           "64-byte echo events over a link, by ucx"),
      Make("remote_null", "remote_again", "null events over a link (control)")};
  for (Contender& contender : all) {
    contender.job.round_trips = 0;
    contender.job.pipeline_time = milliseconds(1000);
    contender.job.window = kMaxLinkWindow;
  }
  return all;
}

absl::StatusOr<BenchResult> Run(const BenchRun& run) {
  ASSIGN_OR_RETURN(const auto one,
                   run.Measure("one at a time, all sleep", RoundTrips()));
  ASSIGN_OR_RETURN(const auto many,
                   run.Measure("batches of 512, all sleep", Batches()));
  ASSIGN_OR_RETURN(
      const auto far,
      run.Measure("one at a time, 1 ms apart, all sleep", FarRoundTrips()));
  using Wish = Figure::Wish;
  BenchResult result;
  result.figures = {
      {"control_tls", "control: the same TLS stream twice, p50", "x",
       one.Ratio("tls_again", "tls", kP50)},
      {"remote_null_over_tls_p50", "null event over a link / TLS, p50", "x",
       one.Ratio("remote", "tls", kP50), Wish::kAtMost, 4},
      {"remote_echo_over_tls_p50", "64-byte echo over a link / TLS, p50", "x",
       one.Ratio("remote_echo", "tls", kP50)},
      {"ucx_over_tls_p50", "null event over a link, ucx / tls, p50", "x",
       one.Ratio("remote_ucx", "remote", kP50)},
      {"control_far", "control: the same TLS stream twice, 1 ms apart, p50",
       "x", far.Ratio("tls_again", "tls", kP50)},
      {"remote_null_over_tls_far_p50",
       "null event over a link / TLS, 1 ms apart, p50", "x",
       far.Ratio("remote", "tls", kP50), Wish::kAtMost, 1.1},
      {"control_batches", "control: null events over a link twice, rate", "x",
       many.Ratio("remote_again", "remote", kRate)},
      {"remote_null_rate", "null events over a link, batches of 512", "M/s",
       Scaled(many.Value("remote", kRate), 1e-6)},
      {"remote_echo_rate", "64-byte echo events over a link, batches of 512",
       "M/s", Scaled(many.Value("remote_echo", kRate), 1e-6), Wish::kAtLeast,
       1.5},
      {"ucx_over_tls_rate",
       "null events over a link, ucx / tls, batches of 512", "x",
       many.Ratio("remote_ucx", "remote", kRate)},
      {"remote_echo_ucx_rate",
       "64-byte echo events over a link, ucx, batches of 512", "M/s",
       Scaled(many.Value("remote_echo_ucx", kRate), 1e-6)},
  };
  result.parts = {one, far, many};
  result.bases = {{one.name(), "tls"}, {far.name(), "tls"}};
  return result;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  return carillon::bench::BenchMain(
      argc, argv,
      {.name = "link",
       .summary = "What a link between two hosts costs: events over it, and "
                  "its TLS stream alone, on this machine.",
       .run = &carillon::bench::Run});
}
