#include "mesh/far_link.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "mesh/send.h"
#include "mesh/ucx_stream.h"

namespace carillon::mesh {
namespace {

// From a refusal to the end of its connection.
constexpr Nanoseconds kFarewell = 1'000'000'000;
// Connections that have not said who they are.
constexpr std::ptrdiff_t kMaxStrangers = 16;
constexpr int kBacklog = 16;

// `name`: getsockname() or getpeername().
template <class Name>
HostPort AddressOf(int fd, Name name) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const any = reinterpret_cast<sockaddr*>(&storage);
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "0";
  if (name(fd, any, &size) == 0) {
    getnameinfo(any, size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return HostPort{host, static_cast<uint16_t>(std::atoi(port))};
}

std::string TimeOfDay() {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(),
                          absl::UTCTimeZone());
}

std::string OtherEngine(Engine theirs, Engine mine) {
  return fmt::format(
      "the other end's engine is '{}', and '{}' is expected: say the same in "
      "mesh: engine on both hosts",
      NameOf(theirs), NameOf(mine));
}

}  // namespace

// A connection that somebody has opened.
struct FarLink::Peer {
  Peer(const TlsContext& context, UniqueFd fd, Nanoseconds deadline)
      : from(AddressOf(fd.get(), getpeername).host),
        stream(context, TlsSide::kServer, std::move(fd)),
        deadline(deadline) {}

  LinkStream& carrier() {
    return ucx ? static_cast<LinkStream&>(*ucx) : stream;
  }

  const std::string from;  // its address, without the port
  TlsStream stream;
  std::unique_ptr<UcxStream> ucx;  // of UCX, once it has a ticket
  Stage stage = Stage::kHandshake;
  Nanoseconds deadline;  // of all stages but kServed
  FrameDecoder first;    // of kHello
  Epoch epoch;           // of kServed
  std::string out;
  uint64_t strange = 0;  // of UCX: messages that were refused
  bool said = false;     // of kRefused: all of it
  bool idle = true;      // nothing came in the last step
  bool ended = false;
};

absl::StatusOr<std::unique_ptr<FarLink>> FarLink::Start(
    const Settings& settings, FarHost* host) {
  ASSIGN_OR_RETURN(TlsContext context, TlsContext::Create(settings.tls));
  const std::string& own_host = settings.link.self.host;
  RETURN_IF_ERROR(context.OwnHosts({&own_host, 1}).status());
  ASSIGN_OR_RETURN(const HostPort address, ReadListenAddress(settings.address));
  ASSIGN_OR_RETURN(const Addresses found, Resolve(address));
  ASSIGN_OR_RETURN(std::shared_ptr<UcxContext> ucx, UcxFor(settings.engine));
  UniqueFd fd = NewSocket(*found);
  const int yes = 1;
  // Lets the next one listen while connections of this one linger.
  if (!fd ||
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return absl::UnavailableError(fmt::format(
          "{}: Address already in use: host {} is to wait there for host {}: "
          "end the other program (ss -ltnp names it), or give host {} another "
          "address (hosts: in the topology)",
          address.ToString(), own_host, settings.link.peer, own_host));
    }
    if (errno != EADDRNOTAVAIL) return Unavailable(address, errno);
    return absl::UnavailableError(
        fmt::format("{}: no address of this machine: is it another host's?",
                    address.ToString()));
  }
  std::string where = AddressOf(fd.get(), getsockname).ToString();
  std::unique_ptr<FarLink> link(new FarLink(std::move(context), std::move(ucx),
                                            std::move(fd), std::move(where),
                                            settings.link, host));
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

FarLink::FarLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
                 UniqueFd listener, std::string address, LinkOptions link,
                 FarHost* host)
    : context_(std::move(context)),
      ucx_(std::move(ucx)),
      listener_(std::move(listener)),
      address_(std::move(address)),
      link_(std::move(link)),
      far_(link_, host, NowNs()) {}

FarLink::~FarLink() {
  stop_ = true;
  alarm_.Ring();
  thread_.join();
}

void FarLink::With(const std::function<void(FarEnd&)>& use) {
  BlockSigpipe();
  absl::StatusOr<Sent> sent = Sent::kBlocked;
  {
    const FairLock::Holder holder(fair_, mutex_);
    use(far_);
    if (served_ != nullptr && far_.IsCurrent(served_->epoch)) {
      LinkStream& carrier = served_->carrier();
      sent = SendSome(far_, carrier, NowNs(), served_->out);
      if (carrier.NeedsRead()) alarm_.Ring();
    }
  }
  if (!sent.ok() || *sent != Sent::kAll) alarm_.Ring();
}

LinkStatus FarLink::status() {
  const FairLock::Holder holder(fair_, mutex_);
  LinkStatus status = status_;
  status.up = far_.is_up();
  status.downs = down_.times();
  status.down = down_.total(NowNs());
  status.rtt = far_.rtt();
  status.in_flight = far_.in_flight();
  return status;
}

void FarLink::Run() {
  BlockSigpipe();
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  buffer_ = {buffer.get(), kReadBytes};
  bool knocked = true;
  while (!stop_) {
    // To look is dear: it makes a socket first.
    if (knocked) AcceptAll();
    bool busy = false;
    for (const auto& peer : peers_) {
      const absl::Status status = Step(*peer);
      if (!status.ok()) End(*peer, status);
      busy = busy || (!peer->ended && !peer->idle);
    }
    peers_.remove_if([](const auto& peer) { return peer->ended; });
    if (busy) fair_.GiveWay();
    std::vector<pollfd> fds = Descriptors();
    const Nanoseconds now = NowNs();
    poll(fds.data(), fds.size(),
         busy ? 0 : MillisecondsUntil(now + link_.times.ping, now));
    NoteStop();
    if (fds[0].revents != 0) alarm_.Clear();
    knocked = fds[1].revents != 0;
  }
}

void FarLink::NoteStop() {
  const Nanoseconds now = NowNs();
  const Nanoseconds before = std::exchange(looked_at_, now);
  if (Since(before, now) > link_.times.timeout) {
    stopped_at_ = before;
    went_on_at_ = now;
  } else if (Since(went_on_at_, now) > link_.times.timeout) {
    stopped_at_.reset();
  }
}

void FarLink::GoDown(Nanoseconds when) {
  NoteStop();
  down_.GoDown(stopped_at_.value_or(when));
}

std::vector<pollfd> FarLink::Descriptors() {
  std::vector<pollfd> fds = {{alarm_.fd(), POLLIN, 0},
                             {listener_.get(), POLLIN, 0}};
  MutexLock lock(mutex_);
  far_.Tick(NowNs());
  for (const auto& peer : peers_) {
    short events = POLLIN;
    if (peer->stage == Stage::kHandshake) {
      events = peer->stream.poll_events();
    } else if (!peer->out.empty()) {
      events = static_cast<short>(events | peer->carrier().poll_events());
    }
    fds.push_back({peer->carrier().fd(), events, 0});
  }
  return fds;
}

void FarLink::AcceptAll() {
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    const auto is_stranger = [](const auto& peer) {
      return peer->stage != Stage::kServed;
    };
    if (std::ranges::count_if(peers_, is_stranger) >= kMaxStrangers) {
      // The one that has taken longest makes room: the other host, whose
      // certificate has done, only if there is nobody else.
      auto oldest = std::ranges::find_if(peers_, [&](const auto& peer) {
        return is_stranger(peer) && peer->stage != Stage::kHello;
      });
      if (oldest == peers_.end()) {
        oldest = std::ranges::find_if(peers_, is_stranger);
      }
      peers_.erase(oldest);
    }
    SendAtOnce(fd.get());
    peers_.push_back(std::make_unique<Peer>(context_, std::move(fd),
                                            NowNs() + kHelloTimeout));
  }
}

absl::Status FarLink::Step(Peer& peer) {
  peer.idle = true;
  if (peer.stage != Stage::kServed && NowNs() >= peer.deadline) {
    return absl::DeadlineExceededError(
        peer.stage == Stage::kRefused
            ? "it does not hang up"
            : fmt::format("no HELLO within {}",
                          FormatExactDuration(kHelloTimeout)));
  }
  switch (peer.stage) {
    case Stage::kHandshake: {
      ASSIGN_OR_RETURN(const bool agreed, peer.stream.Handshake());
      if (!agreed) return absl::OkStatus();
      const absl::Status checked = peer.stream.CheckPeer(link_.peer);
      peer.stage = Stage::kHello;
      peer.idle = false;
      if (!checked.ok()) {
        Refuse(peer, Misdirected(std::string(checked.message())));
      }
      return absl::OkStatus();
    }
    case Stage::kHello:
      return Greet(peer);
    case Stage::kServed:
      return Serve(peer);
    case Stage::kRefused:
      return SayWhyNot(peer);
  }
  return absl::OkStatus();
}

absl::Status FarLink::Greet(Peer& peer) {
  ASSIGN_OR_RETURN(const size_t got, peer.carrier().Read(buffer_));
  if (got == 0) {
    peer.idle = peer.carrier().MayWait(got);
    return absl::OkStatus();
  }
  peer.idle = false;
  peer.first.Append({buffer_.data(), got});
  const auto first = peer.first.Next();
  if (!first.ok()) {
    Refuse(peer, {RefusalCode::kOther, std::string(first.status().message())});
    return absl::OkStatus();
  }
  if (!first->has_value()) return absl::OkStatus();
  const auto* const meet = std::get_if<Meet>(&**first);
  const auto* const hello = std::get_if<Hello>(&**first);
  if (ucx_ == nullptr ? meet != nullptr : !peer.ucx && hello != nullptr) {
    const Engine mine = ucx_ == nullptr ? Engine::kTls : Engine::kUcx;
    const Engine theirs = ucx_ == nullptr ? Engine::kUcx : Engine::kTls;
    Refuse(peer, {RefusalCode::kOther, OtherEngine(theirs, mine)});
    return absl::OkStatus();
  }
  if (ucx_ != nullptr && !peer.ucx && meet != nullptr) {
    const absl::Status admitted = Admit(peer, *meet);
    if (!admitted.ok()) {
      Refuse(peer, {RefusalCode::kOther, std::string(admitted.message())});
    }
    return absl::OkStatus();
  }
  if (hello == nullptr) {
    Refuse(peer, {RefusalCode::kOther,
                  fmt::format("{} comes before HELLO", NameOf(**first))});
    return absl::OkStatus();
  }
  std::variant<Epoch, Refusal> answer;
  {
    MutexLock lock(mutex_);
    const uint64_t before = far_.incarnation();
    answer = far_.Accept(*hello, NowNs(),
                         fmt::format("from {} at {}", peer.from, TimeOfDay()));
    if (const auto* epoch = std::get_if<Epoch>(&answer)) {
      peer.epoch = *epoch;
      peer.stage = Stage::kServed;
      // One that was killed on the same machine has hung up before.
      if (before != 0 && hello->incarnation > before &&
          (served_ != nullptr || peer.from != from_)) {
        ++status_.takeovers;
        status_.takeover = fmt::format(
            "host {} has come from {}, and takes the place of one of that name "
            "that was still there, from {}: if these are two machines, give "
            "each a name of its own",
            hello->host, peer.from, from_);
      }
      from_ = peer.from;
      // The near end has left the one before, of whose end nothing came.
      if (served_ != nullptr) GoDown(NowNs());
      served_ = &peer;
      ++status_.connections;
      down_.ComeUp(NowNs());
      stopped_at_.reset();
      return far_.Receive(peer.epoch, peer.first.TakeRest(), NowNs());
    }
  }
  const Refusal& refusal = std::get<Refusal>(answer);
  Refuse(peer, hello->host == link_.peer ? refusal : Misdirected(refusal.why));
  return absl::OkStatus();
}

absl::Status FarLink::Admit(Peer& peer, const Meet& asked) {
  ASSIGN_OR_RETURN(auto ucx, UcxStream::Create(ucx_, UcxSide::kFar));
  const Meet answer{.ticket = NewTicket(), .address = ucx->address()};
  RETURN_IF_ERROR(ucx->Connect(answer.ticket, asked.address, &peer.stream));
  AppendFrame(answer, &peer.out);
  // Less than what a new connection takes at once.
  RETURN_IF_ERROR(Flush(peer.stream, peer.out));
  if (!peer.out.empty()) return absl::UnavailableError("it takes no ticket");
  peer.ucx = std::move(ucx);
  return absl::OkStatus();
}

absl::Status FarLink::Serve(Peer& peer) {
  MutexLock lock(mutex_);
  LinkStream& carrier = peer.carrier();
  const absl::StatusOr<size_t> got = carrier.Read(buffer_);
  const Nanoseconds now = NowNs();
  if (!far_.IsCurrent(peer.epoch)) {
    return absl::CancelledError("another connection has taken its place");
  }
  if (peer.ucx &&
      peer.ucx->refused() > std::exchange(peer.strange, peer.ucx->refused())) {
    ++status_.refused;
    status_.refusal = "a message by UCX has no ticket that is good here";
  }
  RETURN_IF_ERROR(got.status());
  if (*got == 0) stopped_at_.reset();  // the connection has outlived it
  RETURN_IF_ERROR(far_.Receive(peer.epoch, {buffer_.data(), *got}, now));
  if (far_.IsSilent(now)) return SilentFor(link_.times.timeout);
  ASSIGN_OR_RETURN(const Sent sent, SendSome(far_, carrier, now, peer.out));
  peer.idle = sent != Sent::kMore && carrier.MayWait(*got);
  return absl::OkStatus();
}

absl::Status FarLink::SayWhyNot(Peer& peer) {
  LinkStream& carrier = peer.carrier();
  RETURN_IF_ERROR(Flush(carrier, peer.out));
  if (!peer.out.empty()) return absl::OkStatus();
  peer.idle = carrier.MayWait(0);
  if (!peer.said) carrier.EndWriting();
  peer.said = true;
  if (carrier.Drain()) return absl::CancelledError("it has hung up");
  return absl::OkStatus();
}

Refusal FarLink::Misdirected(std::string_view why) const {
  return {RefusalCode::kOther,
          fmt::format("{} is where host {} waits for host {}: {}", address_,
                      link_.self.host, link_.peer, why)};
}

void FarLink::Refuse(Peer& peer, const Refusal& refusal) {
  peer.stage = Stage::kRefused;
  peer.deadline = NowNs() + kFarewell;
  peer.idle = false;
  AppendFrame(refusal, &peer.out);
  MutexLock lock(mutex_);
  ++status_.refused;
  status_.error = status_.refusal =
      fmt::format("{}: {}", peer.from, refusal.why);
}

void FarLink::End(Peer& peer, const absl::Status& why) {
  const Stage stage = peer.stage;
  if (stage == Stage::kRefused || absl::IsDeadlineExceeded(why)) {
    peer.ended = true;
  }
  if (stage == Stage::kRefused) return;
  {
    MutexLock lock(mutex_);
    if (served_ == &peer) {
      served_ = nullptr;
      const bool is_silent = absl::IsDeadlineExceeded(why);
      GoDown(is_silent ? far_.heard() : NowNs());
    }
    far_.Cut(peer.epoch);
    status_.error = std::string(why.message());
    if (stage != Stage::kServed && absl::IsUnauthenticated(why)) {
      ++status_.refused;
      status_.refusal = fmt::format("{}: {}", peer.from, why.message());
    }
  }
  // It is to learn which rule it has broken, or what TLS says.
  if (stage == Stage::kServed && absl::IsInvalidArgument(why)) {
    AppendFrame(Refusal{RefusalCode::kBadFrame, std::string(why.message())},
                &peer.out);
  }
  peer.stage = Stage::kRefused;
  peer.deadline = NowNs() + kFarewell;
}

}  // namespace carillon::mesh
