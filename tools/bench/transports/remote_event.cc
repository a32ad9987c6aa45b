#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "fmt/format.h"
#include "mesh/link_engine.h"
#include "tools/bench/transports/delay_line.h"
#include "tools/bench/transports/link_files.h"
#include "tools/bench/transports/transports.h"
#include "tools/plots/document.h"

namespace carillon::bench {
namespace {

// Where linkd says that it listens. Errors: Internal, with all that it says.
absl::StatusOr<std::string> AddressOf(const Subprocess& linkd,
                                      const std::string& log) {
  constexpr std::string_view kSaid = "serves for host a on ";
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string said;
  while (std::chrono::steady_clock::now() < deadline && !linkd.ended()) {
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    said = text.str();
    const size_t begin = said.find(kSaid);
    const size_t end = said.find('\n', begin);
    if (begin != said.npos && end != said.npos) {
      return said.substr(begin + kSaid.size(), end - begin - kSaid.size());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return absl::InternalError("linkd does not serve: " + said);
}

// Host b with the GPU, and host a with the device; both are this machine.
template <mesh::Engine kEngine, std::chrono::microseconds::rep kEachWay = 0>
absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  ASSIGN_OR_RETURN(const TlsFiles files, MakeLinkFiles(directory));
  const std::string gpud = plots::Runfile("gpu_daemon/gpud");
  const std::string linkd = plots::Runfile("devices/link/linkd");
  if (gpud.empty() || linkd.empty()) {
    return absl::NotFoundError(
        "this measurement needs gpud and devices/link/linkd: build both, or "
        "set "
        "CARILLON_BIN_DIR to the folder that has them");
  }
  const std::string engine(mesh::NameOf(kEngine));
  // By loopback, as the engine tls: else UCX also takes the machine's network.
  const std::vector<std::string> environment = {"UCX_NET_DEVICES=lo"};
  const std::string a = directory + "/a";
  const std::string b = directory + "/b";
  const std::string spin = fmt::format("{}", SpinOfGpud(wait).count());
  const std::string log_b = directory + "/gpud-b.log";
  ASSIGN_OR_RETURN(const auto far,
                   Subprocess::Start({.argv = {gpud, "--dir", b, "--backend",
                                               "cpu", "--max-spin-ns", spin},
                                      .log_path = log_b}));
  const std::string log = directory + "/linkd.log";
  ASSIGN_OR_RETURN(
      const auto link,
      Subprocess::Start(
          {.argv = {linkd, "--dir", b, "--listen", "127.0.0.1:0", "--host", "b",
                    "--peer", "a", "--tls-cert", files.certificate, "--tls-key",
                    files.key, "--tls-ca", files.ca, "--engine", engine,
                    "--trusted"},
           .environment = environment,
           .log_path = log}));
  ASSIGN_OR_RETURN(std::string address, AddressOf(link, log));
  std::unique_ptr<DelayLine> line;
  if constexpr (kEachWay > 0) {
    const auto port = static_cast<uint16_t>(
        std::stoul(address.substr(address.rfind(':') + 1)));
    ASSIGN_OR_RETURN(
        line, DelayLine::Start(port, std::chrono::microseconds(kEachWay)));
    address = fmt::format("127.0.0.1:{}", line->port());
  }
  ASSIGN_OR_RETURN(const auto near,
                   Subprocess::Start({.argv = {gpud,
                                               "--dir",
                                               a,
                                               "--backend",
                                               "remote",
                                               "--link",
                                               address,
                                               "--link-host",
                                               "a",
                                               "--link-peer",
                                               "b",
                                               "--link-cert",
                                               files.certificate,
                                               "--link-key",
                                               files.key,
                                               "--link-ca",
                                               files.ca,
                                               "--link-engine",
                                               engine,
                                               "--link-trusted",
                                               "--max-spin-ns",
                                               spin},
                                      .environment = environment,
                                      .log_path = directory + "/gpud-a.log"}));
  ready(a);
  // Until this process is killed, and they with it.
  while (!near.AwaitEnd(std::chrono::hours(1))) {
  }
  return absl::InternalError("host a's gpud has ended");
}

}  // namespace

Transport RemoteEventNull() {
  return {.name = "remote_null",
          .label = "Carillon null event, by a link",
          .serve = &Serve<mesh::Engine::kTls>,
          .connect = NullEventsOverALink()};
}
Transport RemoteEventNullFar() {
  return {.name = "remote_null_far",
          .label = "Carillon null event, by a link, 1 ms away",
          .serve = &Serve<mesh::Engine::kTls, kFarEachWay.count()>,
          .connect = NullEventsOverALink()};
}
Transport RemoteEventEcho() {
  return {.name = "remote_echo",
          .label = "Carillon echo event, 64 bytes, by a link",
          .serve = &Serve<mesh::Engine::kTls>,
          .connect = EchoEventsOverALink()};
}
Transport RemoteEventNullByUcx() {
  return {.name = "remote_null_ucx",
          .label = "Carillon null event, by a link with the engine ucx",
          .serve = &Serve<mesh::Engine::kUcx>,
          .connect = NullEventsOverALink()};
}
Transport RemoteEventEchoByUcx() {
  return {.name = "remote_echo_ucx",
          .label =
              "Carillon echo event, 64 bytes, by a link with the engine "
              "ucx",
          .serve = &Serve<mesh::Engine::kUcx>,
          .connect = EchoEventsOverALink()};
}

}  // namespace carillon::bench
