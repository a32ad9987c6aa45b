#include "tools/testbed/hosts/host_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"

namespace carillon::testbed {
namespace {

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// nlohmann throws; no exception leaves this function.
template <class T>
absl::StatusOr<T> Read(
    std::string_view text, std::string_view what,
    const std::function<absl::StatusOr<T>(const Json&)>& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return absl::FailedPreconditionError(
        fmt::format("{} is damaged: {}", what, error.what()));
  }
}

}  // namespace

HostKeys::HostKeys(std::string_view testbed)
    : prefix(fmt::format("/carillon/v1/{}/", testbed)),
      hosts(prefix + "hosts/"),
      lasts(prefix + "last/"),
      want(prefix + "want"),
      job(prefix + "job") {}

std::string HostRecord::Place() const {
  return fmt::format("{}, pid {}{}{}", machine, state.supervisor.pid,
                     job.empty() ? "" : ", job ", job);
}

HostRecord OwnRecord() {
  HostRecord record;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  record.machine = name.data();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  record.processes = fmt::format(
      "{} {}", boot,
      std::filesystem::read_symlink("/proc/self/ns/pid", error).string());
  if (const char* const job = std::getenv("SLURM_JOB_ID")) record.job = job;
  return record;
}

std::string ToText(const HostRecord& record) {
  return Dump({{"machine", record.machine},
               {"processes", record.processes},
               {"job", record.job},
               {"links", record.links},
               {"state", ToJson(record.state)}});
}

absl::StatusOr<HostRecord> ReadHostRecord(std::string_view text,
                                          std::string_view what) {
  return Read<HostRecord>(
      text, what, [&](const Json& json) -> absl::StatusOr<HostRecord> {
        HostRecord record{
            .machine = json.at("machine"),
            .processes = json.at("processes"),
            .job = json.at("job"),
            .links =
                json.at("links").get<std::map<std::string, std::string>>()};
        ASSIGN_OR_RETURN(record.state, ParseState(json.at("state"), what));
        return record;
      });
}

std::string ToText(const LastOfHost& last) {
  return Dump({{"place", last.place}, {"error", last.error}});
}

absl::StatusOr<LastOfHost> ReadLastOfHost(std::string_view text,
                                          std::string_view what) {
  return Read<LastOfHost>(
      text, what, [](const Json& json) -> absl::StatusOr<LastOfHost> {
        return LastOfHost{.place = json.at("place"), .error = json.at("error")};
      });
}

}  // namespace carillon::testbed
