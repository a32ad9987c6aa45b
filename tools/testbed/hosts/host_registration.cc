#include "tools/testbed/hosts/host_registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/host_port.h"
#include "base/status.h"
#include "base/text.h"
#include "base/tls_files.h"
#include "mesh/etcd/tls_trouble.h"
#include "tools/testbed/hosts/own_address.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPeriod{1};
constexpr milliseconds kLookPeriod{100};
// Longer than a supervisor gives its devices and then gpud.
constexpr std::chrono::seconds kEndOfOthers{15};

// Whether nobody else could end the lease of `record`: its supervisor was killed,
// or is this one, which has not heard that etcd took the record.
bool IsFree(const HostRecord& record) {
  return record.processes == OwnRecord().processes &&
         (!IsAlive(record.state.supervisor) ||
          record.state.supervisor == OwnIdentity());
}

// A lease that has ended by itself is as good.
absl::Status Revoke(mesh::Etcd& etcd, mesh::Etcd::LeaseId lease) {
  const absl::Status status = etcd.Revoke(lease);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// "a, b (with the GPU)", in the order of their names.
std::string HostsInWords(std::vector<std::string> names,
                         const std::string& gpu_host) {
  std::ranges::sort(names);
  for (std::string& name : names) {
    if (name == gpu_host) name += " (with the GPU)";
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HostsOf(const Topology& topology) {
  std::vector<std::string> names;
  for (const HostEntry& host : topology.hosts) names.push_back(host.name);
  return HostsInWords(std::move(names), topology.gpu_host);
}

std::string HostsOf(const HostRecord& record) {
  std::vector<std::string> names;
  std::string gpu_host;
  for (const HostPart::Host& host : record.state.hosts) {
    names.push_back(host.name);
    if (host.has_gpu) gpu_host = host.name;
  }
  return HostsInWords(std::move(names), gpu_host);
}

absl::StatusOr<bool> WantsDown(mesh::Etcd& etcd, const HostKeys& keys) {
  ASSIGN_OR_RETURN(const auto found, etcd.List(keys.want));
  const auto want = found.find(keys.want);
  return want != found.end() && want->second.value == kWantDown;
}

}  // namespace

TlsFiles MeshTls(const Topology& topology) {
  TlsFiles files;
  for (const Setting& setting : topology.mesh) {
    for (const auto& [key, path] :
         {std::pair("certificate", &files.certificate),
          std::pair("key", &files.key), std::pair("ca", &files.ca)}) {
      if (setting.option->key == key) *path = setting.text;
    }
  }
  return files;
}

absl::StatusOr<std::unique_ptr<mesh::Etcd>> OpenEtcd(const Topology& topology) {
  const TlsFiles files = MeshTls(topology);
  TlsPems pems;
  if (files.any()) {
    ASSIGN_OR_RETURN(pems, ReadTlsFiles(files, "mesh: tls: ca"));
  }
  // A host's certificate need not have its address.
  return mesh::Etcd::Make(topology.etcd, pems,
                          topology.own_etcd ? topology.gpu_host : "");
}

absl::Status HostIsUp(const Topology& topology, std::string_view place) {
  return WithHint(absl::AlreadyExistsError(fmt::format(
                      "host '{}' of testbed '{}' is up already ({})",
                      topology.part->host, topology.name, place)),
                  "carillon down -f FILE ends all hosts; one that was cut off "
                  "is gone after 6 s");
}

absl::Status CheckSameTestbed(
    const std::map<std::string, mesh::Etcd::Entry>& found,
    const Topology& topology) {
  const HostKeys keys(topology.name);
  std::optional<HostRecord> oldest;
  int64_t created = 0;
  for (const auto& [key, entry] : found) {
    if (!key.starts_with(keys.hosts)) continue;
    // What has no lease is of no supervisor.
    if (entry.lease == 0 || (oldest && entry.created > created)) continue;
    auto record = ReadHostRecord(entry.value, key);
    if (!record.ok()) continue;
    oldest = *std::move(record);
    created = entry.created;
  }
  if (!oldest) return absl::OkStatus();
  const std::string theirs = HostsOf(*oldest);
  const std::string ours = HostsOf(topology);
  if (theirs == ours) return absl::OkStatus();
  return WithHint(
      absl::FailedPreconditionError(fmt::format(
          "another testbed '{}' is up in etcd {}: its hosts are {}, and not {}",
          topology.name, fmt::join(topology.etcd, ", "), theirs, ours)),
      "give this one a name of its own, or use that one's file; one that was "
      "killed is gone after 6 s");
}

absl::Status ExplainSilence(const Topology& topology) {
  const std::string& url = topology.etcd[0];
  ASSIGN_OR_RETURN(const auto address,
                   ReadHostPort(url.substr(url.find("//") + 2)));
  return mesh::FindTlsTrouble(address, MeshTls(topology), topology.gpu_host);
}

absl::Status AwaitOwnEtcd(const Topology& topology, milliseconds patience,
                          const std::function<void(const std::string&)>& say,
                          const std::function<bool()>& stopped) {
  ASSIGN_OR_RETURN(const auto etcd, OpenEtcd(topology));
  const HostKeys keys(topology.name);
  const auto end = Clock::now() + patience;
  bool told = false;
  for (;;) {
    const absl::Status status = etcd->List(keys.want).status();
    if (!absl::IsUnavailable(status)) return status;
    if (stopped()) return absl::CancelledError("interrupted");
    // No waiting mends that.
    RETURN_IF_ERROR(ExplainSilence(topology));
    if (Clock::now() >= end) {
      return WithHint(status,
                      fmt::format("etcd: own is on host '{0}': carillon "
                                  "up --host {0} there",
                                  topology.gpu_host));
    }
    if (!std::exchange(told, true)) {
      say(fmt::format("waits for etcd, which host '{}' has",
                      topology.gpu_host));
    }
    std::this_thread::sleep_for(kLookPeriod);
  }
}

HostRegistration::HostRegistration(std::unique_ptr<mesh::Etcd> etcd,
                                   const Topology& topology, Options options)
    : etcd_(std::move(etcd)),
      keys_(topology.name),
      host_(topology.part->host),
      topology_(topology),
      options_(std::move(options)),
      record_(OwnRecord()) {
  record_.state.testbed = topology.name;
  record_.state.host = host_;
  record_.state.hosts = topology.part->hosts;
  record_.state.supervisor = OwnIdentity();
  if (!topology.part->has_gpu) return;
  for (const HostPart::Link& link : topology.part->links) {
    record_.links[link.peer] = link.address.ToString();
  }
}

absl::StatusOr<std::unique_ptr<HostRegistration>> HostRegistration::Take(
    Topology& topology, Options options) {
  ASSIGN_OR_RETURN(auto etcd, OpenEtcd(topology));
  HostPart& part = *topology.part;
  if (part.has_gpu) {
    RETURN_IF_ERROR(ChooseAddresses(topology.etcd[0], part.links));
  }
  std::unique_ptr<HostRegistration> taken(
      new HostRegistration(std::move(etcd), topology, std::move(options)));
  ASSIGN_OR_RETURN(const bool down, WantsDown(*taken->etcd_, taken->keys_));
  if (down) {
    return absl::FailedPreconditionError(
        fmt::format("testbed '{}' is being taken down: try again when carillon "
                    "hosts shows none",
                    topology.name));
  }
  std::string value;
  {
    MutexLock lock(taken->mutex_);
    value = ToText(taken->record_);
  }
  ASSIGN_OR_RETURN(const auto holder, taken->Register(value));
  if (!holder.empty()) {
    return HostIsUp(topology, holder);
  }
  taken->keeper_ = std::thread([self = taken.get()] { self->Keep(); });
  return taken;
}

absl::StatusOr<std::string> HostRegistration::Register(
    const std::string& value) {
  ASSIGN_OR_RETURN(const auto lease, etcd_->GrantLease(kHostLease));
  absl::Cleanup give_back = [&] { etcd_->Revoke(lease).IgnoreError(); };
  const auto put = [&] {
    return etcd_->PutNew(keys_.host(host_), value, lease);
  };
  ASSIGN_OR_RETURN(auto entry, put());
  const std::string what = fmt::format("etcd's key {}", keys_.host(host_));
  const auto other = ReadHostRecord(entry.value, what);
  if (entry.lease != lease && other.ok() && IsFree(*other)) {
    // This host need not wait for its lease to end.
    RETURN_IF_ERROR(entry.lease == 0 ? etcd_->Delete(keys_.host(host_))
                                     : Revoke(*etcd_, entry.lease));
    ASSIGN_OR_RETURN(entry, put());
  }
  // After the put, so that of two that come at once the later one sees the other.
  ASSIGN_OR_RETURN(const auto hosts, etcd_->List(keys_.hosts));
  RETURN_IF_ERROR(CheckSameTestbed(hosts, topology_));
  if (entry.lease != lease) {
    return other.ok() ? other->Place() : std::string(other.status().message());
  }
  std::move(give_back).Cancel();
  lease_ = lease;
  created_ = entry.created;
  return std::string();
}

HostRegistration::~HostRegistration() {
  if (!keeper_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  wake_.NotifyOne();
  keeper_.join();
  if (lease_ == 0 || !lost_.ok()) return;
  // If etcd does not answer, the lease ends by itself.
  const std::string last = keys_.last(host_);
  (failure_.empty()
       ? etcd_->Delete(last)
       : etcd_->Put(last, ToText(LastOfHost{record_.Place(), failure_})))
      .IgnoreError();
  etcd_->Revoke(lease_).IgnoreError();
}

void HostRegistration::Publish(const TestbedState& state) {
  {
    MutexLock lock(mutex_);
    record_.state = state;
    changed_ = true;
  }
  wake_.NotifyOne();
}

void HostRegistration::NoteFailure(const absl::Status& failure) {
  MutexLock lock(mutex_);
  failure_ = std::string(failure.message());
}

absl::Status HostRegistration::Judge() const {
  MutexLock lock(mutex_);
  return lost_;
}

absl::Status HostRegistration::AwaitGpu(HostPart& part, milliseconds patience,
                                        const std::function<bool()>& stopped) {
  if (part.has_gpu) return absl::OkStatus();
  const auto end = Clock::now() + patience;
  const std::string key = keys_.host(topology_.gpu_host);
  const std::string what = fmt::format("etcd's key {}", key);
  bool told = false;
  absl::Status trouble;
  for (;;) {
    const auto found = etcd_->List(key);
    trouble = found.status();
    if (found.ok() && found->contains(key)) {
      const auto record = ReadHostRecord(found->at(key).value, what);
      trouble = record.status();
      if (record.ok() && record->state.phase == Phase::kUp) {
        const auto address = record->links.find(host_);
        if (address == record->links.end()) {
          return absl::FailedPreconditionError(fmt::format(
              "host '{}' serves no link to '{}': is its topology another one?",
              topology_.gpu_host, host_));
        }
        ASSIGN_OR_RETURN(part.links[0].address,
                         ReadListenAddress(address->second));
        return absl::OkStatus();
      }
    }
    RETURN_IF_ERROR(Judge());
    if (stopped()) return absl::CancelledError("interrupted");
    if (Clock::now() >= end) {
      return absl::DeadlineExceededError(
          fmt::format("host '{}', which has the GPU, was not up within {}{}{}",
                      topology_.gpu_host, FormatSeconds(patience),
                      trouble.ok() ? "" : ": ", trouble.message()));
    }
    if (!std::exchange(told, true)) {
      options_.say(fmt::format("waits for host '{}', which has the GPU",
                               topology_.gpu_host));
    }
    std::this_thread::sleep_for(kLookPeriod);
  }
}

void HostRegistration::Keep() {
  bool away = false;
  MutexLock lock(mutex_);
  // What others read if nobody sees its end.
  std::string last = ToText(LastOfHost{record_.Place(), ""});
  while (!ending_ && lost_.ok()) {
    const bool changed = std::exchange(changed_, false);
    const std::string value = ToText(record_);
    lock.Unlock();
    absl::Status status = Look(changed, value);
    if (status.ok() && !last.empty()) {
      status = etcd_->Put(keys_.last(host_), last);
      if (status.ok()) last.clear();
    }
    if (!status.ok() && !away) {
      options_.say(fmt::format("{}; what runs goes on", status.message()));
    } else if (status.ok() && away) {
      options_.say("etcd answers again");
    }
    away = !status.ok();
    lock.Lock();
    if (away) changed_ |= changed;
    const auto next = Clock::now() + kPeriod;
    while (!ending_ && (!changed_ || away) && wake_.WaitUntil(mutex_, next)) {
    }
  }
}

absl::Status HostRegistration::Look(bool changed, const std::string& value) {
  absl::Status alive =
      lease_ == 0 ? absl::NotFoundError("") : etcd_->KeepAlive(lease_);
  if (alive.ok()) {
    ASSIGN_OR_RETURN(
        const bool mine,
        changed ? etcd_->Replace(keys_.host(host_), value, lease_, created_)
                : IsMine());
    // Somebody has removed it, whose lease lives.
    if (!mine) alive = absl::NotFoundError("");
  }
  if (absl::IsNotFound(alive)) {
    // etcd was away, or this host was, for longer than the lease.
    if (lease_ != 0) etcd_->Revoke(lease_).IgnoreError();
    lease_ = 0;
    ASSIGN_OR_RETURN(const auto holder, Register(value));
    if (!holder.empty()) {
      Lose(holder);
      return absl::OkStatus();
    }
    alive = absl::OkStatus();
  }
  RETURN_IF_ERROR(alive);
  ASSIGN_OR_RETURN(const bool down, WantsDown(*etcd_, keys_));
  if (!down || ended_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool may_end, MayEnd());
  if (may_end) {
    End("carillon down was called for all hosts");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> HostRegistration::IsMine() {
  const std::string key = keys_.host(host_);
  ASSIGN_OR_RETURN(const auto found, etcd_->List(key));
  const auto entry = found.find(key);
  return entry != found.end() && entry->second.created == created_;
}

absl::StatusOr<bool> HostRegistration::MayEnd() {
  if (host_ != topology_.gpu_host) return true;
  const auto now = Clock::now();
  if (!last_call_) last_call_ = now + kEndOfOthers;
  if (now >= *last_call_) return true;
  ASSIGN_OR_RETURN(const auto hosts, etcd_->List(keys_.hosts));
  // What has no lease is of no supervisor.
  return std::ranges::none_of(hosts, [&](const auto& one) {
    return one.first != keys_.host(host_) && one.second.lease != 0;
  });
}

void HostRegistration::Lose(const std::string& place) {
  const std::string why =
      fmt::format("host '{}' is another supervisor's now ({})", host_, place);
  {
    MutexLock lock(mutex_);
    lost_ = absl::AbortedError(why);
  }
  End(why);
}

void HostRegistration::End(const std::string& why) {
  if (std::exchange(ended_, true)) return;
  options_.say(why);
  options_.end();
}

}  // namespace carillon::testbed
