// Runs contenders in turn, each measurement in processes of its own, and keeps
// what is needed to judge the numbers: the order, where the CPUs were, and what
// others used of them meanwhile. No process is pinned to a CPU: a server of
// several threads, as gpud, gRPC and ZeroMQ are, would have one for all.
#ifndef CARILLON_TOOLS_BENCH_SESSION_H_
#define CARILLON_TOOLS_BENCH_SESSION_H_

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/machine.h"
#include "tools/bench/roles.h"
#include "tools/bench/stats.h"

namespace carillon::bench {

struct Contender {
  std::string name;    // in the results; two may measure the same thing
  std::string label;   // for people
  ClientJob job;       // its transport; the endpoint is the server's
  size_t clients = 1;  // processes that ask the one server at the same time
  // The transports of further processes, which connect and ask nothing. Without
  // real-time priority: all that they do is to be there.
  std::vector<std::string> bystanders;
  // How many there are of what the part is about, if it is about numbers; 0: it
  // is not.
  size_t of = 0;
};

struct SessionOptions {
  size_t rounds = 3;
  std::string gpud;  // the program; for transports that need it
  // A measurement is disturbed when others used more than this share of the
  // machine; it is repeated, `attempts` times at most in all.
  double max_foreign = 0.05;
  size_t attempts = 1;
  // Waited for a quiet moment before each, at most.
  std::chrono::milliseconds patience{0};
  bool realtime = false;  // see SpawnOptions
};

struct Measurement {
  size_t contender = 0;
  size_t round = 0;
  double probe_ns = 0;  // PlacementProbeNs() right before
  double foreign = 0;   // share of all CPUs: other processes and hypervisor
  bool disturbed = false;
  double client_cpu = 0;  // CPUs' worth
  double server_cpu = 0;
  // As roles.h gives it. Of several clients: the sum of their rates, and the
  // round trips of the first.
  Json result;
};

// Errors: of the first process that fails, with the contender's name.
absl::StatusOr<std::vector<Measurement>> RunSession(
    const std::vector<Contender>& contenders, const SessionOptions& options,
    const std::function<void(const Contender&, const Measurement&)>& progress);

// One value of every undisturbed measurement of a contender, by round: the
// number at `path` ("/round_trip_ns/p50") of its result. If every measurement
// of it was disturbed, all of them.
std::vector<RoundValues> ValuesOf(const std::vector<Measurement>& measurements,
                                  size_t contender, std::string_view path);

// How one side waits, for people: "spins", "sleeps", "spins 20 us, sleeps".
std::string WaitText(Wait wait, std::chrono::microseconds spin);

Json ToJson(const Contender& contender);
Json ToJson(const Measurement& measurement,
            const std::vector<Contender>& contenders);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SESSION_H_
