#include "tools/testbed/supervisor/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

constexpr int kVersion = 2;

Json ExitToJson(const std::optional<ExitReport>& exit) {
  if (!exit) return nullptr;
  if (exit->signal != 0)
    return {{"signal", SignalName(exit->signal)}, {"number", exit->signal}};
  return {{"code", exit->code}};
}

// Reads the whole number json[key]. nlohmann would also convert 1e300, and
// numbers that the type cannot hold.
template <class T>
absl::Status ReadNumber(const Json& json, const char* key, T* value) {
  const Json& number = json.at(key);
  if (number.is_number_unsigned()
          ? !std::in_range<T>(number.get<uint64_t>())
          : !number.is_number_integer() ||
                !std::in_range<T>(number.get<int64_t>())) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}, which it cannot be", key, number.dump()));
  }
  *value = number.get<T>();
  return absl::OkStatus();
}

absl::Status ReadExit(const Json& json, const char* key,
                      std::optional<ExitReport>* exit) {
  const Json& report = json.at(key);
  if (report.is_null()) return absl::OkStatus();
  exit->emplace();
  return report.contains("number")
             ? ReadNumber(report, "number", &(*exit)->signal)
             : ReadNumber(report, "code", &(*exit)->code);
}

absl::Status ReadIdentity(const Json& json, ProcessIdentity* identity) {
  RETURN_IF_ERROR(ReadNumber(json, "pid", &identity->pid));
  return ReadNumber(json, "start_ticks", &identity->start_ticks);
}

constexpr std::array kProcessStates = {
    ProcessState::kStarting, ProcessState::kReady, ProcessState::kRunning,
    ProcessState::kEnded};
constexpr std::array kPolicies = {RestartPolicy::kNever,
                                  RestartPolicy::kOnFailure};
constexpr std::array kPhases = {Phase::kStarting, Phase::kUp, Phase::kStopping,
                                Phase::kFailed};

// The value among `all` whose text is json[key].
template <class Values>
absl::Status ReadEnum(const Json& json, const char* key, const Values& all,
                      typename Values::value_type* value) {
  const std::string text = json.at(key);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto each) {
    return text == ToText(each);
  });
  if (found == all.end()) {
    return absl::InvalidArgumentError(fmt::format("'{}' is no {}", text, key));
  }
  *value = *found;
  return absl::OkStatus();
}

Json ToJson(const ProcessRecord& record) {
  return {{"name", record.name},
          {"kind", record.kind},
          {"state", ToText(record.state)},
          {"pid", record.identity.pid},
          {"start_ticks", record.identity.start_ticks},
          {"exit", ExitToJson(record.exit)},
          {"restarts", record.restarts},
          {"last_exit", ExitToJson(record.last_exit)},
          {"restart", ToText(record.restart)},
          {"given_up", record.given_up},
          {"note", record.note},
          {"log", record.log},
          {"command", record.command}};
}

absl::Status ReadProcess(const Json& json, ProcessRecord* record) {
  record->name = json.at("name");
  record->kind = json.at("kind");
  record->command = json.at("command").get<std::vector<std::string>>();
  record->given_up = json.at("given_up");
  record->note = json.at("note");
  record->log = json.at("log");
  for (const absl::Status& status :
       {ReadIdentity(json, &record->identity),
        ReadEnum(json, "state", kProcessStates, &record->state),
        ReadExit(json, "exit", &record->exit),
        ReadNumber(json, "restarts", &record->restarts),
        ReadExit(json, "last_exit", &record->last_exit),
        ReadEnum(json, "restart", kPolicies, &record->restart)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<TestbedState> FromJson(const Json& json) {
  TestbedState state;
  state.testbed = json.at("testbed");
  state.topology_file = json.at("topology_file");
  for (const absl::Status& status :
       {ReadEnum(json, "phase", kPhases, &state.phase),
        ReadNumber(json, "started_unix", &state.started_unix),
        ReadIdentity(json.at("supervisor"), &state.supervisor)}) {
    if (!status.ok()) return status;
  }
  if (json.contains("host")) {
    state.host = json.at("host");
    state.engine = json.value("engine", "tls");
    for (const Json& host : json.at("hosts")) {
      state.hosts.push_back(
          {.name = host.at("name"),
           .address = host.at("address"),
           .has_gpu = host.at("gpu"),
           .devices = host.at("devices").get<std::vector<std::string>>()});
    }
  }
  for (const Json& process : json.at("processes")) {
    RETURN_IF_ERROR(ReadProcess(process, &state.processes.emplace_back()));
  }
  if (json.contains("etcd")) {
    RETURN_IF_ERROR(ReadProcess(json.at("etcd"), &state.etcd.emplace()));
  }
  return state;
}

}  // namespace

const char* ToText(ProcessState state) {
  static constexpr const char* kTexts[] = {"starting", "ready", "running",
                                           "ended"};
  return kTexts[static_cast<size_t>(state)];
}

const char* ToText(Phase phase) {
  static constexpr const char* kTexts[] = {"starting", "up", "stopping",
                                           "failed"};
  return kTexts[static_cast<size_t>(phase)];
}

ProcessRecord* TestbedState::Find(const std::string& name) {
  const auto found = std::ranges::find(processes, name, &ProcessRecord::name);
  return found == processes.end() ? nullptr : &*found;
}

std::string_view WithoutOwnHost(const TestbedState& state,
                                std::string_view process) {
  const size_t slash = process.find('/');
  return !state.host.empty() && process.substr(0, slash) == state.host &&
                 slash != process.npos
             ? process.substr(slash + 1)
             : process;
}

absl::Status CheckIsHere(const TestbedState& state, std::string_view process,
                         std::string_view command) {
  const size_t slash = process.find('/');
  const std::string_view wanted_host =
      slash == process.npos ? "" : process.substr(0, slash);
  const std::string_view name =
      slash == process.npos ? process : process.substr(slash + 1);
  for (const HostPart::Host& host : state.hosts) {
    if (host.name == state.host) continue;
    const auto is_peer = [&](const HostPart::Host& other) {
      return !other.has_gpu && !other.devices.empty() &&
             name == fmt::format("{}{}", kLinkdPrefix, other.name);
    };
    const bool is_linkd =
        host.has_gpu && std::ranges::any_of(state.hosts, is_peer);
    const bool is_of_one =
        is_linkd || std::ranges::count(host.devices, name) != 0;
    // Each host has these: they are named with it.
    const bool is_of_each = std::ranges::count(kReservedNames, name) != 0;
    if (wanted_host.empty()
            ? !is_of_one
            : wanted_host != host.name || !(is_of_one || is_of_each)) {
      continue;
    }
    return WithHint(absl::NotFoundError(fmt::format(
                        "{} of testbed '{}' is on host '{}', and this is '{}'",
                        Quote(name), state.testbed, host.name, state.host)),
                    fmt::format("on host '{}': carillon {} {} --name {}",
                                host.name, command, name, state.testbed));
  }
  return absl::OkStatus();
}

Json ToJson(const TestbedState& state) {
  Json processes = Json::array();
  for (const ProcessRecord& record : state.processes) {
    processes.push_back(ToJson(record));
  }
  Json json = {{"version", kVersion},
               {"testbed", state.testbed},
               {"phase", ToText(state.phase)},
               {"topology_file", state.topology_file},
               {"started_unix", state.started_unix},
               {"supervisor",
                {{"pid", state.supervisor.pid},
                 {"start_ticks", state.supervisor.start_ticks}}},
               {"processes", std::move(processes)}};
  if (state.etcd) json["etcd"] = ToJson(*state.etcd);
  if (state.host.empty()) return json;
  json["host"] = state.host;
  json["engine"] = state.engine;
  json["hosts"] = Json::array();
  for (const HostPart::Host& host : state.hosts) {
    json["hosts"].push_back({{"name", host.name},
                             {"address", host.address},
                             {"gpu", host.has_gpu},
                             {"devices", host.devices}});
  }
  return json;
}

absl::Status WriteState(const std::string& path, const TestbedState& state) {
  const std::string text =
      ToJson(state).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string temporary = path + ".tmp";
  const UniqueFd fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", temporary, strerror(errno)));
  }
  if (write(fd.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size()) ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot write {}: {}", path, strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<TestbedState> ParseState(const Json& json,
                                        std::string_view what) {
  const auto damaged = [&](const std::string& how) {
    return absl::FailedPreconditionError(
        fmt::format("{} is damaged: {}", what, how));
  };
  // nlohmann throws; no exception leaves this function.
  try {
    if (json.at("version") != kVersion) {
      return absl::FailedPreconditionError(
          fmt::format("{} is of version {}; this carillon reads {}", what,
                      json.at("version").dump(), kVersion));
    }
    auto state = FromJson(json);
    if (!state.ok()) return damaged(std::string(state.status().message()));
    return state;
  } catch (const Json::exception&) {
    return damaged("a field is missing or of another type");
  }
}

absl::StatusOr<TestbedState> ReadState(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        fmt::format("cannot read {}: {}", path, strerror(errno)));
  }
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  absl::StatusOr<TestbedState> state =
      json.is_discarded() ? absl::FailedPreconditionError(fmt::format(
                                "{} is damaged: it is no JSON", path))
                          : ParseState(json, path);
  if (state.ok()) return state;
  return WithHint(state.status(),
                  "carillon down ends the testbed, carillon cleanup clears a "
                  "dead one away");
}

}  // namespace carillon::testbed
