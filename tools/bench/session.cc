#include "tools/bench/session.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "fmt/format.h"
#include "tools/bench/quiet.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{20'000};
constexpr std::chrono::milliseconds kGrace{2'000};

// The server of one measurement: a child of ours, or gpud.
class Server {
 public:
  static absl::StatusOr<Server> Start(const Transport& transport, Wait wait,
                                      const SessionOptions& options) {
    ASSIGN_OR_RETURN(
        auto directory,
        TempDirectory::Make(std::filesystem::temp_directory_path().string()));
    if (transport.serve == nullptr) {
      return StartGpud(transport, std::move(directory), wait, options);
    }
    ASSIGN_OR_RETURN(
        auto child,
        LineProcess::Start({.argv = ServerArguments(std::string(transport.name),
                                                    wait, directory.path()),
                            .realtime = options.realtime}));
    Server server(transport, std::move(directory), std::move(child));
    ASSIGN_OR_RETURN(const auto line, server.child_.ReadLine(kAnswerTime));
    constexpr std::string_view kReady = "ready ";
    if (!line.starts_with(kReady)) {
      return absl::InternalError(fmt::format("the server says '{}'", line));
    }
    server.endpoint_ = line.substr(kReady.size());
    return server;
  }
  Server(Server&&) = default;
  Server& operator=(Server&&) = delete;
  ~Server() {
    // gpud tidies up; the others have nothing to.
    child_.End(transport_->serve == nullptr ? SIGTERM : SIGKILL, kGrace);
    if (transport_->clean_up != nullptr && !directory_.path().empty()) {
      transport_->clean_up(directory_.path());
    }
  }

  const std::string& endpoint() const { return endpoint_; }
  // It may have started others: a gpud at each end of a link, and linkd.
  uint64_t CpuNs() const { return TreeCpuNs(child_.pid()); }

 private:
  Server(const Transport& transport, TempDirectory directory, LineProcess child)
      : transport_(&transport),
        directory_(std::move(directory)),
        child_(std::move(child)) {}

  static absl::StatusOr<Server> StartGpud(const Transport& transport,
                                          TempDirectory directory, Wait wait,
                                          const SessionOptions& options) {
    if (options.gpud.empty()) {
      return absl::FailedPreconditionError(
          "this measurement needs gpud: say where it is with --gpud");
    }
    const std::string testbed = directory.path() + "/testbed";
    ASSIGN_OR_RETURN(
        auto child, LineProcess::Start(
                        {.argv = {options.gpud, "--dir", testbed, "--backend",
                                  "cpu", "--log-level", "warn", "--ekt-entries",
                                  "1024", "--max-spin-ns",
                                  fmt::format("{}", SpinOfGpud(wait).count())},
                         .realtime = options.realtime,
                         .log_path = directory.path() + "/gpud.log"}));
    Server server(transport, std::move(directory), std::move(child));
    server.endpoint_ = testbed;
    return server;
  }

  const Transport* transport_;
  TempDirectory directory_;
  LineProcess child_;
  std::string endpoint_;
};

// Adds one client's result to what others of the same measurement found.
void AddResult(const Json& one, Json* all) {
  if (all->is_null()) {
    *all = one;
    return;
  }
  if (!one.contains("pipelined") || !all->contains("pipelined")) return;
  Json& sum = (*all)["pipelined"];
  const Json& more = one["pipelined"];
  sum["messages"] =
      sum["messages"].get<uint64_t>() + more["messages"].get<uint64_t>();
  sum["per_second"] =
      sum["per_second"].get<double>() + more["per_second"].get<double>();
}

absl::StatusOr<Measurement> MeasureOnce(const Contender& contender,
                                        const SessionOptions& options,
                                        const std::vector<int>& cpus) {
  const Transport* transport = FindTransport(contender.job.transport);
  if (transport == nullptr) return absl::NotFoundError(contender.job.transport);
  Measurement measurement;
  // First: a spinning server would keep the probe from its CPU.
  if (cpus.size() >= 2) {
    measurement.probe_ns = PlacementProbeNs(cpus[0], cpus[1]);
  }
  ASSIGN_OR_RETURN(auto server,
                   Server::Start(*transport, contender.job.wait, options));

  ClientJob job = contender.job;
  job.endpoint = server.endpoint();
  std::vector<LineProcess> bystanders;
  for (const std::string& name : contender.bystanders) {
    ClientJob none = job;
    none.transport = name;
    ASSIGN_OR_RETURN(auto bystander,
                     LineProcess::Start({.argv = ClientArguments(none)}));
    RETURN_IF_ERROR(bystander.ReadLine(kAnswerTime).status());
    bystanders.push_back(std::move(bystander));
  }
  std::vector<LineProcess> clients;
  for (size_t i = 0; i < contender.clients; ++i) {
    ASSIGN_OR_RETURN(auto client,
                     LineProcess::Start({.argv = ClientArguments(job),
                                         .realtime = options.realtime}));
    clients.push_back(std::move(client));
  }
  for (LineProcess& client : clients) {
    RETURN_IF_ERROR(client.ReadLine(kAnswerTime).status());
  }

  ForeignMeter foreign;
  const uint64_t client_start = SumCpuNs(clients);
  const uint64_t server_start = server.CpuNs();
  foreign.Start(client_start + server_start);
  const Nanoseconds start = NowNs();
  for (LineProcess& client : clients) {
    RETURN_IF_ERROR(client.WriteLine("go"));
  }
  for (LineProcess& client : clients) {
    ASSIGN_OR_RETURN(const auto line, client.ReadLine(kAnswerTime));
    const Json result = Json::parse(line, nullptr, false);
    if (!result.is_object()) {
      return absl::InternalError(fmt::format("a client says '{}'", line));
    }
    AddResult(result, &measurement.result);
  }
  const uint64_t client_end = SumCpuNs(clients);
  const uint64_t server_end = server.CpuNs();
  measurement.foreign = foreign.Stop(client_end + server_end);
  const auto elapsed = static_cast<double>(NowNs() - start);
  measurement.client_cpu =
      static_cast<double>(client_end - client_start) / elapsed;
  measurement.server_cpu =
      static_cast<double>(server_end - server_start) / elapsed;
  measurement.disturbed = measurement.foreign > options.max_foreign;
  // They leave by themselves, and say goodbye to gpud.
  for (LineProcess& client : clients) client.End(0, kGrace);
  for (LineProcess& bystander : bystanders) bystander.End(0, kGrace);
  return measurement;
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> RunSession(
    const std::vector<Contender>& contenders, const SessionOptions& options,
    const std::function<void(const Contender&, const Measurement&)>& progress) {
  const std::vector<int> cpus = UsableCpus();
  std::vector<Measurement> measurements;
  for (size_t round = 0; round < options.rounds; ++round) {
    for (const size_t index : RoundOrder(contenders.size(), round)) {
      const Contender& contender = contenders[index];
      for (size_t attempt = 1;; ++attempt) {
        WaitForQuiet(options.max_foreign, options.patience);
        auto measured = MeasureOnce(contender, options, cpus);
        if (!measured.ok()) {
          return absl::Status(measured.status().code(),
                              fmt::format("{}: {}", contender.name,
                                          measured.status().message()));
        }
        measured->contender = index;
        measured->round = round;
        progress(contender, *measured);
        const bool good = !measured->disturbed || attempt >= options.attempts;
        measurements.push_back(*std::move(measured));
        if (good) break;
      }
    }
  }
  return measurements;
}

std::vector<RoundValues> ValuesOf(const std::vector<Measurement>& measurements,
                                  size_t contender, std::string_view path) {
  const bool any_quiet = std::ranges::any_of(measurements, [&](const auto& m) {
    return m.contender == contender && !m.disturbed;
  });
  const Json::json_pointer pointer{std::string(path)};
  std::vector<RoundValues> rounds;
  for (const Measurement& m : measurements) {
    if (m.contender != contender || (m.disturbed && any_quiet)) continue;
    if (!m.result.contains(pointer)) continue;
    if (rounds.size() <= m.round) rounds.resize(m.round + 1);
    rounds[m.round].push_back(m.result[pointer].get<double>());
  }
  return rounds;
}

std::string WaitText(Wait wait, std::chrono::microseconds spin) {
  if (wait != Wait::kSpinsThenSleeps) return std::string(NameOf(wait));
  return fmt::format("spins {} us, sleeps", spin.count());
}

Json ToJson(const Contender& contender) {
  Json json = {{"name", contender.name},
               {"label", contender.label},
               {"transport", contender.job.transport},
               {"clients", contender.clients},
               {"client_waits", WaitText(contender.job.wait, kClientSpin)},
               {"server_waits", WaitText(contender.job.wait, kServerSpin)},
               {"gap_us", contender.job.gap.count()},
               {"window", contender.job.window}};
  if (contender.of > 0) json["of"] = contender.of;
  return json;
}

Json ToJson(const Measurement& measurement,
            const std::vector<Contender>& contenders) {
  Json json = {{"contender", contenders[measurement.contender].name},
               {"round", measurement.round + 1},
               {"probe_ns", measurement.probe_ns},
               {"foreign_share", measurement.foreign},
               {"disturbed", measurement.disturbed},
               {"client_cpus", measurement.client_cpu},
               {"server_cpus", measurement.server_cpu}};
  json.update(measurement.result);
  return json;
}

}  // namespace carillon::bench
