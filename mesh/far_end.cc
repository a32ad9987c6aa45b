#include "mesh/far_end.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace carillon::mesh {

using shm::Sequence;

namespace {

Close RefusalOf(RingId ring, const absl::Status& why) {
  // Without a reason it would be an answer.
  return {
      ring,
      why.message().empty() ? "there is no place" : std::string(why.message()),
      absl::IsUnavailable(why)};
}

}  // namespace

FarEnd::FarEnd(LinkOptions options, FarHost* host, Nanoseconds now)
    : options_(std::move(options)),
      host_(host),
      alive_(now),
      pulse_(options_.times, now) {}

std::variant<Epoch, Refusal> FarEnd::Accept(const Hello& hello, Nanoseconds now,
                                            const std::string& from) {
  const absl::Status expected = CheckHello(options_, hello);
  if (!expected.ok()) {
    return Refusal{RefusalCode::kOther, std::string(expected.message())};
  }
  if (hello.incarnation < incarnation_) {
    return Refusal{
        RefusalCode::kOldIncarnation,
        fmt::format("host {} of incarnation {} has come after the one of {}"
                    "{}{}: the older one no longer serves; if these are two "
                    "machines, give each a name of its own",
                    hello.host, incarnation_, hello.incarnation,
                    from_.empty() ? "" : ", ", from_)};
  }
  if (hello.incarnation == incarnation_ && lost_) return *lost_;
  // What the network has kept back must not take the newer one's place.
  if (hello.incarnation == incarnation_ && hello.connection <= connection_) {
    return Refusal{RefusalCode::kOther,
                   "a newer connection of this host has come"};
  }
  if (hello.incarnation > incarnation_) {
    DropAll(GoneReason::kFenced);
    from_ = from;
  }
  connection_ = hello.connection;
  incarnation_ = hello.incarnation;
  lost_.reset();
  ++epoch_;
  open_ = true;
  said_hello_ = heard_all_ = false;
  for (auto& [ring, state] : rings_) state.named = state.answered = false;
  closed_.clear();
  given_up_.clear();
  decoder_ = {};
  splitter_.Clear();
  joiner_.Clear();
  pulse_.Restart(now);
  alive_ = now;
  return epoch_;
}

void FarEnd::Cut(Epoch epoch) {
  if (epoch == epoch_) open_ = false;
}

absl::Status FarEnd::Receive(Epoch epoch, std::string_view bytes,
                             Nanoseconds now) {
  if (!open_ || epoch != epoch_ || bytes.empty()) return absl::OkStatus();
  pulse_.Hear(now);
  alive_ = now;
  decoder_.Append(bytes);
  while (open_) {
    const auto next = decoder_.Next();
    if (next.ok() && !next->has_value()) break;
    const absl::Status status = next.ok() ? Take(**next, now) : next.status();
    if (status.ok()) continue;
    Lose(GoneReason::kBroken,
         fmt::format("host {} of incarnation {} has broken a rule: {}",
                     options_.peer, incarnation_, status.message()));
    return status;
  }
  return absl::OkStatus();
}

absl::Status FarEnd::Take(const Frame& frame, Nanoseconds now) {
  if (const auto* ring = std::get_if<Ring>(&frame)) return TakeRing(*ring);
  if (const auto* events = std::get_if<Events>(&frame)) {
    return TakeEvents(*events);
  }
  if (const auto* data = std::get_if<Data>(&frame)) return TakeData(*data);
  if (const auto* ping = std::get_if<Ping>(&frame)) {
    if (pulse_.Take(*ping, now)) return absl::OkStatus();
    return absl::InvalidArgumentError("the near end answers no PING of ours");
  }
  if (const auto* close = std::get_if<Close>(&frame)) {
    RETURN_IF_ERROR(CheckClosed());
    given_up_.erase(close->ring);
    if (rings_.contains(close->ring)) {
      Forget(close->ring);
      host_->DropRing(close->ring, GoneReason::kClosed);
    }
    closed_.push_back({close->ring, {}});
    return absl::OkStatus();
  }
  if (std::holds_alternative<Named>(frame)) return TakeNamed();
  return absl::InvalidArgumentError(
      fmt::format("the near end sends {}", NameOf(frame)));
}

// What waits to be sent is bounded, whatever the near end sends: of each ring
// that it may have, why the ring was given up, and the answer to its CLOSE.
absl::Status FarEnd::CheckClosed() const {
  if (closed_.size() < 2 * kMaxRings) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the near end closes rings faster than it takes the answers");
}

uint64_t FarEnd::in_flight() const {
  uint64_t events = 0;
  for (const auto& [id, state] : rings_) events += state.accepted - state.freed;
  return events;
}

absl::Status FarEnd::TakeRing(const Ring& ring) {
  const auto found = rings_.find(ring.ring);
  if (found == rings_.end()) {
    if (rings_.size() + given_up_.size() == kMaxRings) {
      return absl::InvalidArgumentError(
          fmt::format("the near end has more than {} rings", kMaxRings));
    }
    RETURN_IF_ERROR(CheckClosed());
    ++serial_;
    const std::optional<absl::Status> made =
        host_->MakeRing(ring.ring, serial_, ring.limits, ring.number);
    if (made && !made->ok()) {
      closed_.push_back(RefusalOf(ring.ring, *made));
      return absl::OkStatus();
    }
    rings_[ring.ring] = {.serial = serial_,
                         .limits = ring.limits,
                         .accepted = ring.number,
                         .done = ring.number,
                         .sent = ring.number,
                         .freed = ring.number,
                         .named = true,
                         .made = made.has_value()};
    return absl::OkStatus();
  }
  RingState& state = found->second;
  if (state.named) {
    return absl::InvalidArgumentError(
        fmt::format("the near end names ring {} twice", ring.ring.value()));
  }
  if (ring.limits != state.limits) {
    return absl::InvalidArgumentError(fmt::format(
        "ring {}: the near end names it with other limits", ring.ring.value()));
  }
  if (ring.number < state.freed || ring.number > state.done) {
    return absl::InvalidArgumentError(fmt::format(
        "ring {}: the near end says that it has completed {}, of {} done and "
        "{} freed",
        ring.ring.value(), ring.number.value(), state.done.value(),
        state.freed.value()));
  }
  state.named = true;
  state.answered = false;
  state.sent = ring.number;
  Free(ring.ring, state, ring.number);
  return absl::OkStatus();
}

// A near end that has died may have closed some, and its successor not know.
absl::Status FarEnd::TakeNamed() {
  if (std::exchange(heard_all_, true)) {
    return absl::InvalidArgumentError("the near end sends NAMED twice");
  }
  std::vector<RingId> gone;
  for (const auto& [ring, state] : rings_) {
    if (!state.named) gone.push_back(ring);
  }
  for (const RingId ring : gone) {
    rings_.erase(ring);
    host_->DropRing(ring, GoneReason::kClosed);
  }
  return absl::OkStatus();
}

absl::Status FarEnd::TakeData(const Data& data) {
  if (given_up_.contains(data.ring)) return absl::OkStatus();
  const auto found = rings_.find(data.ring);
  if (found == rings_.end() || !found->second.answered ||
      !found->second.named) {
    return absl::InvalidArgumentError(
        fmt::format("the near end sends parts of ring {}, which is not there",
                    data.ring.value()));
  }
  return joiner_.Take(data, found->second.accepted + 1,
                      found->second.limits.event_bytes);
}

absl::Status FarEnd::TakeEvents(const Events& events) {
  if (given_up_.contains(events.ring)) return absl::OkStatus();
  const auto found = rings_.find(events.ring);
  if (found == rings_.end() || !found->second.answered ||
      !found->second.named) {
    return absl::InvalidArgumentError(
        fmt::format("the near end sends events of ring {}, which is not there",
                    events.ring.value()));
  }
  if (joiner_.is_active() && joiner_.ring() != events.ring) {
    return absl::InvalidArgumentError(
        fmt::format("ring {}: events come amid the parts of ring {}",
                    events.ring.value(), joiner_.ring().value()));
  }
  RingState& state = found->second;
  if (events.first != state.accepted + 1) {
    return absl::InvalidArgumentError(
        fmt::format("ring {}: event {} comes after {}", events.ring.value(),
                    events.first.value(), state.accepted.value()));
  }
  if (events.completed < state.freed || events.completed > state.sent) {
    return absl::InvalidArgumentError(fmt::format(
        "ring {}: the near end acknowledges {}, of {} sent and {} freed",
        events.ring.value(), events.completed.value(), state.sent.value(),
        state.freed.value()));
  }
  Free(events.ring, state, events.completed);
  if (state.accepted - state.freed + events.items.size() > state.limits.slots) {
    return absl::InvalidArgumentError(fmt::format(
        "ring {}: {} events more than its {} slots", events.ring.value(),
        state.accepted - state.freed + events.items.size() - state.limits.slots,
        state.limits.slots));
  }
  for (std::string_view event : events.items) {
    if (joiner_.is_active()) event = joiner_.Join(event);
    if (event.size() > state.limits.event_bytes) {
      return absl::InvalidArgumentError(fmt::format(
          "ring {}: event {} has {} bytes: at most {}", events.ring.value(),
          state.accepted.value() + 1, event.size(), state.limits.event_bytes));
    }
    ++state.accepted;
    host_->RunEvent(events.ring, state.accepted, event);
  }
  host_->FlushRuns(events.ring);
  return absl::OkStatus();
}

void FarEnd::Free(RingId ring, RingState& state, Sequence last) {
  if (last == state.freed) return;
  state.freed = last;
  host_->Free(ring, last);
}

std::optional<Out> FarEnd::Poll(Nanoseconds now) {
  if (!open_) return std::nullopt;
  Out out{epoch_, {}};
  if (!said_hello_) {
    said_hello_ = true;
    AppendFrame(options_.self, &out.bytes);
    return out;
  }
  if (const auto ping = pulse_.TakeDue(now)) {
    AppendFrame(*ping, &out.bytes);
    return out;
  }
  if (!closed_.empty()) {
    AppendFrame(closed_.front(), &out.bytes);
    closed_.pop_front();
    return out;
  }
  for (auto& [ring, state] : rings_) {
    if (!state.named || !state.made || state.answered) continue;
    state.answered = true;
    AppendFrame(Ring{ring, state.accepted, state.limits}, &out.bytes);
    return out;
  }
  if (AppendDone(&out.bytes)) return out;
  return std::nullopt;
}

bool FarEnd::AppendDone(std::string* to) {
  if (splitter_.is_active()) {
    AppendPart(to);
    return true;
  }
  const auto may_send = [](const auto& entry) {
    const RingState& state = entry.second;
    return state.named && state.answered && state.sent < state.done;
  };
  auto at =
      std::find_if(rings_.upper_bound(last_sent_), rings_.end(), may_send);
  if (at == rings_.end()) {
    at = std::find_if(rings_.begin(), rings_.end(), may_send);
    if (at == rings_.end()) return false;
  }
  auto& [ring, state] = *at;
  last_sent_ = ring;
  mesh::Done frame{ring, state.sent + 1, {}};
  std::string outputs;
  std::vector<size_t> ends;
  while (state.sent + ends.size() < state.done && ends.size() < kMaxItems) {
    [[maybe_unused]] const size_t had = outputs.size();
    const End end =
        host_->ReadEnd(ring, state.sent + ends.size() + 1, &outputs);
    assert(outputs.size() - had <= state.limits.done_bytes);
    if (DoneBytes(ends.size() + 1, outputs.size()) > kMaxPayloadBytes) {
      if (!ends.empty()) break;
      split_ = end;
      splitter_.Start(ring, state.sent + 1, std::move(outputs));
      AppendPart(to);
      return true;
    }
    ends.push_back(outputs.size());
    frame.items.push_back({end.state, end.status, {}});
  }
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    frame.items[i].output =
        std::string_view(outputs).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
  state.sent = state.sent + ends.size();
  AppendFrame(frame, to);
  return true;
}

void FarEnd::AppendPart(std::string* to) {
  if (!splitter_.is_last()) {
    AppendFrame(splitter_.TakePart(), to);
    return;
  }
  rings_.at(splitter_.ring()).sent = splitter_.number();
  AppendFrame(mesh::Done{splitter_.ring(),
                         splitter_.number(),
                         {{split_.state, split_.status, splitter_.last()}}},
              to);
  splitter_.Clear();
}

void FarEnd::Done(RingId ring, RingSerial serial, Sequence last) {
  const auto found = rings_.find(ring);
  if (found == rings_.end() || found->second.serial != serial) return;
  assert(last >= found->second.done && last <= found->second.accepted);
  found->second.done = last;
}

void FarEnd::Made(RingId ring, RingSerial serial) {
  const auto found = rings_.find(ring);
  if (found == rings_.end() || found->second.serial != serial) return;
  found->second.made = true;
}

void FarEnd::GiveUp(RingId ring, RingSerial serial, const absl::Status& why) {
  const auto found = rings_.find(ring);
  if (found == rings_.end() || found->second.serial != serial) return;
  const RingState state = found->second;
  Forget(ring);
  // One that is not named yet is made anew when it is.
  if (!open_ || !state.named) return;
  closed_.push_back(RefusalOf(ring, why));
  if (state.answered) given_up_.insert(ring);
}

void FarEnd::Forget(RingId ring) {
  rings_.erase(ring);
  if (splitter_.ring() == ring) splitter_.Clear();
  if (joiner_.ring() == ring) joiner_.Clear();
}

void FarEnd::Tick(Nanoseconds now) {
  if (incarnation_ == 0 || lost_ ||
      Since(alive_, now) <= options_.times.lease) {
    return;
  }
  Lose(GoneReason::kLinkLost,
       fmt::format("host {} was not heard of for longer than the lease of {}, "
                   "and its events are aborted",
                   options_.peer, FormatExactDuration(options_.times.lease)));
}

void FarEnd::Lose(GoneReason why, std::string sentence) {
  lost_ = {why == GoneReason::kBroken ? RefusalCode::kBadFrame
                                      : RefusalCode::kLinkLost,
           std::move(sentence)};
  open_ = false;
  DropAll(why);
}

void FarEnd::DropAll(GoneReason why) {
  // The host may call back.
  const auto gone = std::exchange(rings_, {});
  for (const auto& [ring, state] : gone) host_->DropRing(ring, why);
}

}  // namespace carillon::mesh
