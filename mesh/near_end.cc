#include "mesh/near_end.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace carillon::mesh {

using shm::Sequence;

NearEnd::NearEnd(LinkOptions options, NearHost* host, Nanoseconds now)
    : options_(std::move(options)),
      host_(host),
      alive_(now),
      pulse_(options_.times, now) {}

absl::Status NearEnd::AddRing(RingId ring, const RingLimits& limits,
                              Sequence stored, Sequence rung) {
  RETURN_IF_ERROR(CheckLimits(limits));
  if (lost_) return absl::UnavailableError("the link is lost");
  if (rings_.contains(ring) || closing_.contains(ring)) {
    return absl::AlreadyExistsError(
        fmt::format("the link has had a ring {}", ring.value()));
  }
  // The far end answers no more than that many CLOSEs at a time, either.
  if (rings_.size() + closing_.size() == kMaxRings) {
    return absl::ResourceExhaustedError(
        fmt::format("a link carries at most {} rings", kMaxRings));
  }
  assert(stored <= rung && rung - stored <= limits.slots);
  rings_[ring] = {.limits = limits,
                  .rung = rung,
                  .sent = stored,
                  .received = stored,
                  .stored = stored,
                  .inherited = rung - stored};
  return absl::OkStatus();
}

void NearEnd::RemoveRing(RingId ring) {
  // The far end may know it from an earlier connection.
  if (rings_.erase(ring) == 0) return;
  closing_[ring] = false;
  if (splitter_.ring() == ring) splitter_.Clear();
  if (joiner_.ring() == ring) joiner_.Clear();
}

void NearEnd::Rang(RingId ring, Sequence last) {
  const auto found = rings_.find(ring);
  if (found == rings_.end()) return;
  RingState& state = found->second;
  assert(last >= state.rung && last - state.stored <= state.limits.slots);
  state.rung = last;
}

void NearEnd::Stored(RingId ring, Sequence last) {
  const auto found = rings_.find(ring);
  if (found == rings_.end()) return;
  assert(last >= found->second.stored && last <= found->second.received);
  found->second.stored = last;
}

absl::StatusOr<Epoch> NearEnd::Open(Nanoseconds now) {
  if (lost_) return absl::FailedPreconditionError("the link is lost");
  if (open_) return absl::FailedPreconditionError("a connection is open");
  for (const auto& [ring, state] : rings_) {
    // Its RING would say less than what the far end may have freed.
    if (state.stored != state.received) {
      return absl::FailedPreconditionError(
          fmt::format("ring {}: the end of event {} is not stored yet",
                      ring.value(), state.stored.value() + 1));
    }
  }
  ++epoch_;
  // By the clock, so that it grows from one near end to its successor, too.
  connection_ = std::max<uint64_t>(connection_ + 1, now);
  open_ = true;
  said_hello_ = said_all_ = false;
  greeted_ = false;
  for (auto& [ring, state] : rings_) state.named = state.heard = false;
  for (auto& [ring, said] : closing_) said = false;
  decoder_ = {};
  splitter_.Clear();
  joiner_.Clear();
  pulse_.Restart(now);
  return epoch_;
}

void NearEnd::Cut(Epoch epoch) {
  if (epoch == epoch_) open_ = false;
}

absl::Status NearEnd::Receive(Epoch epoch, std::string_view bytes,
                              Nanoseconds now) {
  if (!open_ || epoch != epoch_ || bytes.empty()) return absl::OkStatus();
  pulse_.Hear(now);
  decoder_.Append(bytes);
  while (open_) {
    const auto next = decoder_.Next();
    if (next.ok() && !next->has_value()) break;
    const absl::Status status = next.ok() ? Take(**next, now) : next.status();
    if (status.ok()) continue;
    // As with a device that breaks a rule: nothing that it says counts any more.
    if (greeted_) Lose(std::string(status.message()));
    return status;
  }
  return absl::OkStatus();
}

absl::Status NearEnd::Take(const Frame& frame, Nanoseconds now) {
  if (const auto* refusal = std::get_if<Refusal>(&frame)) {
    return TakeRefusal(*refusal);
  }
  const auto* const hello = std::get_if<Hello>(&frame);
  if (greeted_ == (hello != nullptr)) {
    return absl::InvalidArgumentError(
        fmt::format("the far end sends {} {} its HELLO", NameOf(frame),
                    greeted_ ? "after" : "before"));
  }
  if (hello != nullptr) RETURN_IF_ERROR(TakeHello(*hello));
  alive_ = now;
  if (hello != nullptr) return absl::OkStatus();
  if (const auto* ring = std::get_if<Ring>(&frame)) return TakeRing(*ring);
  if (const auto* done = std::get_if<Done>(&frame)) return TakeDone(*done);
  if (const auto* data = std::get_if<Data>(&frame)) return TakeData(*data);
  if (const auto* ping = std::get_if<Ping>(&frame)) {
    if (pulse_.Take(*ping, now)) return absl::OkStatus();
    return absl::InvalidArgumentError("the far end answers no PING of ours");
  }
  if (const auto* close = std::get_if<Close>(&frame)) return TakeClose(*close);
  return absl::InvalidArgumentError(
      fmt::format("the far end sends {} unasked", NameOf(frame)));
}

uint64_t NearEnd::in_flight() const {
  uint64_t events = 0;
  for (const auto& [id, state] : rings_) events += state.rung - state.stored;
  return events;
}

absl::Status NearEnd::TakeHello(const Hello& hello) {
  RETURN_IF_ERROR(CheckHello(options_, hello));
  if (hello.incarnation < far_incarnation_) {
    return absl::FailedPreconditionError(
        fmt::format("host {} of incarnation {} is there, and one of {} was: "
                    "is an old one still running?",
                    options_.peer, hello.incarnation, far_incarnation_));
  }
  far_incarnation_ = hello.incarnation;
  greeted_ = true;
  refusal_.clear();
  return absl::OkStatus();
}

absl::Status NearEnd::TakeRefusal(const Refusal& refusal) {
  const std::string why =
      fmt::format("host {} refuses the link: {}", options_.peer, refusal.why);
  fenced_ = refusal.code == RefusalCode::kOldIncarnation;
  // Another build may become the right one while the lease lasts.
  if (refusal.code != RefusalCode::kOther) Lose(why);
  refusal_ = refusal.why;
  return absl::AbortedError(why);
}

absl::Status NearEnd::TakeRing(const Ring& answer) {
  if (closing_.contains(answer.ring)) return absl::OkStatus();
  const auto found = rings_.find(answer.ring);
  if (found == rings_.end() || !found->second.named || found->second.heard) {
    return absl::InvalidArgumentError(fmt::format(
        "the far end answers for ring {} unasked", answer.ring.value()));
  }
  RingState& state = found->second;
  if (answer.limits != state.limits) {
    return absl::InvalidArgumentError(
        fmt::format("ring {}: the far end answers for one of other limits",
                    answer.ring.value()));
  }
  if (answer.number < state.stored || answer.number > state.rung) {
    return absl::InvalidArgumentError(fmt::format(
        "ring {}: the far end says that it has accepted {}, of {} rung and {} "
        "completed",
        answer.ring.value(), answer.number.value(), state.rung.value(),
        state.stored.value()));
  }
  const Sequence sent = std::exchange(state.sent, answer.number);
  if (sent > answer.number) replayed_ += sent - answer.number;
  replayed_ += std::exchange(state.inherited, 0);
  state.heard = true;
  host_->HoldRing(answer.ring);
  return absl::OkStatus();
}

absl::Status NearEnd::TakeClose(const Close& close) {
  const auto closing = closing_.find(close.ring);
  if (close.why.empty()) {
    if (closing != closing_.end() && closing->second) {
      closing_.erase(closing);
      return absl::OkStatus();
    }
  } else {
    // It crosses our CLOSE, whose answer follows.
    if (closing != closing_.end()) return absl::OkStatus();
    const auto found = rings_.find(close.ring);
    if (found != rings_.end() && found->second.named) {
      const bool heard = found->second.heard;
      // Events may be on their way: the far end drops them until our CLOSE.
      if (heard) {
        RemoveRing(close.ring);
      } else {
        rings_.erase(found);
      }
      host_->LoseRing(close.ring,
                      fmt::format("host {} {} ring {}: {}", options_.peer,
                                  heard ? "gives up" : "does not take",
                                  close.ring.value(), close.why),
                      close.passing);
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("the far end closes ring {} unasked", close.ring.value()));
}

absl::Status NearEnd::TakeData(const Data& data) {
  if (closing_.contains(data.ring)) return absl::OkStatus();
  const auto found = rings_.find(data.ring);
  if (found == rings_.end() || !found->second.heard) {
    return absl::InvalidArgumentError(
        fmt::format("the far end sends parts of ring {}, which is not there",
                    data.ring.value()));
  }
  return joiner_.Take(data, found->second.received + 1,
                      found->second.limits.done_bytes);
}

absl::Status NearEnd::TakeDone(const Done& done) {
  if (closing_.contains(done.ring)) return absl::OkStatus();
  const auto found = rings_.find(done.ring);
  if (found == rings_.end() || !found->second.heard) {
    return absl::InvalidArgumentError(
        fmt::format("the far end completes events of ring {}, which is not "
                    "there",
                    done.ring.value()));
  }
  if (joiner_.is_active() && joiner_.ring() != done.ring) {
    return absl::InvalidArgumentError(
        fmt::format("ring {}: ends come amid the parts of ring {}",
                    done.ring.value(), joiner_.ring().value()));
  }
  const absl::Cleanup flush = [&] { host_->FlushEnds(); };
  Sequence number = done.first;
  for (End end : done.items) {
    // The host may remove a ring.
    const auto at = rings_.find(done.ring);
    if (at == rings_.end()) break;
    RingState& state = at->second;
    if (number != state.received + 1 || number > state.sent) {
      return absl::InvalidArgumentError(fmt::format(
          "ring {}: the far end completes event {} after {}, with {} sent",
          done.ring.value(), number.value(), state.received.value(),
          state.sent.value()));
    }
    if (joiner_.is_active()) end.output = joiner_.Join(end.output);
    if (end.output.size() > state.limits.done_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("ring {}: event {} has an output of {} bytes: at most {}",
                      done.ring.value(), number.value(), end.output.size(),
                      state.limits.done_bytes));
    }
    state.received = number;
    if (host_->TakeEnd(done.ring, number, end)) Stored(done.ring, number);
    ++number;
  }
  return absl::OkStatus();
}

std::optional<Out> NearEnd::Poll(Nanoseconds now) {
  if (!open_) return std::nullopt;
  Out out{epoch_, {}};
  if (!said_hello_) {
    said_hello_ = true;
    Hello hello = options_.self;
    hello.connection = connection_;
    AppendFrame(hello, &out.bytes);
    return out;
  }
  if (const auto ping = pulse_.TakeDue(now)) {
    AppendFrame(*ping, &out.bytes);
    return out;
  }
  for (auto& [ring, said] : closing_) {
    if (said) continue;
    said = true;
    AppendFrame(Close{ring, {}}, &out.bytes);
    return out;
  }
  for (auto& [ring, state] : rings_) {
    if (state.named) continue;
    state.named = true;
    AppendFrame(Ring{ring, state.stored, state.limits}, &out.bytes);
    return out;
  }
  if (!said_all_) {
    said_all_ = true;
    AppendFrame(Named{}, &out.bytes);
    return out;
  }
  if (AppendEvents(&out.bytes)) return out;
  return std::nullopt;
}

bool NearEnd::AppendEvents(std::string* to) {
  if (splitter_.is_active()) {
    AppendPart(to);
    return true;
  }
  const auto may_send = [](const auto& entry) {
    const RingState& state = entry.second;
    return state.heard && state.sent < state.rung;
  };
  auto at =
      std::find_if(rings_.upper_bound(last_sent_), rings_.end(), may_send);
  if (at == rings_.end()) {
    at = std::find_if(rings_.begin(), rings_.end(), may_send);
    if (at == rings_.end()) return false;
  }
  auto& [ring, state] = *at;
  last_sent_ = ring;
  std::string events;
  std::vector<size_t> ends;
  while (state.sent + ends.size() < state.rung && ends.size() < kMaxItems) {
    [[maybe_unused]] const size_t had = events.size();
    host_->ReadEvent(ring, state.sent + ends.size() + 1, &events);
    assert(events.size() - had <= state.limits.event_bytes);
    if (EventsBytes(ends.size() + 1, events.size()) > kMaxPayloadBytes) break;
    ends.push_back(events.size());
  }
  if (ends.empty()) {
    splitter_.Start(ring, state.sent + 1, std::move(events));
    AppendPart(to);
    return true;
  }
  Events frame{ring, state.sent + 1, state.stored, {}};
  size_t begin = 0;
  for (const size_t end : ends) {
    frame.items.push_back(std::string_view(events).substr(begin, end - begin));
    begin = end;
  }
  state.sent = state.sent + ends.size();
  AppendFrame(frame, to);
  return true;
}

void NearEnd::AppendPart(std::string* to) {
  if (!splitter_.is_last()) {
    AppendFrame(splitter_.TakePart(), to);
    return;
  }
  RingState& state = rings_.at(splitter_.ring());
  state.sent = splitter_.number();
  AppendFrame(Events{splitter_.ring(),
                     splitter_.number(),
                     state.stored,
                     {splitter_.last()}},
              to);
  splitter_.Clear();
}

void NearEnd::Tick(Nanoseconds now) {
  if (lost_ || Since(alive_, now) <= options_.times.lease) return;
  Lose(fmt::format(
      "host {} was not heard of for longer than the lease of {}{}",
      options_.peer, FormatExactDuration(options_.times.lease),
      refusal_.empty() ? "" : "; it refuses the link: " + refusal_));
}

void NearEnd::Lose(const std::string& why) {
  if (lost_) return;
  lost_ = true;
  open_ = false;
  host_->LoseLink(why);
}

}  // namespace carillon::mesh
