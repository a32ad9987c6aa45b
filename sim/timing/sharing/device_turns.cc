#include "sim/timing/sharing/device_turns.h"

#include <algorithm>

namespace carillon::sim::timing {
namespace {

// Accounts of devices that are away; more are forgotten.
constexpr size_t kMostAccounts = 256;

const DeviceTurns::Party* Find(std::span<const DeviceTurns::Party> parties,
                               DeviceTurns::Device device) {
  const auto found =
      std::ranges::find(parties, device, &DeviceTurns::Party::device);
  return found == parties.end() ? nullptr : &*found;
}

}  // namespace

DeviceTurns::Account& DeviceTurns::AccountOf(Device device) {
  const auto found = std::ranges::find(accounts_, device, &Account::device);
  if (found != accounts_.end()) return *found;
  return accounts_.emplace_back(Account{.device = device, .used = floor_});
}

void DeviceTurns::Charge(uint64_t now, std::span<const Party> parties) {
  if (!owner_) return;
  Account& account = AccountOf(*owner_);
  // One that has nothing any more held the GPU until now all the same.
  const Party* const party = Find(parties, *owner_);
  if (party != nullptr) account.weight = std::max(party->weight, 1u);
  account.used += (now - charged_) * kUnit / account.weight;
  charged_ = now;
}

bool DeviceTurns::Advance(uint64_t now, std::span<const Party> parties) {
  Charge(now, parties);
  // Time that nobody else wanted is not paid back.
  if (owner_ && !others_waited_) {
    floor_ = std::max(floor_, AccountOf(*owner_).used);
  }
  const auto others_wait = [&] {
    return std::ranges::any_of(parties, [&](const Party& party) {
      return party.waits && party.device != owner_;
    });
  };
  others_waited_ = others_wait();
  const Party* const owner = owner_ ? Find(parties, *owner_) : nullptr;
  may_begin_ = true;
  if (owner != nullptr) {
    const uint64_t quantum = quantum_ * std::max(owner->weight, 1u);
    may_begin_ = !others_waited_ || now - began_ < quantum;
    if (owner->begun || (owner->waits && may_begin_)) return false;
  }
  // Who has been away begins where the others are: idling saves nothing up.
  uint64_t least = 0;
  const Party* next = nullptr;
  for (const Party& party : parties) {
    Account& account = AccountOf(party.device);
    account.used = std::max(account.used, floor_);
    account.weight = std::max(party.weight, 1u);
    // Of equals, the first that has not had it just now.
    const bool better = next == nullptr || account.used < least ||
                        (account.used == least && next->device == owner_);
    if (!party.waits || !better) continue;
    least = account.used;
    next = &party;
  }
  const bool begun = std::ranges::any_of(parties, &Party::begun);
  const std::optional<Device> before = owner_;
  owner_.reset();
  may_begin_ = false;
  if (next != nullptr && !begun) {
    owner_ = next->device;
    others_waited_ = others_wait();
    may_begin_ = true;
    began_ = charged_ = now;
    floor_ = least;
    // Those of no effect any more.
    const bool crowded = accounts_.size() > kMostAccounts;
    std::erase_if(accounts_, [&](const Account& account) {
      return (account.used <= floor_ || crowded) &&
             Find(parties, account.device) == nullptr;
    });
  }
  return owner_ != before;
}

}  // namespace carillon::sim::timing
