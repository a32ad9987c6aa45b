#include "tools/testbed/load/memc_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::testbed {
namespace {

constexpr uint32_t kMessageBytes = 2048;
constexpr uint32_t kReceiveBatch = 64;
// The attempts for one SET that fills the server, since a busy machine may be
// slow.
constexpr int kWarmAttempts = 10;
constexpr int kWarmWaitMs = 500;
constexpr std::string_view kStored = "STORED\r\n";

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

absl::StatusOr<UniqueFd> ConnectSocket(const std::string& host, uint16_t port,
                                       int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("host '{}': {}", host, gai_strerror(error)));
  }
  UniqueFd fd(socket(found->ai_family, type | SOCK_CLOEXEC, 0));
  const int result =
      fd ? connect(fd.get(), found->ai_addr, found->ai_addrlen) : -1;
  const int why = errno;
  freeaddrinfo(found);
  if (result != 0) {
    return absl::UnavailableError(
        fmt::format("cannot connect to {}:{}: {}", host, port, strerror(why)));
  }
  return fd;
}

void Append(std::byte** at, std::string_view text) {
  std::memcpy(*at, text.data(), text.size());
  *at += text.size();
}

}  // namespace

struct MemcClient::Slot {
  uint16_t id = 0;  // generation above the slot's index
  bool busy = false;
  bool is_set = false;
  uint32_t key = 0;
  uint32_t bytes = 0;
  uint64_t sent_ns = 0;
  std::array<std::byte, kMessageBytes> request;
};

struct MemcClient::Buffers {
  std::array<std::array<char, kMessageBytes>, kReceiveBatch> data;
  std::array<iovec, kReceiveBatch> parts;
  std::array<mmsghdr, kReceiveBatch> messages{};
};

void LoadResult::Merge(const LoadResult& other) {
  replies += other.replies;
  gets += other.gets;
  sets += other.sets;
  misses += other.misses;
  bad += other.bad;
  lost += other.lost;
  late += other.late;
  elapsed_ns += other.elapsed_ns;
  latency.Merge(other.latency);
}

MemcClient::MemcClient(const Workload& workload, std::string host,
                       uint16_t port)
    : workload_(workload),
      host_(std::move(host)),
      address_(fmt::format("{}:{}", host_, port)),
      slot_bits_(static_cast<uint32_t>(std::bit_width(workload.window - 1))),
      choice_(workload.keys, workload.zipf, workload.seed),
      random_(workload.seed),
      value_line_(fmt::format(" 0 {}\r\n", workload.value_bytes)),
      set_line_(fmt::format(" 0 0 {}\r\n", workload.value_bytes)),
      slots_(workload.window),
      buffers_(std::make_unique<Buffers>()) {
  for (uint32_t k = 0; k < workload_.keys; ++k) {
    keys_ += fmt::format("key{:0>{}x}", k, workload_.key_bytes - 3);
    for (uint32_t i = 0; i < workload_.value_bytes; ++i) {
      values_ += static_cast<char>(Mix(k * 1000003ull + i) & 0xff);
    }
  }
  for (uint32_t i = 0; i < workload_.window; ++i) {
    slots_[i].id = static_cast<uint16_t>(i);
    free_.push_back(i);
  }
  for (uint32_t i = 0; i < kReceiveBatch; ++i) {
    buffers_->parts[i] = {buffers_->data[i].data(), kMessageBytes};
    buffers_->messages[i].msg_hdr.msg_iov = &buffers_->parts[i];
    buffers_->messages[i].msg_hdr.msg_iovlen = 1;
  }
}

MemcClient::~MemcClient() = default;

absl::StatusOr<std::unique_ptr<MemcClient>> MemcClient::Connect(
    const std::string& host, uint16_t port, const Workload& asked) {
  Workload workload = asked;
  if (workload.burst == 0) workload.burst = std::min(workload.window, 32u);
  if (workload.keys == 0 || workload.key_bytes < 12 ||
      workload.key_bytes > 250 || workload.value_bytes == 0 ||
      workload.value_bytes > 1024 || workload.window == 0 ||
      workload.window > 4096 || workload.burst > workload.window) {
    return absl::InvalidArgumentError(fmt::format(
        "keys {}, key bytes {}, value bytes {}, window {}, burst {}: must be "
        ">= 1, 12..250, 1..1024, 1..4096 and 1..window",
        workload.keys, workload.key_bytes, workload.value_bytes,
        workload.window, workload.burst));
  }
  ASSIGN_OR_RETURN(auto fd, ConnectSocket(host, port, SOCK_DGRAM));
  std::unique_ptr<MemcClient> client(new MemcClient(workload, host, port));
  client->fd_ = std::move(fd);
  // The socket has room for every reply, so that a lost datagram is the
  // server's fault.
  const int bytes = 4 << 20;
  setsockopt(client->fd_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  const timeval wait = {.tv_sec = 0, .tv_usec = 2000};
  setsockopt(client->fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  return client;
}

absl::Status MemcClient::WarmByUdp() {
  for (uint32_t key = 0; key < workload_.keys; ++key) {
    std::string request(8, '\0');
    request[0] = static_cast<char>(key >> 8);
    request[1] = static_cast<char>(key);
    request[5] = 1;
    request += SetRequest(key);
    RETURN_IF_ERROR(StoreOne(key, request));
  }
  return absl::OkStatus();
}

absl::Status MemcClient::StoreOne(uint32_t key, const std::string& request) {
  std::array<char, kMessageBytes> reply;
  for (int attempt = 0; attempt < kWarmAttempts; ++attempt) {
    if (send(fd_.get(), request.data(), request.size(), 0) < 0 &&
        errno == ECONNREFUSED) {
      return absl::UnavailableError(
          fmt::format("nobody serves UDP at {}", address_));
    }
    pollfd ready = {fd_.get(), POLLIN, 0};
    while (poll(&ready, 1, kWarmWaitMs) > 0) {
      const ssize_t bytes =
          recv(fd_.get(), reply.data(), reply.size(), MSG_DONTWAIT);
      // Anything else is the late answer to an earlier attempt.
      if (bytes < 8 || std::memcmp(reply.data(), request.data(), 2) != 0) {
        continue;
      }
      const std::string_view text(reply.data() + 8,
                                  static_cast<size_t>(bytes) - 8);
      if (text == kStored) return absl::OkStatus();
      return absl::InternalError(fmt::format("{} answered 'set {}' with '{}'",
                                             address_, Key(key), text));
    }
  }
  return absl::UnavailableError(
      fmt::format("{} did not answer 'set {}' in {} attempts", address_,
                  Key(key), kWarmAttempts));
}

absl::Status MemcClient::WarmByTcp(uint16_t port) {
  ASSIGN_OR_RETURN(auto fd, ConnectSocket(host_, port, SOCK_STREAM));
  const timeval wait = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  for (uint32_t key = 0; key < workload_.keys; ++key) {
    const std::string request = SetRequest(key);
    if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      return absl::UnavailableError(
          fmt::format("sending to {}: {}", host_, strerror(errno)));
    }
    std::array<char, kStored.size()> reply;
    const ssize_t bytes =
        recv(fd.get(), reply.data(), reply.size(), MSG_WAITALL);
    const std::string_view text(
        reply.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    if (bytes < static_cast<ssize_t>(reply.size()) &&
        kStored.starts_with(text)) {
      return absl::UnavailableError(fmt::format(
          "the connection ended in the answer to 'set {}'", Key(key)));
    }
    if (text != kStored) {
      return absl::InternalError(
          fmt::format("'set {}' was answered '{}'", Key(key), text));
    }
  }
  return absl::OkStatus();
}

void MemcClient::Prepare(Slot* slot) {
  // The next generation of the id; the slot's index stays in the low bits.
  slot->id = static_cast<uint16_t>(slot->id + (1u << slot_bits_));
  slot->key = choice_.Next();
  slot->is_set = false;
  if (workload_.get_share < 1.0) {
    random_ = Mix(random_ + 0x9e3779b97f4a7c15u);
    slot->is_set =
        static_cast<double>(random_ >> 11) * 0x1p-53 >= workload_.get_share;
  }
  std::byte* at = slot->request.data();
  const std::array<char, 8> frame = {static_cast<char>(slot->id >> 8),
                                     static_cast<char>(slot->id),
                                     0,
                                     0,
                                     0,
                                     1,
                                     0,
                                     0};
  Append(&at, {frame.data(), frame.size()});
  Append(&at, slot->is_set ? "set " : "get ");
  Append(&at, Key(slot->key));
  if (slot->is_set) {
    Append(&at, set_line_);
    Append(&at, Value(slot->key));
  }
  Append(&at, "\r\n");
  slot->bytes = static_cast<uint32_t>(at - slot->request.data());
  slot->busy = true;
}

void MemcClient::SendBurst(uint32_t count) {
  std::array<mmsghdr, kReceiveBatch> messages{};
  std::array<iovec, kReceiveBatch> parts;
  std::array<uint32_t, kReceiveBatch> chosen;
  while (count > 0) {
    const uint32_t n = std::min(count, kReceiveBatch);
    for (uint32_t i = 0; i < n; ++i) {
      chosen[i] = free_.back();
      free_.pop_back();
      Slot& slot = slots_[chosen[i]];
      Prepare(&slot);
      parts[i] = {slot.request.data(), slot.bytes};
      messages[i].msg_hdr = {};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const uint64_t now = NowNs();
    for (uint32_t i = 0; i < n; ++i) slots_[chosen[i]].sent_ns = now;
    for (uint32_t sent = 0; sent < n;) {
      const int result =
          sendmmsg(fd_.get(), messages.data() + sent, n - sent, 0);
      if (result > 0) sent += static_cast<uint32_t>(result);
      // An unsent request will be found as lost.
      else if (errno != EINTR)
        ++sent;
    }
    count -= n;
  }
}

bool MemcClient::IsExpected(const Slot& slot, std::string_view text) const {
  if (slot.is_set) return text == kStored;
  const std::array<std::string_view, 5> expected = {
      "VALUE ", Key(slot.key), value_line_, Value(slot.key), "\r\nEND\r\n"};
  for (const std::string_view part : expected) {
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
  }
  return text.empty();
}

void MemcClient::HandleReply(std::string_view reply, uint64_t now,
                             LoadResult* result) {
  if (reply.size() < 8) {
    ++result->bad;
    return;
  }
  const auto id = static_cast<uint16_t>(static_cast<uint8_t>(reply[0]) << 8 |
                                        static_cast<uint8_t>(reply[1]));
  const uint32_t index = id & ((1u << slot_bits_) - 1);
  if (index >= slots_.size()) {
    ++result->bad;
    return;
  }
  Slot& slot = slots_[index];
  if (!slot.busy || slot.id != id) {
    ++result->late;
    return;
  }
  slot.busy = false;
  free_.push_back(index);
  bool good;
  bool miss = false;
  if (workload_.echo) {
    good = reply.size() == slot.bytes &&
           std::memcmp(reply.data(), slot.request.data(), slot.bytes) == 0;
  } else {
    // The frame must be sequence 0 of 1, with nothing reserved.
    const bool frame = std::memcmp(reply.data() + 2, "\0\0\0\1\0\0", 6) == 0;
    const std::string_view text = reply.substr(8);
    miss = !slot.is_set && text == "END\r\n";
    good = frame && (miss || IsExpected(slot, text));
  }
  if (!good) {
    ++result->bad;
    return;
  }
  ++result->replies;
  ++(slot.is_set ? result->sets : result->gets);
  if (miss) ++result->misses;
  result->latency.AddBucket(shm::HistogramBucket(now - slot.sent_ns), 1);
}

void MemcClient::Receive(LoadResult* result) {
  const int received = recvmmsg(fd_.get(), buffers_->messages.data(),
                                kReceiveBatch, MSG_WAITFORONE, nullptr);
  const uint64_t now = NowNs();
  for (int i = 0; i < received; ++i) {
    HandleReply({buffers_->data[static_cast<size_t>(i)].data(),
                 buffers_->messages[static_cast<size_t>(i)].msg_len},
                now, result);
  }
  const auto timeout = static_cast<uint64_t>(
      std::chrono::nanoseconds(workload_.timeout).count());
  if (now - last_scan_ns_ > timeout / 8) {
    last_scan_ns_ = now;
    GiveUpLost(now, result);
  }
}

void MemcClient::GiveUpLost(uint64_t now, LoadResult* result) {
  const auto timeout = static_cast<uint64_t>(
      std::chrono::nanoseconds(workload_.timeout).count());
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].busy && now - slots_[i].sent_ns > timeout) {
      slots_[i].busy = false;
      free_.push_back(i);
      ++result->lost;
    }
  }
}

void MemcClient::Run(std::chrono::nanoseconds duration, LoadResult* result) {
  const uint64_t start = NowNs();
  const uint64_t end = start + static_cast<uint64_t>(duration.count());
  uint64_t now = start;
  while (now < end) {
    while (free_.size() >= workload_.burst) SendBurst(workload_.burst);
    Receive(result);
    now = NowNs();
  }
  result->elapsed_ns += now - start;
  // The rest belongs to no measured interval.
  LoadResult rest;
  while (free_.size() < slots_.size()) Receive(&rest);
  result->bad += rest.bad;
  result->lost += rest.lost;
}

}  // namespace carillon::testbed
