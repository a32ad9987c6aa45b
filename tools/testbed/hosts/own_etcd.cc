#include "tools/testbed/hosts/own_etcd.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "base/host_port.h"
#include "base/status.h"
#include "mesh/etcd/own_etcd.h"
#include "tools/testbed/hosts/host_record.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/own_address.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// One that was killed may have the port for a moment.
constexpr std::chrono::seconds kPortPatience{3};
constexpr std::chrono::seconds kTryAgain{1};
constexpr milliseconds kLookPeriod{100};
constexpr std::chrono::seconds kLastLookPatience{2};

// What keeps an etcd from the port. Errors: those of OwnEtcdKeeper::Start().
absl::Status CheckAddress(const Topology& topology, const HostPort& address,
                          const std::function<bool()>& stopped) {
  const auto end = Clock::now() + kPortPatience;
  int error = TryListen(address);
  while (error == EADDRINUSE && Clock::now() < end) {
    if (stopped()) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(kLookPeriod);
    error = TryListen(address);
  }
  if (error == 0) return absl::OkStatus();
  if (error != EADDRINUSE) {
    return WithHint(
        absl::UnavailableError(fmt::format("etcd: own cannot listen on {}: {}",
                                           address.ToString(),
                                           std::strerror(error))),
        fmt::format("is this host '{}'? Its address in the topology is to be "
                    "this machine's",
                    topology.part->host));
  }
  const HostKeys keys(topology.name);
  const std::string key = keys.host(topology.part->host);
  ASSIGN_OR_RETURN(const auto etcd, OpenEtcd(topology));
  const auto found = etcd->List(key);
  if (found.ok() && found->contains(key)) {
    const auto record = ReadHostRecord(found->at(key).value, key);
    return HostIsUp(topology,
                    record.ok() ? record->Place() : address.ToString());
  }
  return WithHint(
      absl::AlreadyExistsError(
          fmt::format("etcd: own cannot listen on {}: another process does",
                      address.ToString())),
      fmt::format(
          "end that, or give host '{}' another address: HOST:PORT; etcd "
          "takes the port before",
          topology.part->host));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnEtcdKeeper>> OwnEtcdKeeper::Start(
    const Topology& topology, const TestbedPaths& paths, Options options) {
  const std::string& url = topology.etcd[0];
  ASSIGN_OR_RETURN(const auto address,
                   ReadHostPort(url.substr(url.find("//") + 2)));
  RETURN_IF_ERROR(CheckAddress(topology, address, options.stopped));
  const mesh::OwnEtcd::Options etcd{
      .folder = EtcdFolderOf(paths),
      .log_path = fmt::format("{}/{}.log", paths.log_directory(), kEtcdName),
      .listener = mesh::OwnEtcd::Options::Listener{.address = address,
                                                   .tls = MeshTls(topology),
                                                   .name = topology.gpu_host}};
  if (mkdir(etcd.folder.c_str(), 0700) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("cannot make {}: {}", etcd.folder, std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(auto client, OpenEtcd(topology));
  std::unique_ptr<OwnEtcdKeeper> keeper(new OwnEtcdKeeper(
      etcd.folder, std::move(client), HostKeys(topology.name).want,
      {.name = std::string(kEtcdName),
       .kind = std::string(kEtcdName),
       .restart = RestartPolicy::kOnFailure,
       .note = url,
       .log = etcd.log_path}));
  std::promise<absl::Status> first;
  auto started = first.get_future();
  // etcd dies with this thread.
  keeper->thread_ =
      std::jthread([etcd, options, self = keeper.get(),
                    first = std::move(first)](std::stop_token stop) mutable {
        auto own = mesh::OwnEtcd::Start(etcd, options.stopped);
        const auto note_start = [&] {
          self->Change([&](ProcessRecord& record) {
            const auto facts = LookAtProcess(own->process().pid());
            if (facts) record.identity = facts->identity;
            if (record.exit) ++record.restarts;
            record.state = ProcessState::kReady;
            record.exit.reset();
          });
        };
        if (own.ok()) note_start();
        first.set_value(own.status());
        std::string told;
        while (own.ok()) {
          while (!own->process().AwaitEnd(kLookPeriod)) {
            if (stop.stop_requested()) return;
          }
          const ExitReport exit = own->process().Reap();
          self->Change([&](ProcessRecord& record) {
            record.state = ProcessState::kEnded;
            record.exit = record.last_exit = exit;
          });
          options.say(
              fmt::format("etcd ended ({}): another one is started; what "
                          "runs goes on",
                          exit.ToString()));
          for (;;) {
            auto next = mesh::OwnEtcd::Start(
                etcd, [&stop] { return stop.stop_requested(); });
            if (stop.stop_requested()) return;
            if (next.ok()) {
              own.emplace(*std::move(next));
              note_start();
              break;
            }
            if (told != next.status().message()) {
              told = std::string(next.status().message());
              options.say(fmt::format("etcd: {}; it is tried again", told));
            }
            const auto again = Clock::now() + kTryAgain;
            while (!stop.stop_requested() && Clock::now() < again) {
              std::this_thread::sleep_for(kLookPeriod);
            }
          }
        }
      });
  RETURN_IF_ERROR(started.get());
  return keeper;
}

OwnEtcdKeeper::OwnEtcdKeeper(std::string folder,
                             std::unique_ptr<mesh::Etcd> etcd, std::string want,
                             ProcessRecord record)
    : folder_(std::move(folder)),
      etcd_(std::move(etcd)),
      want_(std::move(want)),
      changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      record_(std::move(record)) {}

ProcessRecord OwnEtcdKeeper::record() const {
  // First: a change from here on is told anew.
  eventfd_t ignored = 0;
  eventfd_read(changed_.get(), &ignored);
  MutexLock lock(mutex_);
  return record_;
}

void OwnEtcdKeeper::Change(const std::function<void(ProcessRecord&)>& change) {
  {
    MutexLock lock(mutex_);
    change(record_);
  }
  eventfd_write(changed_.get(), 1);
}

OwnEtcdKeeper::~OwnEtcdKeeper() {
  const auto end = Clock::now() + kLastLookPatience;
  while (Clock::now() < end) {
    const auto want = etcd_->List(want_);
    if (!want.ok() || want->empty()) break;
    std::this_thread::sleep_for(kLookPeriod);
  }
  thread_.request_stop();
  thread_.join();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace carillon::testbed
