// The server and the client of a transport, as processes that a bench starts
// from its own binary.
#ifndef CARILLON_TOOLS_BENCH_ROLES_H_
#define CARILLON_TOOLS_BENCH_ROLES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/subprocess.h"
#include "tools/bench/machine.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {

// What a client process does: nothing for a while, then round trips one after
// another, then many requests in flight together.
struct ClientJob {
  std::string transport;
  std::string endpoint;
  std::chrono::milliseconds idle_time{0};
  // It ends at whichever limit comes first.
  uint64_t round_trips = 2'000'000;
  std::chrono::milliseconds round_trip_time{800};
  // The sleep before every round trip, so that the server sleeps too; 0: none.
  std::chrono::microseconds gap{0};
  Wait wait = Wait::kSpins;                      // of both sides
  std::chrono::milliseconds pipeline_time{500};  // 0: not pipelined
  uint32_t window = kMaxWindow;                  // requests in flight, even
};

struct ClientResult {
  std::vector<uint32_t> round_trips_ns;
  uint64_t pipelined = 0;
  double pipelined_seconds = 0;
};
// Errors: those of the transport; DataLoss when a reply does not match its
// request.
absl::StatusOr<ClientResult> RunJob(Client* client, const ClientJob& job);

// {"round_trip_ns": {samples, min, p50, p90, p99, max}, "pipelined": {messages,
// seconds, per_second}}, without what was not measured.
Json ToJson(ClientResult result);

// The arguments that make a bench binary a server or a client.
std::vector<std::string> ServerArguments(const std::string& transport,
                                         Wait wait,
                                         const std::string& directory);
std::vector<std::string> ClientArguments(const ClientJob& job);

// Plays the role and returns the exit code, if these are such arguments. A
// server prints "ready <endpoint>". A client prints "ready" once it is
// connected, waits for a line on stdin, measures, and prints one line of JSON.
// Both report errors on stderr.
std::optional<int> PlayRole(int argc, char** argv);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_ROLES_H_
