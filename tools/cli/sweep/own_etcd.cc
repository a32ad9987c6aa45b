#include "tools/cli/sweep/own_etcd.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/status.h"
#include "mesh/etcd/etcd.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartPatience{20};
// An etcd that words it otherwise is tried after so long.
constexpr std::chrono::seconds kSilentStart{5};

std::string LastLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  return last;
}

bool SaysReady(const std::string& path) {
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);) {
    if (line.find("ready to serve client requests") != line.npos) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<OwnEtcd> OwnEtcd::Start(const std::function<bool()>& stopped) {
  const auto program = FindProgram("etcd");
  if (!program.ok()) {
    return WithHint(program.status(),
                    "apt-get install etcd-server, or name one that runs with "
                    "--etcd");
  }
  ASSIGN_OR_RETURN(auto directory, TempDirectory::Make());
  const std::string folder = directory.path();
  // Sockets of etcd have a name with a port, below the folder that it runs in.
  const std::string clients = "unix://clients:0", peers = "unix://peers:0";
  ASSIGN_OR_RETURN(
      auto process,
      Subprocess::Start(
          // Its options may also come from the environment: without one.
          {.argv = {"env", "-i", *program, "--name=default", "--data-dir=data",
                    "--listen-client-urls=" + clients,
                    "--advertise-client-urls=" + clients,
                    "--listen-peer-urls=" + peers,
                    "--initial-advertise-peer-urls=" + peers,
                    "--initial-cluster=default=" + peers},
           .directory = folder,
           .log_path = folder + "/log",
           .own_group = true}));
  OwnEtcd own(std::move(directory), std::move(process),
              fmt::format("unix:{}/clients:0", folder));
  ASSIGN_OR_RETURN(const auto client, mesh::Etcd::Make({own.address()}, {}));
  const auto begin = Clock::now();
  const auto end = begin + kStartPatience;
  do {
    // A connection that is made before etcd serves may hang for seconds.
    if ((SaysReady(folder + "/log") || Clock::now() - begin > kSilentStart) &&
        client->List("/").ok()) {
      return own;
    }
    if (stopped()) return absl::CancelledError();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (!own.process_.ended() && Clock::now() < end);
  return absl::UnavailableError(
      fmt::format("the etcd of this sweep does not start: {}",
                  LastLineOf(own.directory_.path() + "/log")));
}

}  // namespace carillon::cli
