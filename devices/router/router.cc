#include "devices/router/router.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Verdict;

constexpr std::chrono::seconds kEventTime{10};
constexpr uint64_t kSlack = 64 << 10;
// From so many routes on, a first level of 24 bits is worth its 128 MiB.
constexpr size_t kManyRoutes = 10'000;
// Packets between two looks at what has ended.
constexpr uint64_t kPacketsPerLook = 32;

}  // namespace

std::vector<std::string> Router::CounterNames() {
  return {"lost",
          "forwarded",
          "drops_descriptor",
          "drops_truncated",
          "drops_version",
          "drops_length",
          "drops_checksum",
          "drops_martian",
          "drops_not_unicast",
          "drops_options",
          "drops_no_route",
          "drops_expired",
          "drops_too_large",
          "drops_bad_table",
          "packets",
          "not_ip",
          "drops_oversized",
          "events_failed"};
}

absl::StatusOr<std::unique_ptr<Router>> Router::Start(
    const edge::DeviceContext& context, const RouterOptions& options) {
  RETURN_IF_ERROR(Check(options));
  for (const std::string& read : {options.routes, options.from}) {
    std::error_code not_there;
    if (std::filesystem::equivalent(read, options.to, not_there)) {
      return absl::InvalidArgumentError(fmt::format(
          "--to {} would overwrite the file that is read", options.to));
    }
  }
  std::unique_ptr<Router> router(new Router(context, options));
  ASSIGN_OR_RETURN(const Routes routes, ReadRoutes(options.routes));
  ASSIGN_OR_RETURN(router->reader_, PcapReader::Open(options.from));
  ASSIGN_OR_RETURN(router->writer_, PcapWriter::Open(options.to));
  RETURN_IF_ERROR(router->Attach(routes.next_hops.size()));
  if (!routes.next_hops.empty()) {
    std::memcpy(router->next_hops_.bytes.data(), routes.next_hops.data(),
                routes.next_hops.size() * sizeof(forwarding::NextHop));
  }
  RETURN_IF_ERROR(router->AddTable(Family::kIpv4, routes.ipv4));
  RETURN_IF_ERROR(router->AddTable(Family::kIpv6, routes.ipv6));
  const std::string note = fmt::format(
      "{} IPv4 and {} IPv6 routes, {} next hops", routes.ipv4.size(),
      routes.ipv6.size(), routes.next_hops.size());
  RETURN_IF_ERROR(router->device_->ReportReady(note));
  spdlog::info("forwarding by {}", note);
  return router;
}

absl::Status Router::Attach(uint64_t next_hops) {
  const uint64_t hop_bytes =
      std::max<uint64_t>(next_hops, 1) * sizeof(forwarding::NextHop);
  edge::AttachOptions attach;
  attach.testbed_directory = context_.directory;
  attach.name = context_.name;
  attach.kind = "router";
  attach.submission_bytes =
      hop_bytes + kSlack +
      2 * (ForwardingTable::kSubmissionBytes +
           ForwardChannel::SubmissionBytes(options_.batch, options_.ring));
  attach.completion_bytes = kSlack + 2 * ForwardChannel::CompletionBytes(
                                             options_.batch, options_.ring);
  attach.counter_names = CounterNames();
  ASSIGN_OR_RETURN(device_, edge::Device::Attach(attach));
  ASSIGN_OR_RETURN(next_hops_,
                   device_->AllocateBuffer(edge::Place::kInput, hop_bytes));
  return absl::OkStatus();
}

absl::Status Router::AddTable(Family family,
                              const std::vector<forwarding::Route>& routes) {
  const auto index = static_cast<size_t>(family);
  const uint32_t first_bits = routes.size() >= kManyRoutes ? 24 : 16;
  forwarding::Fib fib(family, forwarding::kMaxGroups, first_bits);
  RETURN_IF_ERROR(fib.Replace(routes));
  ASSIGN_OR_RETURN(
      tables_[index],
      ForwardingTable::Make(device_.get(), fib.groups_in_use(), first_bits));
  RETURN_IF_ERROR(tables_[index]->Publish(fib));
  ASSIGN_OR_RETURN(
      channels_[index],
      ForwardChannel::Make(device_.get(), {.family = family,
                                           .batch = options_.batch,
                                           .ring = options_.ring,
                                           .priority = options_.priority,
                                           .first_bits = first_bits,
                                           .table = &tables_[index]->buffer(),
                                           .next_hops = &next_hops_}));
  return absl::OkStatus();
}

absl::Status Router::Run(const edge::StopRequest& stop) {
  absl::Status status = Forward(stop);
  PublishCounters();
  status.Update(writer_->Flush());
  spdlog::info("{} packets, {} forwarded", counts_[kPackets],
               counts_[static_cast<uint32_t>(Verdict::kForward)]);
  RETURN_IF_ERROR(status);
  if (counts_[kEventsFailed] == 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} events failed", counts_[kEventsFailed]));
}

absl::Status Router::Forward(const edge::StopRequest& stop) {
  absl::Status read;
  while (!stop.requested()) {
    const auto packet = reader_->Next();
    read = packet.status();
    if (!read.ok() || !*packet) break;
    RETURN_IF_ERROR(PlacePacket(**packet));
    if (counts_[kPackets] % kPacketsPerLook == 0) TakeResults();
  }
  // What came before a torn end of the file goes out.
  RETURN_IF_ERROR(Drain());
  return read;
}

absl::Status Router::PlacePacket(const CapturedPacket& packet) {
  ++counts_[kPackets];
  if (!packet.family) {
    ++counts_[kNotIp];
    return absl::OkStatus();
  }
  if (packet.ip.size() > kPacketBytes) {
    ++counts_[kOversized];
    return absl::OkStatus();
  }
  ForwardChannel& channel = *channels_[static_cast<size_t>(*packet.family)];
  while (!channel.CanPlace()) {
    RETURN_IF_ERROR(channel.Wait(kEventTime));
    TakeResults();
  }
  channel.Place(packet.ip, packet.time);
  return absl::OkStatus();
}

absl::Status Router::Drain() {
  for (const auto& channel : channels_) {
    channel->Ring();
    while (channel->in_flight() > 0) {
      RETURN_IF_ERROR(channel->Wait(kEventTime));
      TakeResults();
    }
  }
  return absl::OkStatus();
}

void Router::TakeResults() {
  for (const auto& channel : channels_) {
    counts_[kEventsFailed] += channel->TakeResults(
        [this](const Forwarded& packet) { Finish(packet); });
  }
  PublishCounters();
}

void Router::Finish(const Forwarded& packet) {
  const auto verdict = static_cast<uint32_t>(packet.verdict);
  ++counts_[verdict];
  if (packet.verdict != Verdict::kForward) return;
  frame_.assign(packet.header.begin(), packet.header.end());
  frame_.insert(frame_.end(), packet.rest.begin(), packet.rest.end());
  writer_->Write(frame_, packet.time);
}

void Router::PublishCounters() {
  for (uint32_t i = 0; i < kCounters; ++i) device_->SetCounter(i, counts_[i]);
}

}  // namespace carillon::router
