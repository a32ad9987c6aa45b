#include "devices/link/link_server.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "proto/link.pb.h"

namespace carillon::link {
namespace {

using mesh::RingId;
using shm::Sequence;
using std::chrono::milliseconds;

// While the link's lock is held, which the other host notices after a second.
constexpr milliseconds kAttachWithin{300};
constexpr milliseconds kResumeWithin{20};
constexpr milliseconds kStartLook{50};
// How often a device whose gpud is away is looked after, and any other one.
constexpr milliseconds kAwayLook{50};
constexpr milliseconds kLook{500};

uint64_t NewIncarnation() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkServer>> LinkServer::Start(
    const edge::DeviceContext& context, const LinkdOptions& options) {
  std::unique_ptr<LinkServer> server(new LinkServer(context, options));
  // Before the other host can ask for devices.
  std::string said;
  edge::Device* self = nullptr;
  for (;;) {
    if (context.stop.requested()) return absl::CancelledError("stopped");
    auto device = server->Attach(context.name, kAttachWithin);
    if (device.ok()) {
      self = device->get();
      server->clients_[context.name] = {.device = *std::move(device)};
      break;
    }
    // The session of a linkd that was killed may be there still.
    if (!absl::IsUnavailable(device.status()) &&
        !absl::IsAlreadyExists(device.status())) {
      return device.status();
    }
    if (said != device.status().message()) {
      said = std::string(device.status().message());
      spdlog::info("{}; waiting for gpud", said);
    }
    std::this_thread::sleep_for(kStartLook);
  }
  ASSIGN_OR_RETURN(server->link_,
                   mesh::TlsFarLink::Start(
                       {.tls = options.tls,
                        .address = options.listen,
                        .link = {.self = {.testbed = options.testbed,
                                          .host = options.host,
                                          .build = {},
                                          .catalogue = {},
                                          .incarnation = NewIncarnation()},
                                 .peer = options.peer,
                                 .times = {}}},
                       server.get()));
  const std::string note =
      fmt::format("for host {} on {}", options.peer, server->link_->address());
  spdlog::info("serves {}", note);
  RETURN_IF_ERROR(self->ReportReady(note));
  return server;
}

LinkServer::~LinkServer() { link_.reset(); }

absl::StatusOr<std::unique_ptr<edge::Device>> LinkServer::Attach(
    const std::string& name, milliseconds within) const {
  return edge::Device::Attach({.testbed_directory = context_.directory,
                               .name = name,
                               .kind = "link",
                               .timeout = within});
}

absl::StatusOr<LinkServer::Client*> LinkServer::ClientOf(
    const std::string& name) {
  const auto found = clients_.find(name);
  if (found != clients_.end()) {
    Client& client = found->second;
    if (name == context_.name) {
      return absl::AlreadyExistsError(fmt::format(
          "device '{}' of this host is linkd itself: give it another --name",
          name));
    }
    if (!client.ended.ok()) return client.ended;
    if (client.away) {
      return absl::UnavailableError(
          fmt::format("gpud of host {} is away", options_.host));
    }
    return &client;
  }
  ASSIGN_OR_RETURN(auto device, Attach(name, kAttachWithin));
  RETURN_IF_ERROR(
      device->ReportReady(fmt::format("a device of host {}", options_.peer)));
  changed_.Ring();
  Client& client = clients_[name];
  client.device = std::move(device);
  return &client;
}

void LinkServer::DropIfUnused(Client* client) {
  if (client->rings > 0) return;
  std::erase_if(clients_,
                [&](const auto& entry) { return &entry.second == client; });
}

absl::Status LinkServer::MakeRing(RingId id, mesh::RingSerial serial,
                                  const mesh::RingLimits& limits,
                                  Sequence last) {
  v1::LinkRing wanted;
  if (!wanted.ParseFromString(limits.purpose)) {
    return absl::InvalidArgumentError("what the ring is for cannot be read");
  }
  ASSIGN_OR_RETURN(Client * client, ClientOf(wanted.device()));
  auto ring = LinkedRing::Make(*client->device, wanted, limits, last);
  if (!ring.ok()) {
    DropIfUnused(client);
    return ring.status();
  }
  ++client->rings;
  rings_[id] = {serial, client, *std::move(ring)};
  return absl::OkStatus();
}

void LinkServer::Run(RingId id, Sequence, std::string_view event) {
  Linked& linked = rings_.at(id);
  const bool may_ring = !linked.client->away && linked.client->ended.ok();
  linked.ring->Run(event, may_ring);
  // Somebody has to say that it is done.
  if (!linked.client->ended.ok()) changed_.Ring();
}

mesh::End LinkServer::ReadEnd(RingId id, Sequence number, std::string* output) {
  return rings_.at(id).ring->ReadEnd(number, output);
}

void LinkServer::Free(RingId id, Sequence last) {
  rings_.at(id).ring->Free(last);
}

void LinkServer::DropRing(RingId id, mesh::GoneReason) {
  const auto found = rings_.find(id);
  if (found == rings_.end()) return;
  Client* const client = found->second.client;
  --client->rings;
  // The device's end is the end of its rings, and waits for none of them.
  if (client->rings > 0 && client->ended.ok() && !client->away) {
    found->second.ring->Unregister(*client->device);
  }
  rings_.erase(found);
  DropIfUnused(client);
}

void LinkServer::LookAfter(const std::string& name, Client& client) {
  if (!client.ended.ok()) return;
  const absl::Status status = client.device->status();
  if (status.ok() && !client.away) return;
  // Resume() wants what has completed to be taken.
  for (auto& [id, linked] : rings_) {
    if (linked.client == &client) linked.ring->TakeCompletions();
  }
  if (!client.away && client.device->may_resume()) {
    spdlog::warn("{}: {}; waiting for another gpud", name,
                 std::string(status.message()));
    client.away = true;
  }
  absl::Status resumed = status;
  if (client.away) {
    resumed = client.device->Resume(kResumeWithin);
    // A busy machine's gpud may take longer than a call has.
    if (absl::IsUnavailable(resumed) || absl::IsDeadlineExceeded(resumed)) {
      return;
    }
  }
  if (resumed.ok()) {
    client.away = false;
    spdlog::info("{}: another gpud has taken over", name);
    for (auto& [id, linked] : rings_) {
      if (linked.client == &client) linked.ring->RingWaiting();
    }
    return;
  }
  spdlog::error("{}: {}", name, std::string(resumed.message()));
  client.ended = resumed;
}

void LinkServer::TakeCompletions(mesh::FarEnd& far) {
  for (auto& [id, linked] : rings_) {
    if (!linked.client->ended.ok()) {
      linked.ring->Abort();
    } else if (!linked.client->away) {
      linked.ring->RingWaiting();
      linked.ring->TakeCompletions();
    }
    far.Done(id, linked.serial, linked.ring->done());
  }
}

absl::Status LinkServer::Run() {
  absl::Status ended;
  while (!context_.stop.requested()) {
    std::vector<pollfd> fds = {{context_.stop.fd(), POLLIN, 0},
                               {changed_.fd(), POLLIN, 0}};
    milliseconds look = kLook;
    changed_.Clear();
    link_->With([&](mesh::FarEnd& far) {
      for (auto& [name, client] : clients_) LookAfter(name, client);
      for (auto& [name, client] : clients_) {
        if (client.away) look = kAwayLook;
        if (client.away || !client.ended.ok()) continue;
        // What has completed before is taken below; what completes later wakes.
        client.device->DisarmCompletionFd();
        client.device->ArmCompletionFd();
        fds.push_back({client.device->completion_fd(), POLLIN, 0});
        fds.push_back({client.device->connection_fd(), POLLIN, 0});
      }
      TakeCompletions(far);
      ended = clients_.at(context_.name).ended;
    });
    if (!ended.ok()) return ended;
    poll(fds.data(), fds.size(), static_cast<int>(look.count()));
  }
  return absl::CancelledError("stopped");
}

}  // namespace carillon::link
