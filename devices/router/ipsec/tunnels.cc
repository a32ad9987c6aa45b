#include "devices/router/ipsec/tunnels.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/status.h"
#include "devices/router/ip_packet.h"
#include "kernels/ipsec/sa.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Fib;
using ipsec::Direction;
using ipsec::Sa;
using ipsec::Verdict;

// Policies are some routes: a small table for them.
constexpr uint32_t kFirstBits = 8;
constexpr std::chrono::seconds kWriteTime{10};
constexpr uint64_t kSlack = 16 << 10;

enum Counter : uint32_t {
  kEncrypted,
  kDecrypted,
  kUnknownSpi,
  kBadIcv,
  kReplayed,
  kBadPadding,
  kWrongSource,
  kBadInner,
  kDummy,
  kFragment,
  kNoSa,
  kExpired,
  kTooLarge,
  kExhausted,
  kMalformed,
  kUnprotected,
  kLost,
  kCounters
};

Counter CounterOf(Verdict verdict, Direction direction) {
  switch (verdict) {
    case Verdict::kDone:
      return direction == Direction::kOutbound ? kEncrypted : kDecrypted;
    case Verdict::kUnknownSpi:
      return kUnknownSpi;
    case Verdict::kBadIcv:
      return kBadIcv;
    case Verdict::kReplayed:
      return kReplayed;
    case Verdict::kBadPadding:
      return kBadPadding;
    case Verdict::kWrongSource:
      return kWrongSource;
    case Verdict::kBadInner:
      return kBadInner;
    case Verdict::kDummy:
      return kDummy;
    case Verdict::kFragment:
      return kFragment;
    case Verdict::kNoSa:
      return kNoSa;
    case Verdict::kExpired:
      return kExpired;
    case Verdict::kTooLarge:
      return kTooLarge;
    case Verdict::kSequenceExhausted:
      return kExhausted;
    case Verdict::kTruncated:
    case Verdict::kBadVersion:
    case Verdict::kBadLength:
    case Verdict::kBadChecksum:
    case Verdict::kNotEsp:
      return kMalformed;
    default:
      return kLost;
  }
}

forwarding::AddressBytes Copied(std::span<const std::byte> address) {
  forwarding::AddressBytes bytes{};
  std::memcpy(bytes.data(), address.data(), address.size());
  return bytes;
}

}  // namespace

std::vector<std::string> Tunnels::CounterNames() {
  return {"esp_encrypted",
          "esp_decrypted",
          "esp_drops_spi",
          "esp_drops_icv",
          "esp_drops_replayed",
          "esp_drops_padding",
          "esp_drops_source",
          "esp_drops_inner",
          "esp_drops_dummy",
          "esp_drops_fragment",
          "esp_drops_no_sa",
          "esp_drops_expired",
          "esp_drops_too_large",
          "esp_drops_exhausted",
          "esp_drops_malformed",
          "esp_drops_clear",
          "esp_lost"};
}

uint64_t Tunnels::SubmissionBytes(const SaTable& table, uint32_t batch,
                                  uint32_t ring) {
  return table.places.size() * sizeof(Sa) + kSlack +
         2 * (ForwardingTable::kSubmissionBytes +
              EspChannel::SubmissionBytes(batch, ring));
}

uint64_t Tunnels::CompletionBytes(uint32_t batch, uint32_t ring) {
  return kSlack + 2 * EspChannel::CompletionBytes(batch, ring);
}

Tunnels::Tunnels(const Options& options, SaTable table)
    : options_(options),
      table_(std::move(table)),
      highest_(table_.places.size(), 0),
      counters_(kCounters, 0) {}

absl::StatusOr<std::unique_ptr<Tunnels>> Tunnels::Make(
    edge::Device* device, const Options& options, SaTable table,
    const std::string& path) {
  std::unique_ptr<Tunnels> tunnels(new Tunnels(options, std::move(table)));
  std::vector<std::string> keys;
  for (const SaTable::Place& place : tunnels->table_.places) {
    keys.push_back(place.fingerprint);
    if (place.sa.direction != Direction::kInbound) continue;
    const auto local = std::as_bytes(
        std::span(place.sa.local).first(place.sa.family == 4 ? 4 : 16));
    tunnels->ends_.insert({local.begin(), local.end()});
  }
  ASSIGN_OR_RETURN(tunnels->numbers_, NumberStore::Open(path, std::move(keys)));
  for (size_t i = 0; i < tunnels->highest_.size(); ++i) {
    tunnels->highest_[i] = tunnels->numbers_->limit(i);
  }
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ASSIGN_OR_RETURN(
        Fib policies,
        tunnels->MakePolicies(family, family == Family::kIpv4
                                          ? tunnels->table_.policies4
                                          : tunnels->table_.policies6));
    tunnels->policies_.push_back(std::move(policies));
  }
  RETURN_IF_ERROR(tunnels->Register(device));
  RETURN_IF_ERROR(tunnels->Begin());
  return tunnels;
}

absl::StatusOr<Fib> Tunnels::MakePolicies(
    Family family, const std::vector<forwarding::Route>& routes) {
  // As many groups as prefixes can need that share none.
  const uint32_t groups = (forwarding::AddressBits(family) - kFirstBits) / 8 *
                          static_cast<uint32_t>(routes.size());
  Fib fib(family, std::max(groups, 1u), kFirstBits);
  RETURN_IF_ERROR(fib.Replace(routes));
  return fib;
}

absl::Status Tunnels::Register(edge::Device* device) {
  using edge::Place;
  const uint64_t bytes = table_.places.size() * sizeof(Sa);
  ASSIGN_OR_RETURN(sas_, device->AllocateBuffer(Place::kGpuMemory, bytes));
  ASSIGN_OR_RETURN(staging_, device->AllocateBuffer(Place::kInput, bytes));
  ASSIGN_OR_RETURN(
      writer_,
      edge::edgeRegisterEvent(
          *device,
          {.kernel = "sa_write",
           .block = {32, 1, 1},
           .max_in_flight = 1,
           .label = "SAs",
           .parameters = {edge::Fixed("from", staging_),
                          edge::Fixed("sas", sas_), edge::Constant("first", 0),
                          edge::Constant("count", table_.places.size())}}));
  for (const Fib& fib : policies_) {
    ASSIGN_OR_RETURN(auto table, ForwardingTable::Make(
                                     device, std::max(fib.groups_in_use(), 1u),
                                     kFirstBits, "policies"));
    policy_tables_.push_back(std::move(table));
  }
  EspChannel::Options options = {.direction = Direction::kOutbound,
                                 .batch = options_.batch,
                                 .ring = options_.ring,
                                 .priority = options_.priority,
                                 .first_bits = kFirstBits,
                                 .frames = options_.frames,
                                 .sas = &sas_,
                                 .policies4 = &policy_tables_[0]->buffer(),
                                 .policies6 = &policy_tables_[1]->buffer()};
  ASSIGN_OR_RETURN(encrypt_, EspChannel::Make(device, options));
  options.direction = Direction::kInbound;
  ASSIGN_OR_RETURN(decrypt_, EspChannel::Make(device, options));
  return absl::OkStatus();
}

absl::Status Tunnels::WriteSas() {
  // What gpud took for packets that never left: events in flight, each of which
  // it may have run twice.
  const uint64_t unseen = 2 * uint64_t{options_.ring} * options_.batch;
  for (size_t i = 0; i < table_.places.size(); ++i) {
    Sa sa = table_.places[i].sa;
    if (sa.direction == Direction::kOutbound) {
      const uint64_t number = numbers_->limit(i) + unseen;
      if (number >= std::numeric_limits<uint32_t>::max()) {
        return absl::ResourceExhaustedError(fmt::format(
            "the SA {:#x} has used all of its 2^32 numbers: it needs a new key",
            sa.spi));
      }
      // From here on they count as used, whatever happens.
      RETURN_IF_ERROR(numbers_->Cover(i, static_cast<uint32_t>(number)));
      ipsec::BeginAfter(static_cast<uint32_t>(number), &sa);
    } else if (sa.direction == Direction::kInbound) {
      ipsec::BeginAfter(highest_[i], &sa);
    }
    std::memcpy(staging_.bytes.data() + i * sizeof(sa), &sa, sizeof(sa));
    explicit_bzero(&sa, sizeof(sa));
  }
  writer_->RingDoorbell();
  const auto done = writer_->Wait(kWriteTime);
  // Other processes of this user can look into the aperture.
  explicit_bzero(staging_.bytes.data(), staging_.bytes.size());
  RETURN_IF_ERROR(done.status());
  writer_->Free();
  if (done->state == edge::EventState::kDone) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("the SAs were not written: status {}", done->status));
}

absl::Status Tunnels::Begin() {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto index = static_cast<size_t>(family);
    RETURN_IF_ERROR(policy_tables_[index]->Publish(policies_[index]));
  }
  return WriteSas();
}

absl::Status Tunnels::StartAnew() {
  // It may have written zeros, which are no SA.
  while (writer_->in_flight() > 0) {
    RETURN_IF_ERROR(writer_->Wait(kWriteTime).status());
    writer_->Free();
  }
  for (const auto& table : policy_tables_) RETURN_IF_ERROR(table->StartAnew());
  return Begin();
}

void Tunnels::TakeCompletions() {
  while (writer_->Poll()) writer_->Free();
  for (const auto& table : policy_tables_) table->TakeCompletions();
}

uint64_t Tunnels::OuterPorts(const SaTable& table, const RouteStore& routes) {
  uint64_t ports = 0;
  for (const SaTable::Place& place : table.places) {
    if (place.sa.direction != Direction::kOutbound) continue;
    forwarding::AddressBytes peer{};
    std::ranges::copy(place.sa.peer, peer.begin());
    const Family family = place.sa.family == 4 ? Family::kIpv4 : Family::kIpv6;
    const auto hop = routes.fib(family).Lookup(peer);
    if (!hop) {
      spdlog::warn(
          "no route leads to the peer of the SA {:#x}: nothing that comes in "
          "the "
          "clear from behind a peer is taken, from any port",
          place.sa.spi);
      ports = kAllPorts;
      continue;
    }
    const uint32_t port = routes.next_hops()[*hop].port[1];
    ports |= uint64_t{1} << port % 64;
  }
  return ports;
}

std::optional<uint32_t> Tunnels::PolicyOf(
    Family family, std::span<const std::byte> address) const {
  return policies_[static_cast<size_t>(family)].Lookup(Copied(address));
}

Tunnels::Way Tunnels::ClassifyInner(std::span<const std::byte> ip,
                                    Packet* packet) const {
  const auto addresses = ReadIpPacket(ip);
  if (!addresses) return Way::kForward;
  const auto sa = PolicyOf(addresses->family, addresses->destination);
  if (!sa) return Way::kForward;
  packet->sa = *sa;
  return Way::kEncrypt;
}

Tunnels::Way Tunnels::Classify(std::span<const std::byte> ip, Packet* packet) {
  const auto addresses = ReadIpPacket(ip);
  if (!addresses) return Way::kForward;
  if (addresses->protocol == ipsec::kProtocolEsp &&
      ends_.contains(
          {addresses->destination.begin(), addresses->destination.end()})) {
    return Way::kDecrypt;
  }
  if ((outer_ports_ >> packet->port % 64 & 1) != 0 &&
      PolicyOf(addresses->family, addresses->source)) {
    ++counters_[kUnprotected];
    return Way::kRefuse;
  }
  return ClassifyInner(ip, packet);
}

bool Tunnels::MayAnswer(std::span<const std::byte> ip) {
  const auto addresses = ReadIpPacket(ip);
  if (!addresses || !PolicyOf(addresses->family, addresses->source)) {
    return true;
  }
  ++counters_[kUnprotected];
  return false;
}

absl::StatusOr<bool> Tunnels::Pass(const EspResult& result,
                                   Direction direction) {
  if (result.verdict != Verdict::kDone) {
    ++counters_[CounterOf(result.verdict, direction)];
    return false;
  }
  const size_t place = direction == Direction::kOutbound
                           ? result.packet.sa
                           : result.spi % table_.places.size();
  const Sa& sa = table_.places[place].sa;
  // Another SA no kernel takes.
  if (sa.spi != result.spi || sa.direction != direction) {
    ++counters_[kLost];
    return false;
  }
  RETURN_IF_ERROR(numbers_->Cover(place, result.sequence));
  if (direction == Direction::kInbound) {
    highest_[place] = std::max(highest_[place], result.sequence);
  }
  ++counters_[CounterOf(Verdict::kDone, direction)];
  return true;
}

absl::Status Tunnels::Settle() {
  for (size_t i = 0; i < table_.places.size(); ++i) {
    if (table_.places[i].sa.direction != Direction::kInbound) continue;
    RETURN_IF_ERROR(numbers_->Settle(i, highest_[i]));
  }
  return absl::OkStatus();
}

std::string Tunnels::Describe() const {
  const auto count = [&](Direction direction) {
    return std::ranges::count_if(table_.places, [&](const auto& place) {
      return place.sa.direction == direction;
    });
  };
  return fmt::format("{} outbound and {} inbound SAs",
                     count(Direction::kOutbound), count(Direction::kInbound));
}

}  // namespace carillon::router
