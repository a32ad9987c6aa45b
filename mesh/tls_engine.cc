#include "mesh/tls_engine.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "mesh/send.h"

namespace carillon::mesh {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// From the first byte to a HELLO.
constexpr Nanoseconds kHelloTimeout = 5'000'000'000;
// Where nobody answers, Linux sends its next packet after 1, 2, 4 s: one that is
// sent beside it finds a network sooner that is there again.
constexpr Nanoseconds kDialAgain = 300'000'000;
// From a refusal to the end of its connection.
constexpr Nanoseconds kFarewell = 1'000'000'000;
constexpr Nanoseconds kFirstPause = 20'000'000;
constexpr Nanoseconds kLongestPause = 1'000'000'000;
// Connections that have not said who they are.
constexpr std::ptrdiff_t kMaxStrangers = 16;
constexpr int kBacklog = 16;

// A peer that has gone must not end this process, whose thread is a caller's.
void BlockSigpipe() {
  static thread_local bool blocked = false;
  if (std::exchange(blocked, true)) return;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int MillisecondsUntil(Nanoseconds when, Nanoseconds now) {
  if (when <= now) return 0;
  return static_cast<int>(
      std::min<Nanoseconds>((when - now) / 1'000'000 + 1, 60'000));
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
absl::StatusOr<Addresses> Resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", address.ToString(), gai_strerror(error)));
  }
  return Addresses(found, freeaddrinfo);
}

UniqueFd NewSocket(const addrinfo& address) {
  UniqueFd fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd;
}

// An event is not to wait for the one before.
void SendAtOnce(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

absl::Status Unavailable(const HostPort& address, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", address.ToString(), std::strerror(error)));
}

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

// Null: the engine needs none.
absl::StatusOr<std::shared_ptr<UcxContext>> UcxFor(Engine engine) {
  if (engine != Engine::kUcx) return std::shared_ptr<UcxContext>();
  return UcxContext::Create();
}

absl::Status SilentFor(Nanoseconds timeout) {
  return absl::DeadlineExceededError(
      fmt::format("nothing came for {}", FormatExactDuration(timeout)));
}

}  // namespace

Alarm::Alarm() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Alarm::Ring() const {
  const uint64_t one = 1;
  // It fails if the counter is full, and then the alarm rings already.
  [[maybe_unused]] const ssize_t written = write(fd(), &one, sizeof(one));
}

void Alarm::Clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(fd(), &count, sizeof(count));
}

absl::StatusOr<std::unique_ptr<TlsNearLink>> TlsNearLink::Start(
    const Settings& settings, NearHost* host) {
  ASSIGN_OR_RETURN(TlsContext context, TlsContext::Create(settings.tls));
  ASSIGN_OR_RETURN(const HostPort address, ReadListenAddress(settings.address));
  RETURN_IF_ERROR(Resolve(address).status());
  ASSIGN_OR_RETURN(std::shared_ptr<UcxContext> ucx, UcxFor(settings.engine));
  std::unique_ptr<TlsNearLink> link(new TlsNearLink(
      std::move(context), std::move(ucx), address, settings, host));
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

TlsNearLink::TlsNearLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
                         HostPort address, const Settings& settings,
                         NearHost* host)
    : context_(std::move(context)),
      ucx_(std::move(ucx)),
      address_(std::move(address)),
      link_(settings.link),
      replayed_before_(settings.history.replayed),
      near_(link_, host, NowNs()),
      down_(settings.history.down) {
  status_.connections = settings.history.connections;
  status_.refused = settings.history.refused;
}

TlsNearLink::~TlsNearLink() {
  stop_ = true;
  alarm_.Ring();
  thread_.join();
}

void TlsNearLink::With(const std::function<void(NearEnd&)>& use) {
  BlockSigpipe();
  absl::StatusOr<Sent> sent = Sent::kBlocked;
  {
    const Turns::Turn turn(turns_, mutex_);
    use(near_);
    if (stream_ != nullptr) {
      sent = SendSome(near_, *stream_, NowNs(), out_);
      if (stream_->NeedsRead()) alarm_.Ring();
    }
  }
  // The thread goes on, and finds out itself why a connection has ended.
  if (!sent.ok() || *sent != Sent::kAll) alarm_.Ring();
}

LinkStatus TlsNearLink::status() {
  const Turns::Turn turn(turns_, mutex_);
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

LinkHistory TlsNearLink::history() {
  const Turns::Turn turn(turns_, mutex_);
  DownTime down = down_;
  if (status_.connections > 0) down.GoDown(NowNs());
  return {status_.connections, status_.refused,
          replayed_before_ + near_.replayed(), down};
}

void TlsNearLink::Run() {
  BlockSigpipe();
  Nanoseconds pause = kFirstPause;
  while (!IsOver()) {
    const uint64_t before = status().connections;
    const absl::Status why = Connect();
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

bool TlsNearLink::IsOver() {
  MutexLock lock(mutex_);
  near_.Tick(NowNs());
  return stop_ || near_.is_lost();
}

void TlsNearLink::Wait(int fd, short events, Nanoseconds until) {
  const Nanoseconds now = NowNs();
  until = std::min(until, now + link_.times.ping);
  pollfd fds[] = {{alarm_.fd(), POLLIN, 0}, {fd, events, 0}};
  poll(fds, 2, MillisecondsUntil(until, now));
  if (fds[0].revents != 0) alarm_.Clear();
}

absl::StatusOr<UniqueFd> TlsNearLink::Dial(Nanoseconds deadline) {
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

absl::Status TlsNearLink::Connect() {
  ASSIGN_OR_RETURN(UniqueFd fd, Dial(NowNs() + kHelloTimeout));
  const Nanoseconds deadline = NowNs() + kHelloTimeout;
  TlsStream stream(context_, TlsSide::kClient, std::move(fd));
  for (;;) {
    ASSIGN_OR_RETURN(const bool agreed, stream.Handshake());
    if (agreed) break;
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
  if (counted_) down_.GoDown(NowNs());
  near_.Cut(epoch);
  return why;
}

absl::StatusOr<std::unique_ptr<UcxStream>> TlsNearLink::Meet(
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

absl::Status TlsNearLink::Serve(LinkStream& stream, Epoch epoch) {
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
      turns_.GiveWay();
    }
  }
}

absl::Status TlsNearLink::Step(Epoch epoch, std::span<char> buffer,
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

// A connection that somebody has opened.
struct TlsFarLink::Peer {
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

absl::StatusOr<std::unique_ptr<TlsFarLink>> TlsFarLink::Start(
    const Settings& settings, FarHost* host) {
  ASSIGN_OR_RETURN(TlsContext context, TlsContext::Create(settings.tls));
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
    if (errno != EADDRNOTAVAIL) return Unavailable(address, errno);
    return absl::UnavailableError(
        fmt::format("{}: no address of this machine: is it another host's?",
                    address.ToString()));
  }
  std::string where = AddressOf(fd.get(), getsockname).ToString();
  std::unique_ptr<TlsFarLink> link(
      new TlsFarLink(std::move(context), std::move(ucx), std::move(fd),
                     std::move(where), settings.link, host));
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

TlsFarLink::TlsFarLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
                       UniqueFd listener, std::string address, LinkOptions link,
                       FarHost* host)
    : context_(std::move(context)),
      ucx_(std::move(ucx)),
      listener_(std::move(listener)),
      address_(std::move(address)),
      link_(std::move(link)),
      far_(link_, host, NowNs()) {}

TlsFarLink::~TlsFarLink() {
  stop_ = true;
  alarm_.Ring();
  thread_.join();
}

void TlsFarLink::With(const std::function<void(FarEnd&)>& use) {
  BlockSigpipe();
  absl::StatusOr<Sent> sent = Sent::kBlocked;
  {
    const Turns::Turn turn(turns_, mutex_);
    use(far_);
    if (served_ != nullptr && far_.MayWrite({served_->epoch, {}})) {
      LinkStream& carrier = served_->carrier();
      sent = SendSome(far_, carrier, NowNs(), served_->out);
      if (carrier.NeedsRead()) alarm_.Ring();
    }
  }
  if (!sent.ok() || *sent != Sent::kAll) alarm_.Ring();
}

LinkStatus TlsFarLink::status() {
  const Turns::Turn turn(turns_, mutex_);
  LinkStatus status = status_;
  status.up = far_.is_up();
  status.downs = down_.times();
  status.down = down_.total(NowNs());
  status.rtt = far_.rtt();
  status.in_flight = far_.in_flight();
  return status;
}

void TlsFarLink::Run() {
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
    if (busy) turns_.GiveWay();
    std::vector<pollfd> fds = Descriptors();
    const Nanoseconds now = NowNs();
    poll(fds.data(), fds.size(),
         busy ? 0 : MillisecondsUntil(now + link_.times.ping, now));
    if (fds[0].revents != 0) alarm_.Clear();
    knocked = fds[1].revents != 0;
  }
}

std::vector<pollfd> TlsFarLink::Descriptors() {
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

void TlsFarLink::AcceptAll() {
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

absl::Status TlsFarLink::Step(Peer& peer) {
  peer.idle = true;
  if (peer.stage != Stage::kServed && NowNs() >= peer.deadline) {
    return absl::DeadlineExceededError(
        fmt::format("no HELLO within {}", FormatExactDuration(kHelloTimeout)));
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

absl::Status TlsFarLink::Greet(Peer& peer) {
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
      if (served_ != nullptr) down_.GoDown(NowNs());
      served_ = &peer;
      ++status_.connections;
      down_.ComeUp(NowNs());
      return far_.Receive(peer.epoch, peer.first.TakeRest(), NowNs());
    }
  }
  const Refusal& refusal = std::get<Refusal>(answer);
  Refuse(peer, hello->host == link_.peer ? refusal : Misdirected(refusal.why));
  return absl::OkStatus();
}

absl::Status TlsFarLink::Admit(Peer& peer, const Meet& asked) {
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

absl::Status TlsFarLink::Serve(Peer& peer) {
  MutexLock lock(mutex_);
  LinkStream& carrier = peer.carrier();
  const absl::StatusOr<size_t> got = carrier.Read(buffer_);
  const Nanoseconds now = NowNs();
  if (!far_.MayWrite({peer.epoch, {}})) {
    return absl::CancelledError("another connection has taken its place");
  }
  if (peer.ucx &&
      peer.ucx->refused() > std::exchange(peer.strange, peer.ucx->refused())) {
    ++status_.refused;
    status_.refusal = "a message by UCX has no ticket that is good here";
  }
  RETURN_IF_ERROR(got.status());
  RETURN_IF_ERROR(far_.Receive(peer.epoch, {buffer_.data(), *got}, now));
  if (far_.IsSilent(now)) return SilentFor(link_.times.timeout);
  ASSIGN_OR_RETURN(const Sent sent, SendSome(far_, carrier, now, peer.out));
  peer.idle = sent != Sent::kMore && carrier.MayWait(*got);
  return absl::OkStatus();
}

absl::Status TlsFarLink::SayWhyNot(Peer& peer) {
  LinkStream& carrier = peer.carrier();
  RETURN_IF_ERROR(Flush(carrier, peer.out));
  if (!peer.out.empty()) return absl::OkStatus();
  peer.idle = carrier.MayWait(0);
  if (!peer.said) carrier.EndWriting();
  peer.said = true;
  if (carrier.Drain()) return absl::CancelledError("it has hung up");
  return absl::OkStatus();
}

Refusal TlsFarLink::Misdirected(std::string_view why) const {
  return {RefusalCode::kOther,
          fmt::format("{} is where host {} waits for host {}: {}", address_,
                      link_.self.host, link_.peer, why)};
}

void TlsFarLink::Refuse(Peer& peer, const Refusal& refusal) {
  peer.stage = Stage::kRefused;
  peer.deadline = NowNs() + kFarewell;
  peer.idle = false;
  AppendFrame(refusal, &peer.out);
  MutexLock lock(mutex_);
  ++status_.refused;
  status_.error = status_.refusal =
      fmt::format("{}: {}", peer.from, refusal.why);
}

void TlsFarLink::End(Peer& peer, const absl::Status& why) {
  const Stage stage = peer.stage;
  if (stage == Stage::kRefused || absl::IsDeadlineExceeded(why)) {
    peer.ended = true;
  }
  if (stage == Stage::kRefused) return;
  {
    MutexLock lock(mutex_);
    if (served_ == &peer) {
      served_ = nullptr;
      down_.GoDown(NowNs());
    }
    far_.Cut(peer.epoch);
    status_.error = std::string(why.message());
    if (stage != Stage::kServed) {
      ++status_.refused;
      if (absl::IsUnauthenticated(why)) {
        status_.refusal = fmt::format("{}: {}", peer.from, why.message());
      }
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
