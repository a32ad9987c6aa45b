#include "mesh/etcd/own_etcd.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "mesh/etcd/etcd.h"

namespace carillon::mesh {
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

bool SaysReady(const std::string& path, std::streamoff from) {
  std::ifstream log(path);
  log.seekg(from);
  for (std::string line; std::getline(log, line);) {
    if (line.find("ready to serve client requests") != line.npos) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<OwnEtcd> OwnEtcd::Start(const Options& options,
                                       const std::function<bool()>& stopped) {
  const auto program = FindProgram("etcd");
  if (!program.ok()) {
    return WithHint(program.status(), "apt-get install etcd-server");
  }
  // Sockets of etcd have a name with a port, below the folder that it runs in.
  std::string clients = "unix://clients:0";
  const std::string peers = "unix://peers:0";
  std::string address = fmt::format("unix:{}/clients:0", options.folder);
  // Its options may also come from the environment: without one.
  std::vector<std::string> command = {"env", "-i", *program};
  TlsPems pems;
  std::string name;
  if (options.listener) {
    const auto& [own, tls, certificate_name] = *options.listener;
    ASSIGN_OR_RETURN(pems, ReadTlsFiles(tls, "mesh: tls: ca"));
    name = certificate_name;
    clients = address = "https://" + own.ToString();
    command.insert(command.end(),
                   {"--client-cert-auth", "--trusted-ca-file=" + tls.ca,
                    "--cert-file=" + tls.certificate, "--key-file=" + tls.key,
                    // It would be a client of its own, by a certificate that
                    // need not be a client's.
                    "--enable-grpc-gateway=false"});
  }
  command.insert(
      command.end(),
      {"--name=default", "--data-dir=data", "--listen-client-urls=" + clients,
       "--advertise-client-urls=" + clients, "--listen-peer-urls=" + peers,
       "--initial-advertise-peer-urls=" + peers,
       "--initial-cluster=default=" + peers});
  std::error_code ignored;
  const auto told = std::filesystem::file_size(options.log_path, ignored);
  const std::streamoff from = ignored ? 0 : static_cast<std::streamoff>(told);
  ASSIGN_OR_RETURN(auto process,
                   Subprocess::Start({.argv = std::move(command),
                                      .directory = options.folder,
                                      .log_path = options.log_path,
                                      .own_group = true}));
  OwnEtcd own(std::move(process), std::move(address));
  ASSIGN_OR_RETURN(const auto client, Etcd::Make({own.address()}, pems, name));
  const auto begin = Clock::now();
  const auto end = begin + kStartPatience;
  absl::Status status;
  do {
    // A connection that is made before etcd serves may hang for seconds.
    if (SaysReady(options.log_path, from) ||
        Clock::now() - begin > kSilentStart) {
      status = client->List("/").status();
      if (status.ok()) return own;
    }
    if (stopped()) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (!own.process_.ended() && Clock::now() < end);
  return absl::UnavailableError(fmt::format(
      "an etcd of Carillon's own does not start: {}",
      own.process_.ended() || status.ok() ? LastLineOf(options.log_path)
                                          : std::string(status.message())));
}

}  // namespace carillon::mesh
