#include "tools/bench/roles.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kServe = "--serve";
constexpr std::string_view kAsk = "--ask";
constexpr uint64_t kWarmUp = 1000;

Message MakeRequest(uint64_t sequence) {
  Message request{.sequence = sequence};
  std::fill(std::begin(request.payload), std::end(request.payload),
            static_cast<uint8_t>(sequence));
  return request;
}

absl::Status WrongReply(uint64_t got, uint64_t wanted) {
  return absl::DataLossError(
      fmt::format("the reply is for request {}, not {}", got, wanted));
}

absl::Status OneRoundTrip(Client* client, uint64_t sequence, uint32_t* ns) {
  const Message request = MakeRequest(sequence);
  Message reply;
  const Nanoseconds start = NowNs();
  auto status = client->RoundTrip(request, &reply);
  *ns =
      static_cast<uint32_t>(std::min<Nanoseconds>(NowNs() - start, UINT32_MAX));
  if (status.ok() && reply.sequence != sequence) {
    status = WrongReply(reply.sequence, sequence);
  }
  return status;
}

// Keeps `window` requests in flight: sends half of them together, then waits
// for the oldest half. Replies may come in any order, so their sequences are
// added up.
absl::Status Pipeline(Client* client, const ClientJob& job, uint64_t first,
                      ClientResult* result) {
  const uint32_t half = std::max(job.window / 2, 1u);
  const Nanoseconds start = NowNs();
  const Nanoseconds limit = std::chrono::nanoseconds(job.pipeline_time).count();
  uint64_t sent = first;
  uint64_t received = first;
  uint64_t sum_sent = 0;
  uint64_t sum_received = 0;
  const auto send_half = [&] {
    for (uint32_t i = 0; i < half; ++i, ++sent) {
      sum_sent += sent;
      RETURN_IF_ERROR(client->Send(MakeRequest(sent)));
    }
    return client->Flush();
  };
  const auto receive_half = [&] {
    for (uint32_t i = 0; i < half; ++i, ++received) {
      Message reply;
      RETURN_IF_ERROR(client->Receive(&reply));
      sum_received += reply.sequence;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(send_half());
  while (NowNs() - start < limit) {
    RETURN_IF_ERROR(send_half());
    RETURN_IF_ERROR(receive_half());
  }
  RETURN_IF_ERROR(receive_half());
  result->pipelined_seconds = static_cast<double>(NowNs() - start) * 1e-9;
  result->pipelined = received - first;
  if (sum_received != sum_sent) return WrongReply(sum_received, sum_sent);
  return absl::OkStatus();
}

int Fail(std::string_view role, const absl::Status& why) {
  fmt::print(stderr, "{}: {}\n", role, why.ToString());
  return 1;
}

int Serve(const std::string& name, const std::string& waits,
          const std::string& directory) {
  const Transport* transport = FindTransport(name);
  if (transport == nullptr || transport->serve == nullptr) {
    return Fail("server", absl::NotFoundError(name));
  }
  const std::optional<Wait> wait = WaitOfName(waits);
  if (!wait) return Fail("server", absl::InvalidArgumentError(waits));
  const absl::Status status =
      transport->serve(directory, *wait, [](const std::string& endpoint) {
        fmt::print("ready {}\n", endpoint);
        std::fflush(stdout);
      });
  return status.ok() ? 0 : Fail(name, status);
}

absl::StatusOr<ClientJob> ParseJob(const Json& json) {
  const auto milliseconds = [&](const char* key) {
    return std::chrono::milliseconds(json.at(key).get<int64_t>());
  };
  const std::string waits = json.at("wait").get<std::string>();
  const std::optional<Wait> wait = WaitOfName(waits);
  if (!wait) return absl::InvalidArgumentError(waits);
  return ClientJob{
      .transport = json.at("transport").get<std::string>(),
      .endpoint = json.at("endpoint").get<std::string>(),
      .idle_time = milliseconds("idle_ms"),
      .round_trips = json.at("round_trips").get<uint64_t>(),
      .round_trip_time = milliseconds("round_trip_ms"),
      .gap = std::chrono::microseconds(json.at("gap_us").get<int64_t>()),
      .wait = *wait,
      .pipeline_time = milliseconds("pipeline_ms"),
      .window = json.at("window").get<uint32_t>()};
}

int Ask(const std::string& argument) {
  const Json json = Json::parse(argument, nullptr, false);
  if (json.is_discarded()) {
    return Fail("client", absl::InvalidArgumentError(argument));
  }
  const auto job = ParseJob(json);
  if (!job.ok()) return Fail("client", job.status());
  const Transport* transport = FindTransport(job->transport);
  if (transport == nullptr) {
    return Fail("client", absl::NotFoundError(job->transport));
  }
  const auto client = transport->connect(job->endpoint, job->wait);
  if (!client.ok()) return Fail(job->transport, client.status());
  fmt::print("ready\n");
  std::fflush(stdout);
  std::string go;
  if (!std::getline(std::cin, go)) return 1;
  auto result = RunJob(client->get(), *job);
  if (!result.ok()) return Fail(job->transport, result.status());
  fmt::print("{}\n", ToJson(*std::move(result)).dump());
  std::fflush(stdout);
  // Waits until the bench has read its CPU time: a process that has ended has
  // no CPU clock.
  std::getline(std::cin, go);
  return 0;
}

}  // namespace

absl::StatusOr<ClientResult> RunJob(Client* client, const ClientJob& job) {
  // By default the kernel adds 50 us to every gap.
  prctl(PR_SET_TIMERSLACK, 1);
  ClientResult result;
  if (job.idle_time.count() > 0) client->Idle(job.idle_time);
  uint64_t sequence = 0;
  uint32_t ns = 0;
  const auto limit = std::chrono::nanoseconds(job.round_trip_time).count();
  Nanoseconds start = NowNs();
  for (uint64_t i = 0; i < kWarmUp && job.round_trips > 0; ++i) {
    RETURN_IF_ERROR(OneRoundTrip(client, sequence++, &ns));
    if (NowNs() - start > Nanoseconds(limit) / 10) break;
  }
  result.round_trips_ns.reserve(job.round_trips);
  start = NowNs();
  while (result.round_trips_ns.size() < job.round_trips) {
    if (job.gap.count() > 0) std::this_thread::sleep_for(job.gap);
    RETURN_IF_ERROR(OneRoundTrip(client, sequence++, &ns));
    result.round_trips_ns.push_back(ns);
    if (NowNs() - start > Nanoseconds(limit)) break;
  }
  if (job.pipeline_time.count() > 0) {
    RETURN_IF_ERROR(Pipeline(client, job, sequence, &result));
  }
  return result;
}

Json ToJson(ClientResult result) {
  Json json = Json::object();
  if (!result.round_trips_ns.empty()) {
    const Percentiles p = PercentilesOf(result.round_trips_ns);
    json["round_trip_ns"] = {{"samples", p.samples}, {"min", p.min},
                             {"p50", p.p50},         {"p90", p.p90},
                             {"p99", p.p99},         {"max", p.max}};
  }
  if (result.pipelined > 0) {
    json["pipelined"] = {{"messages", result.pipelined},
                         {"seconds", result.pipelined_seconds},
                         {"per_second", static_cast<double>(result.pipelined) /
                                            result.pipelined_seconds}};
  }
  return json;
}

std::vector<std::string> ServerArguments(const std::string& transport,
                                         Wait wait,
                                         const std::string& directory) {
  return {OwnProgram(), std::string(kServe), transport,
          std::string(NameOf(wait)), directory};
}

std::vector<std::string> ClientArguments(const ClientJob& job) {
  const Json json = {{"transport", job.transport},
                     {"endpoint", job.endpoint},
                     {"round_trips", job.round_trips},
                     {"round_trip_ms", job.round_trip_time.count()},
                     {"idle_ms", job.idle_time.count()},
                     {"gap_us", job.gap.count()},
                     {"wait", NameOf(job.wait)},
                     {"pipeline_ms", job.pipeline_time.count()},
                     {"window", job.window}};
  return {OwnProgram(), std::string(kAsk), json.dump()};
}

std::optional<int> PlayRole(int argc, char** argv) {
  if (argc == 5 && argv[1] == kServe) return Serve(argv[2], argv[3], argv[4]);
  if (argc == 3 && argv[1] == kAsk) return Ask(argv[2]);
  return std::nullopt;
}

}  // namespace carillon::bench
