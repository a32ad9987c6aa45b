#include "devices/nic/responder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>

#include "base/clock.h"
#include "kernels/memcached/wire.h"

namespace carillon::nic {
namespace {

using memcached::Outcome;

// Datagrams that wait for a large reply keep their packet buffers, so they may
// have at most one of so many buffers.
constexpr size_t kLargeShare = 4;

bool IsStream(const Request& request) {
  return request.origin == Request::Origin::kStream;
}

}  // namespace

void Responder::Finish(RequestChannel& lane, const FinishedBatch& batch) {
  const Nanoseconds seen = NowNs();
  histogram(Histogram::kEventLatency).Add(seen - batch.rung_ns);
  if (batch.finished_ns != 0 && batch.finished_ns <= seen) {
    histogram(Histogram::kCompletionLatency).Add(seen - batch.finished_ns);
  }
  const bool failed = batch.state != edge::EventState::kDone;
  if (failed) CountFailure(lane, batch, seen);
  for (uint32_t i = 0; i < batch.requests.size(); ++i) {
    const Request& request = batch.requests[i];
    const bool done =
        failed ? FailRequest(request, batch.status)
               : FinishRequest(lane, request, lane.channel->ResultOf(batch, i));
    if (done && !IsStream(request)) done_.push_back(request.index);
  }
  SendReplies();
  for (const BufferIndex buffer : done_) parts_.pool->Give(buffer);
  done_.clear();
  lane.channel->Free();
}

void Responder::CountFailure(const RequestChannel& lane,
                             const FinishedBatch& batch, Nanoseconds now) {
  parts_.counters->Count(Counter::kEventsFailed);
  if (const uint64_t events = failures_.Take(now)) {
    spdlog::warn(
        "{} event(s) of {} failed, the last with {} requests and status {}",
        events, lane.channel->kernel(), batch.requests.size(), batch.status);
  }
}

void Responder::SendReplies() {
  if (replies_.empty()) return;
  parts_.source->Send(replies_);
  replies_.clear();
  errors_.clear();
  const Nanoseconds sent = NowNs();
  shm::HistogramWriter latency = histogram(Histogram::kRequestLatency);
  for (const Nanoseconds received : answered_) {
    latency.Add(sent - received);
  }
  answered_.clear();
}

bool Responder::FailRequest(const Request& request, uint32_t status) {
  AnswerError(request,
              fmt::format("SERVER_ERROR event failed (status {})", status));
  return true;
}

bool Responder::FinishRequest(const RequestChannel& lane,
                              const Request& request,
                              const RequestResult& result) {
  switch (result.outcome) {
    case Outcome::kAnswered:
    case Outcome::kSilent:
      Answer(lane, request, result);
      return true;
    case Outcome::kTooLarge:
      if (!lane.large) return AskWithLargeBuffer(lane, request);
      if (!IsStream(request)) break;
      if (!parts_.streams->ReplyTooLarge(request.index)) {
        AnswerError(request, "SERVER_ERROR out of memory writing get response");
      }
      return true;
    case Outcome::kWrongKernel:
      if (lane.type == RequestType::kSet) break;
      PassToSet(lane, request);
      return false;
    case Outcome::kDropped:
      parts_.counters->Count(Counter::kDropsMalformed);
      if (IsStream(request)) AnswerError(request, "ERROR");
      return true;
    default:
      break;
  }
  // A kernel that follows wire.h gives no other outcome.
  spdlog::warn("{} answered outcome {}", lane.channel->kernel(),
               static_cast<uint32_t>(result.outcome));
  if (!IsStream(request)) parts_.counters->Count(Counter::kDropsMalformed);
  AnswerError(request, "SERVER_ERROR internal error");
  return true;
}

void Responder::Answer(const RequestChannel& lane, const Request& request,
                       const RequestResult& result) {
  parts_.counters->Count(Counter::kGetHits, result.hits);
  parts_.counters->Count(Counter::kGetMisses, result.misses);
  if (lane.type == RequestType::kSet) parts_.counters->Count(Counter::kSets);
  if (IsStream(request)) {
    parts_.streams->Reply(request.index, TextOf(result.reply), result.quit);
    return;
  }
  if (!result.reply.empty()) AddReply(request, result.reply);
}

void Responder::AddReply(const Request& request,
                         std::span<const std::byte> reply) {
  parts_.counters->Count(Counter::kUdpReplies);
  answered_.push_back(request.received_ns);
  for (size_t at = 0; at < reply.size(); at += memcached::kDatagramBytes) {
    const size_t bytes =
        std::min<size_t>(memcached::kDatagramBytes, reply.size() - at);
    replies_.push_back(
        {request.index, reply.data() + at, static_cast<uint32_t>(bytes)});
  }
}

bool Responder::AskWithLargeBuffer(const RequestChannel& lane,
                                   const Request& request) {
  BatchQueue& queue = parts_.channels->of(lane.type, /*large=*/true).queue;
  // Few buffers have no such share, but one reply.
  const size_t most = std::max<size_t>(1, parts_.pool->size() / kLargeShare);
  if (!IsStream(request) && queue.size() >= most) {
    parts_.counters->Count(Counter::kDropsLarge);
    return true;
  }
  parts_.counters->Count(Counter::kLargeReplies);
  queue.Push(request);
  return false;
}

void Responder::PassToSet(const RequestChannel& lane, Request request) {
  parts_.counters->Count(Counter::kReroutes);
  request.type = RequestType::kSet;
  parts_.channels->of(request.type, lane.large).queue.Push(request);
}

void Responder::AnswerError(const Request& request, std::string_view text) {
  const std::string line = fmt::format("{}\r\n", text);
  if (IsStream(request)) {
    parts_.streams->Reply(request.index, line, false);
    return;
  }
  // The kernel may have looked at nothing: no reply is due to a part of a
  // larger request.
  const std::string_view frame =
      TextOf(parts_.pool->bytes(request.index).first(memcached::kFrameBytes));
  if (frame[4] != 0 || frame[5] != 1) return;
  // The request's id, "0 of 1".
  std::string& datagram = errors_.emplace_back(frame.substr(0, 2));
  datagram.append({0, 0, 0, 1, 0, 0}).append(line);
  AddReply(request, std::as_bytes(std::span(datagram)));
}

}  // namespace carillon::nic
