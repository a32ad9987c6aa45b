#include "devices/link/link_server.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "devices/link/linkd_self.h"
#include "fmt/format.h"
#include "proto/link.pb.h"

namespace carillon::link {
namespace {

using mesh::RingId;
using shm::Sequence;
using std::chrono::milliseconds;

constexpr milliseconds kResumeWithin{20};
// How often linkd looks around while gpud is away, and else.
constexpr milliseconds kAwayLook{50};
constexpr milliseconds kLook{500};
constexpr Nanoseconds kShow = 100'000'000;
// Of the ends of all rings that the other host may not have stored.
constexpr uint64_t kMaxLinkKeptBytes = 1 << 30;

}  // namespace

absl::StatusOr<std::unique_ptr<LinkServer>> LinkServer::Start(
    const edge::DeviceContext& context, const LinkdOptions& options) {
  std::unique_ptr<LinkServer> server(new LinkServer(context, options));
  // Before the other host can ask for devices.
  ASSIGN_OR_RETURN(server->self_, AttachSelf(context, /*simulated=*/false));
  ASSIGN_OR_RETURN(const mesh::FarLink::Settings settings,
                   SettingsOf(context, options, server->self_->catalogue()));
  ASSIGN_OR_RETURN(server->link_, mesh::FarLink::Start(settings, server.get()));
  server->catalogue_ = server->self_->catalogue();
  const std::string note =
      fmt::format("for host {} on {}", options.peer, server->link_->address());
  spdlog::info("serves {}", note);
  RETURN_IF_ERROR(server->self_->ReportReady(note));
  server->calls_ = std::thread([self = server.get()] { self->WorkOff(); });
  return server;
}

LinkServer::~LinkServer() {
  {
    MutexLock lock(jobs_mutex_);
    stop_ = true;
    jobs_changed_.NotifyAll();
  }
  if (calls_.joinable()) calls_.join();
  link_.reset();
}

void LinkServer::AddJob(Job job) {
  MutexLock lock(jobs_mutex_);
  jobs_.push_back(std::move(job));
  jobs_changed_.NotifyAll();
}

void LinkServer::WorkOff() {
  MutexLock lock(jobs_mutex_);
  while (!stop_) {
    if (jobs_.empty()) {
      jobs_changed_.Wait(jobs_mutex_);
      continue;
    }
    std::optional<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.Unlock();
    if (const auto* const wanted = std::get_if<RingToMake>(&*job)) {
      Make(*wanted);
    } else {
      Drop(std::get<RingToDrop>(*job));
    }
    // Its last ring ends a device, which is a call to gpud, too.
    job.reset();
    lock.Lock();
  }
}

absl::StatusOr<std::shared_ptr<LinkServer::Client>> LinkServer::ClientOf(
    const std::string& name) {
  if (name == context_.name) {
    return absl::AlreadyExistsError(fmt::format(
        "device '{}' of this host is linkd itself: give it another --name",
        name));
  }
  // This thread alone changes clients_.
  const auto found = clients_.find(name);
  if (found != clients_.end()) return found->second;
  auto device = edge::Device::Attach(
      {.testbed_directory = context_.directory, .name = name, .kind = "link"});
  if (absl::IsAlreadyExists(device.status())) {
    // Perhaps that of a linkd that was killed, and gpud has not ended it yet.
    return absl::UnavailableError(device.status().message());
  }
  if (absl::IsUnavailable(device.status())) {
    return absl::UnavailableError(
        fmt::format("{}: {}", Away().message(), device.status().message()));
  }
  if (!device.ok()) return device.status();
  RETURN_IF_ERROR((*device)->ReportReady(
      fmt::format("a device of host {}", options_.peer)));
  auto client = std::make_shared<Client>();
  client->device = *std::move(device);
  link_->With([&](mesh::FarEnd&) { clients_[name] = client; });
  changed_.Ring();
  return client;
}

void LinkServer::Make(const RingToMake& wanted) {
  bool is_wanted = false;
  link_->With([&](mesh::FarEnd&) {
    const auto found = rings_.find(wanted.id);
    is_wanted = found != rings_.end() && found->second.serial == wanted.serial;
  });
  if (!is_wanted) return;
  absl::Status status;
  RingToDrop made{.client = nullptr, .ring = nullptr};
  if (auto client = ClientOf(wanted.wanted.device()); client.ok()) {
    made.client = *std::move(client);
    ++made.client->rings;
    auto ring = LinkedRing::Make(*made.client->device, wanted.wanted,
                                 wanted.limits, wanted.last);
    status = ring.status();
    if (ring.ok()) made.ring = *std::move(ring);
  } else {
    status = client.status();
  }
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::UnavailableError(status.message());
  }
  link_->With([&](mesh::FarEnd& far) {
    const auto found = rings_.find(wanted.id);
    if (found == rings_.end() || found->second.serial != wanted.serial) return;
    if (status.ok() && made.client->ended) status = Away();
    if (status.ok()) {
      found->second.client = std::exchange(made.client, nullptr);
      found->second.ring = std::move(made.ring);
      far.Made(wanted.id, wanted.serial);
      return;
    }
    kept_bytes_ -= found->second.kept_bytes;
    rings_.erase(found);
    far.GiveUp(wanted.id, wanted.serial, status);
  });
  if (made.client != nullptr) Drop(made);
}

void LinkServer::Drop(const RingToDrop& dropped) {
  Client& client = *dropped.client;
  if (dropped.link_lost) {
    link_->With([&](mesh::FarEnd&) { client.ended = true; });
    client.device->DetachAsLinkLost();
  }
  if (--client.rings > 0) {
    if (dropped.ring != nullptr && client.device->status().ok()) {
      dropped.ring->Unregister(*client.device);
    }
    return;
  }
  // The device's end is the end of its rings, and waits for none of them.
  link_->With([&](mesh::FarEnd&) {
    std::erase_if(clients_, [&](const auto& entry) {
      return entry.second == dropped.client;
    });
  });
}

absl::Status LinkServer::Away() const {
  return absl::UnavailableError(
      fmt::format("gpud of host {} is away", options_.host));
}

std::optional<absl::Status> LinkServer::MakeRing(RingId id,
                                                 mesh::RingSerial serial,
                                                 const mesh::RingLimits& limits,
                                                 Sequence last) {
  v1::LinkRing wanted;
  if (!wanted.ParseFromString(limits.purpose)) {
    return absl::InvalidArgumentError("what the ring is for cannot be read");
  }
  const auto kept = LinkedRing::KeptBytes(wanted, limits);
  if (!kept.ok()) return kept.status();
  if (*kept > kMaxLinkKeptBytes - kept_bytes_) {
    return absl::ResourceExhaustedError(fmt::format(
        "the link's rings may keep {} bytes of ends, of which {} are left, and "
        "this one needs {}",
        kMaxLinkKeptBytes, kMaxLinkKeptBytes - kept_bytes_, *kept));
  }
  kept_bytes_ += *kept;
  rings_[id] = {.serial = serial, .kept_bytes = *kept};
  AddJob(RingToMake{id, serial, std::move(wanted), limits, last});
  return std::nullopt;
}

void LinkServer::RunEvent(RingId id, Sequence, std::string_view event) {
  rings_.at(id).ring->Run(event);
}

void LinkServer::FlushRuns(RingId id) { rings_.at(id).ring->Ring(); }

mesh::End LinkServer::ReadEnd(RingId id, Sequence number, std::string* output) {
  return rings_.at(id).ring->ReadEnd(number, output);
}

void LinkServer::Free(RingId id, Sequence last) {
  rings_.at(id).ring->Free(last);
}

void LinkServer::DropRing(RingId id, mesh::GoneReason why) {
  const auto found = rings_.find(id);
  if (found == rings_.end()) return;
  Linked linked = std::move(found->second);
  rings_.erase(found);
  kept_bytes_ -= linked.kept_bytes;
  // What is not made will not be.
  if (linked.ring == nullptr) {
    MutexLock lock(jobs_mutex_);
    std::erase_if(jobs_, [&](const Job& job) {
      const auto* const wanted = std::get_if<RingToMake>(&job);
      return wanted != nullptr && wanted->id == id &&
             wanted->serial == linked.serial;
    });
    return;
  }
  AddJob(RingToDrop{
      .client = std::move(linked.client),
      .ring = std::move(linked.ring),
      // A host that is there anew has given up the link before: whether it was
      // lost to it alone, or a gpud of it died.
      .link_lost = why != mesh::GoneReason::kClosed});
}

void LinkServer::LookAfter(const std::string& name, Client& client,
                           mesh::FarEnd& far) {
  const absl::Status status = client.device->status();
  if (client.ended || status.ok()) return;
  client.ended = true;
  spdlog::warn("{}: {}", name, std::string(status.message()));
  const absl::Status why = client.device->may_resume()
                               ? Away()
                               : absl::AbortedError(status.message());
  std::vector<std::pair<RingId, mesh::RingSerial>> gone;
  for (const auto& [id, linked] : rings_) {
    if (linked.client.get() == &client) gone.emplace_back(id, linked.serial);
  }
  for (const auto& [id, serial] : gone) {
    far.GiveUp(id, serial, why);
    DropRing(id, mesh::GoneReason::kClosed);
  }
}

absl::Status LinkServer::LookAfterSelf() {
  const absl::Status status = self_->status();
  if (status.ok() && !self_away_) return status;
  if (!self_away_ && !self_->may_resume()) return status;
  if (!std::exchange(self_away_, true)) {
    spdlog::warn("{}; waiting for another gpud", std::string(status.message()));
  }
  const absl::Status resumed = self_->Resume(kResumeWithin);
  // A busy machine's gpud may take longer than a call has.
  if (absl::IsUnavailable(resumed) || absl::IsDeadlineExceeded(resumed)) {
    return absl::OkStatus();
  }
  if (!resumed.ok()) return resumed;
  self_away_ = false;
  spdlog::info("another gpud has taken over");
  // The other host was told which one there is.
  if (self_->catalogue() != catalogue_) {
    return absl::UnavailableError(
        fmt::format("this gpud has {}, and the one before had {}: start linkd "
                    "again",
                    self_->catalogue(), catalogue_));
  }
  return absl::OkStatus();
}

bool LinkServer::TakeCompletions(mesh::FarEnd& far) {
  bool some = false;
  for (auto& [id, linked] : rings_) {
    if (linked.ring == nullptr || !linked.ring->TakeCompletions()) continue;
    some = true;
    far.Done(id, linked.serial, linked.ring->done());
  }
  return some;
}

absl::Status LinkServer::Run() {
  std::vector<pollfd> fds;
  Nanoseconds shown_ns = 0;
  while (!context_.stop.requested()) {
    RETURN_IF_ERROR(LookAfterSelf());
    // While they are armed, each of what completes costs gpud a call of the
    // system: they are not while there is more to take.
    link_->With([&](mesh::FarEnd& far) {
      for (auto& [name, client] : clients_) {
        LookAfter(name, *client, far);
        if (!client->ended) client->device->DisarmCompletionFd();
      }
      TakeCompletions(far);
    });
    fds.assign({{context_.stop.fd(), POLLIN, 0}, {changed_.fd(), POLLIN, 0}});
    if (!self_away_) fds.push_back({self_->connection_fd(), POLLIN, 0});
    bool more = false;
    link_->With([&](mesh::FarEnd& far) {
      for (auto& [name, client] : clients_) {
        if (client->ended) continue;
        // What has completed before is taken below; what completes later wakes.
        client->device->ArmCompletionFd();
        // One that is closed meanwhile wakes for nothing.
        fds.push_back({client->device->completion_fd(), POLLIN, 0});
        fds.push_back({client->device->connection_fd(), POLLIN, 0});
      }
      more = TakeCompletions(far);
    });
    if (const Nanoseconds now = NowNs();
        !self_away_ && now - shown_ns >= kShow) {
      shown_ns = now;
      figures_.Show(link_->status(), *self_);
    }
    if (more) continue;
    const milliseconds look = self_away_ ? kAwayLook : kLook;
    poll(fds.data(), fds.size(), static_cast<int>(look.count()));
    if (fds[1].revents != 0) changed_.Clear();
  }
  return absl::CancelledError("stopped");
}

}  // namespace carillon::link
