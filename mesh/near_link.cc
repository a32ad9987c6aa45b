#include "mesh/near_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "mesh/send.h"

namespace carillon::mesh {
namespace {

// Where nobody answers, Linux sends its next packet after 1, 2, 4 s: one that is
// sent beside it finds a network sooner that is there again.
constexpr Nanoseconds kDialAgain = 300'000'000;
constexpr Nanoseconds kFirstPause = 20'000'000;
constexpr Nanoseconds kLongestPause = 1'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<NearLink>> NearLink::Start(
    const Settings& settings, NearHost* host) {
  ASSIGN_OR_RETURN(TlsContext context, TlsContext::Create(settings.tls));
  RETURN_IF_ERROR(context.OwnHosts({&settings.link.self.host, 1}).status());
  ASSIGN_OR_RETURN(const HostPort address, ReadListenAddress(settings.address));
  RETURN_IF_ERROR(Resolve(address).status());
  ASSIGN_OR_RETURN(std::shared_ptr<UcxContext> ucx, UcxFor(settings.engine));
  std::unique_ptr<NearLink> link(new NearLink(
      std::move(context), std::move(ucx), address, settings, host));
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

NearLink::NearLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
                   HostPort address, const Settings& settings, NearHost* host)
    : context_(std::move(context)),
      ucx_(std::move(ucx)),
      address_(std::move(address)),
      link_(settings.link),
      replayed_before_(settings.history.replayed),
      near_(link_, host, NowNs()),
      down_(settings.history.down) {
  status_.connections = settings.history.connections;
  status_.refused = settings.history.refused;
  status_.error = settings.history.error;
}

NearLink::~NearLink() {
  stop_ = true;
  alarm_.Ring();
  thread_.join();
}

void NearLink::With(const std::function<void(NearEnd&)>& use) {
  BlockSigpipe();
  absl::StatusOr<Sent> sent = Sent::kBlocked;
  {
    const FairLock::Holder holder(fair_, mutex_);
    use(near_);
    if (stream_ != nullptr) {
      sent = SendSome(near_, *stream_, NowNs(), out_);
      if (stream_->NeedsRead()) alarm_.Ring();
    }
  }
  // The thread goes on, and finds out itself why a connection has ended.
  if (!sent.ok() || *sent != Sent::kAll) alarm_.Ring();
}

LinkStatus NearLink::status() {
  const FairLock::Holder holder(fair_, mutex_);
  LinkStatus status = status_;
  status.up = near_.is_up();
  status.lost = near_.is_lost();
  status.fenced = near_.is_fenced();
  status.downs = down_.times();
  status.down = down_.total(NowNs());
  status.rtt = near_.rtt();
  status.clock = near_.clock();
  status.in_flight = near_.in_flight();
  status.replayed = replayed_before_ + near_.replayed();
  return status;
}

LinkHistory NearLink::history() {
  const FairLock::Holder holder(fair_, mutex_);
  DownTime down = down_;
  if (status_.connections > 0) down.GoDown(NowNs());
  return {status_.connections, status_.refused,
          replayed_before_ + near_.replayed(), down, status_.error};
}

void NearLink::Run() {
  BlockSigpipe();
  Nanoseconds pause = kFirstPause;
  while (!IsOver()) {
    const uint64_t before = status().connections;
    absl::Status why = Connect();
    // TLS 1.3 may tell after the agreement that a certificate is not taken.
    if (absl::IsUnauthenticated(why)) why = AtAddress(why);
    {
      MutexLock lock(mutex_);
      if (status_.connections == before) ++status_.refused;
      pause = status_.connections == before ? std::min(2 * pause, kLongestPause)
                                            : kFirstPause;
      status_.error = std::string(why.message());
      if (absl::IsAborted(why) || absl::IsFailedPrecondition(why) ||
          absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why)) {
        status_.refusal = status_.error;
      }
    }
    const Nanoseconds until = NowNs() + pause;
    while (!IsOver() && NowNs() < until) Wait(-1, 0, until);
  }
}

bool NearLink::IsOver() {
  MutexLock lock(mutex_);
  near_.Tick(NowNs());
  return stop_ || near_.is_lost();
}

void NearLink::Wait(int fd, short events, Nanoseconds until) {
  const Nanoseconds now = NowNs();
  until = std::min(until, now + link_.times.ping);
  pollfd fds[] = {{alarm_.fd(), POLLIN, 0}, {fd, events, 0}};
  poll(fds, 2, MillisecondsUntil(until, now));
  if (fds[0].revents != 0) alarm_.Clear();
}

absl::StatusOr<UniqueFd> NearLink::Dial(Nanoseconds deadline) {
  ASSIGN_OR_RETURN(const Addresses found, Resolve(address_));
  std::vector<UniqueFd> dialled;
  Nanoseconds next = 0;
  while (!IsOver() && NowNs() < deadline) {
    if (NowNs() >= next) {
      UniqueFd fd = NewSocket(*found);
      if (!fd) return Unavailable(address_, errno);
      SendAtOnce(fd.get());
      if (connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) return fd;
      if (errno != EINPROGRESS) return Unavailable(address_, errno);
      dialled.push_back(std::move(fd));
      next = NowNs() + kDialAgain;
    }
    for (UniqueFd& fd : dialled) {
      pollfd ready{fd.get(), POLLOUT, 0};
      if (poll(&ready, 1, 0) == 0) continue;
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return Unavailable(address_, error);
      return std::move(fd);
    }
    Wait(dialled.back().get(), POLLOUT, std::min(next, deadline));
  }
  return Unavailable(address_, ETIMEDOUT);
}

absl::Status NearLink::AtAddress(const absl::Status& status) const {
  return absl::Status(status.code(), fmt::format("{}: {}", address_.ToString(),
                                                 status.message()));
}

absl::Status NearLink::Connect() {
  ASSIGN_OR_RETURN(UniqueFd fd, Dial(NowNs() + kHelloTimeout));
  const Nanoseconds deadline = NowNs() + kHelloTimeout;
  TlsStream stream(context_, TlsSide::kClient, std::move(fd));
  for (;;) {
    const absl::StatusOr<bool> agreed = stream.Handshake();
    if (absl::IsUnavailable(agreed.status())) return AtAddress(agreed.status());
    RETURN_IF_ERROR(agreed.status());
    if (*agreed) break;
    if (IsOver() || NowNs() >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("{}: no agreement on TLS within {}", address_.ToString(),
                      FormatExactDuration(kHelloTimeout)));
    }
    Wait(stream.fd(), stream.poll_events(), deadline);
  }
  if (const absl::Status checked = stream.CheckPeer(link_.peer);
      !checked.ok()) {
    return absl::Status(
        checked.code(),
        fmt::format("{} answers: {}", address_.ToString(), checked.message()));
  }
  std::unique_ptr<UcxStream> ucx;
  if (ucx_ != nullptr) {
    ASSIGN_OR_RETURN(ucx, Meet(stream, deadline));
  }
  Epoch epoch;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(epoch, near_.Open(NowNs()));
  }
  LinkStream& carrier = ucx ? static_cast<LinkStream&>(*ucx) : stream;
  const absl::Status why = Serve(carrier, epoch);
  MutexLock lock(mutex_);
  stream_ = nullptr;
  if (counted_) {
    const bool is_silent = absl::IsDeadlineExceeded(why);
    down_.GoDown(is_silent ? near_.heard() : NowNs());
  }
  near_.Cut(epoch);
  return why;
}

absl::StatusOr<std::unique_ptr<UcxStream>> NearLink::Meet(
    TlsStream& stream, Nanoseconds deadline) {
  ASSIGN_OR_RETURN(auto ucx, UcxStream::Create(ucx_, UcxSide::kNear));
  std::string out;
  AppendFrame(mesh::Meet{.ticket = "", .address = ucx->address()}, &out);
  FrameDecoder decoder;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  while (!IsOver() && NowNs() < deadline) {
    RETURN_IF_ERROR(Flush(stream, out));
    ASSIGN_OR_RETURN(const size_t got, stream.Read({buffer.get(), kReadBytes}));
    decoder.Append({buffer.get(), got});
    ASSIGN_OR_RETURN(const std::optional<Frame> frame, decoder.Next());
    if (!frame) {
      if (stream.MayWait(got))
        Wait(stream.fd(), stream.poll_events(), deadline);
      continue;
    }
    if (const auto* const refusal = std::get_if<Refusal>(&*frame)) {
      return absl::FailedPreconditionError(fmt::format(
          "host {} refuses the link: {}", link_.peer, refusal->why));
    }
    const auto* const answer = std::get_if<mesh::Meet>(&*frame);
    if (answer == nullptr) {
      return absl::FailedPreconditionError(fmt::format(
          "the far end sends {} in place of a ticket", NameOf(*frame)));
    }
    RETURN_IF_ERROR(ucx->Connect(answer->ticket, answer->address, &stream));
    return ucx;
  }
  return absl::DeadlineExceededError(
      fmt::format("{}: no ticket for UCX within {}", address_.ToString(),
                  FormatExactDuration(kHelloTimeout)));
}

absl::Status NearLink::Serve(LinkStream& stream, Epoch epoch) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  {
    MutexLock lock(mutex_);
    stream_ = &stream;
    out_.clear();
    counted_ = false;
  }
  for (;;) {
    if (IsOver()) return absl::CancelledError("the link has ended");
    std::optional<short> wait;
    {
      MutexLock lock(mutex_);
      RETURN_IF_ERROR(Step(epoch, {buffer.get(), kReadBytes}, &wait));
    }
    if (wait) {
      Wait(stream.fd(), *wait, ~Nanoseconds{0});
    } else {
      fair_.GiveWay();
    }
  }
}

absl::Status NearLink::Step(Epoch epoch, std::span<char> buffer,
                            std::optional<short>* wait) {
  const auto receive = [&](size_t count, Nanoseconds now) {
    mutex_.AssertHeld();
    return near_.Receive(epoch, {buffer.data(), count}, now);
  };
  // What came is judged before what ends the connection: it may say why.
  const absl::StatusOr<size_t> got = stream_->Read(buffer);
  const Nanoseconds now = NowNs();
  RETURN_IF_ERROR(got.status());
  RETURN_IF_ERROR(receive(*got, now));
  if (near_.IsSilent(now)) return SilentFor(link_.times.timeout);
  if (near_.is_up() && !std::exchange(counted_, true)) {
    ++status_.connections;
    down_.ComeUp(now);
  }
  const absl::StatusOr<Sent> sent = SendSome(near_, *stream_, now, out_);
  if (!sent.ok()) {
    // It may have said why before it closed.
    const absl::StatusOr<size_t> last = stream_->Read(buffer);
    if (last.ok()) RETURN_IF_ERROR(receive(*last, now));
    return sent.status();
  }
  if (*sent == Sent::kMore) return absl::OkStatus();
  if (!stream_->MayWait(*got)) return absl::OkStatus();
  const short writing =
      out_.empty() ? short{0} : static_cast<short>(stream_->poll_events());
  *wait = static_cast<short>(POLLIN | writing);
  return absl::OkStatus();
}

std::string NoLinkTo(const std::string& host, const LinkStatus& status) {
  return fmt::format(
      "no link to host '{}': {}{}", host,
      status.error.empty() ? "no answer" : status.error,
      status.refusal.empty()
          ? fmt::format("; is linkd there? carillon up --host {} there first",
                        host)
          : "");
}

}  // namespace carillon::mesh
