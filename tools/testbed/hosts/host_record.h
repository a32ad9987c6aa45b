// What etcd holds of a testbed's hosts, below /carillon/v1/TESTBED/:
//
//   hosts/H  what host H is and has; goes with the lease of its supervisor
//   last/H   where H was, and with what it failed; until it ends in order
//   want     "down": all hosts are to end
//   job      of Slurm, which runs them
//
// Whoever may write to etcd has written it: a reader takes it for a stranger's.
#ifndef CARILLON_TOOLS_TESTBED_HOSTS_HOST_RECORD_H_
#define CARILLON_TOOLS_TESTBED_HOSTS_HOST_RECORD_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::testbed {

inline constexpr std::string_view kWantDown = "down";

struct HostKeys {
  explicit HostKeys(std::string_view testbed);
  std::string host(std::string_view name) const {
    return hosts + std::string(name);
  }
  std::string last(std::string_view name) const {
    return lasts + std::string(name);
  }

  const std::string prefix;
  const std::string hosts;
  const std::string lasts;
  const std::string want;
  const std::string job;
};

struct HostRecord {
  std::string machine;  // its name, for people
  // Its boot and PID namespace, in which a pid is one process.
  std::string processes;
  std::string job;  // of Slurm; empty
  // By the other end, where the GPU's host listens for it: "10.0.0.6:4711".
  std::map<std::string, std::string> links;
  TestbedState state;

  // "node3, pid 4711, job 12"
  std::string Place() const;
};
// Of this process, without links and state.
HostRecord OwnRecord();
std::string ToText(const HostRecord& record);
// Errors: FailedPrecondition (it is none; begins with `what`).
absl::StatusOr<HostRecord> ReadHostRecord(std::string_view text,
                                          std::string_view what);

struct LastOfHost {
  std::string place;
  std::string error;  // empty: nobody saw it fail
};
std::string ToText(const LastOfHost& last);
absl::StatusOr<LastOfHost> ReadLastOfHost(std::string_view text,
                                          std::string_view what);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_HOSTS_HOST_RECORD_H_
