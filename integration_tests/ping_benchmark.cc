// Pings by each kind of port: how long an answer of an event kernel takes, and how
// many there are in a second, beside a bare thread that answers on the same link
// by recvmmsg and sendmmsg (read and write for TAP). In turns, A B B A.
//
//   bazel run //integration_tests:ping_benchmark [ROUNDS]
//
// AF_XDP takes root; it is left out, and named, without.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/temp_directory.h"
#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "devices/packet_io/frame_pool.h"
#include "devices/packet_io/internet_checksum.h"
#include "devices/packet_io/tap_port.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Process;
using testing::Testbed;

constexpr Nanoseconds kTrialNs = 1'000'000'000;
constexpr Nanoseconds kLostAfterNs = 20'000'000;
constexpr uint32_t kBurst = 64;
constexpr uint32_t kWindow = 256;  // requests without an answer
constexpr size_t kFrameBytes = 60;
constexpr size_t kDataAt = 42;  // in a frame
constexpr size_t kDataBytes = kFrameBytes - kDataAt;
constexpr uint16_t kUdpPort = 7777;
// In the other namespace: Linux has the first one, and would answer pings to it.
constexpr const char* kUdpAddress = "10.0.1.1";
constexpr const char* kPingAddress = "10.0.1.3";

void Require(bool condition, const std::string& what) {
  if (condition) return;
  fmt::print(stderr, "{}: {}\n", what, strerror(errno));
  std::exit(1);
}

void Enter(pid_t pid) {
  const UniqueFd ns(
      open(fmt::format("/proc/{}/ns/net", pid).c_str(), O_RDONLY | O_CLOEXEC));
  Require(ns && setns(ns.get(), CLONE_NEWNET) == 0, "setns");
}

void SetBuffers(int fd) {
  const int size = 4 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
}

UniqueFd PacketSocket(const std::string& interface) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int on = 1;
  SetBuffers(fd.get());
  setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
  setsockopt(fd.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_IP);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  Require(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) == 0,
          interface);
  return fd;
}

sockaddr_in UdpAddress() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kUdpPort);
  inet_pton(AF_INET, kUdpAddress, &address.sin_addr);
  return address;
}

UniqueFd UdpSocket() {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SetBuffers(fd.get());
  return fd;
}

using Message = std::array<std::byte, 2048>;

struct Burst {
  std::array<Message, kBurst> bytes;
  std::array<iovec, kBurst> parts;
  std::array<sockaddr_in, kBurst> peers{};
  std::array<mmsghdr, kBurst> messages{};
  Burst() {
    for (uint32_t i = 0; i < kBurst; ++i) {
      parts[i] = {bytes[i].data(), bytes[i].size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
  void Reset(bool with_peers) {
    for (uint32_t i = 0; i < kBurst; ++i) {
      parts[i].iov_len = bytes[i].size();
      if (!with_peers) continue;
      messages[i].msg_hdr.msg_name = &peers[i];
      messages[i].msg_hdr.msg_namelen = sizeof(peers[i]);
    }
  }
};

// --- What answers without a GPU

// Makes a reply of a request. RFC 1624 for the checksum.
void Answer(std::byte* frame) {
  std::swap_ranges(frame, frame + 6, frame + 6);
  std::swap_ranges(frame + 26, frame + 30, frame + 30);
  uint16_t sum;
  std::memcpy(&sum, frame + 36, sizeof(sum));
  uint32_t more = uint32_t{sum} + 8;
  more = (more & 0xffff) + (more >> 16);
  sum = static_cast<uint16_t>(more);
  frame[34] = std::byte{0};
  std::memcpy(frame + 36, &sum, sizeof(sum));
}

void AnswerBySocket(int fd, bool udp, const std::atomic<bool>& stop) {
  auto burst = std::make_unique<Burst>();
  while (!stop) {
    burst->Reset(udp);
    const int count =
        recvmmsg(fd, burst->messages.data(), kBurst, MSG_DONTWAIT, nullptr);
    if (count <= 0) {
      pollfd readable = {fd, POLLIN, 0};
      poll(&readable, 1, 10);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      burst->parts[i].iov_len = burst->messages[i].msg_len;
      if (!udp) Answer(burst->bytes[i].data());
    }
    for (int sent = 0; sent < count;) {
      const int some = sendmmsg(fd, burst->messages.data() + sent,
                                static_cast<uint32_t>(count - sent), 0);
      sent += std::max(some, 1);
    }
  }
}

void AnswerByTap(int fd, const std::atomic<bool>& stop) {
  Message frame;
  while (!stop) {
    const ssize_t length = read(fd, frame.data(), frame.size());
    if (length <= 0) {
      pollfd readable = {fd, POLLIN, 0};
      poll(&readable, 1, 10);
      continue;
    }
    if (length < static_cast<ssize_t>(kFrameBytes)) continue;
    Answer(frame.data());
    [[maybe_unused]] const ssize_t written =
        write(fd, frame.data(), static_cast<size_t>(length));
  }
}

// --- The side that pings

class Client {
 public:
  Client(UniqueFd fd, bool udp) : fd_(std::move(fd)), udp_(udp) {
    const sockaddr_in to = UdpAddress();
    if (udp_) {
      Require(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to),
                      sizeof(to)) == 0,
              "connect");
    }
  }

  // Sends requests [first, first + count). Returns how many.
  uint32_t Send(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      std::byte* const bytes = out_->bytes[i].data();
      out_->parts[i].iov_len = udp_ ? kDataBytes : kFrameBytes;
      if (udp_) {
        std::memset(bytes, 0x55, kDataBytes);
        Put(bytes, first + i);
      } else {
        MakeRequest(bytes, first + i);
      }
    }
    const int sent = sendmmsg(fd_.get(), out_->messages.data(), count, 0);
    return sent > 0 ? static_cast<uint32_t>(sent) : 0;
  }
  // Calls sink(number) for each answer that waits. Returns how many.
  template <class Sink>
  uint32_t Receive(const Sink& sink) {
    in_->Reset(false);
    const int count = recvmmsg(fd_.get(), in_->messages.data(), kBurst,
                               MSG_DONTWAIT, nullptr);
    uint32_t answers = 0;
    for (int i = 0; i < count; ++i) {
      const std::byte* const bytes = in_->bytes[i].data();
      const uint32_t length = in_->messages[i].msg_len;
      if (length < (udp_ ? kDataBytes : kFrameBytes)) continue;
      if (!udp_ && !IsReply(bytes)) continue;
      uint32_t number;
      std::memcpy(&number, bytes + (udp_ ? 0 : kDataAt), sizeof(number));
      sink(number);
      ++answers;
    }
    return answers;
  }
  void Wait() const {
    pollfd readable = {fd_.get(), POLLIN, 0};
    poll(&readable, 1, 1);
  }

 private:
  static void Put(std::byte* to, uint32_t number) {
    std::memcpy(to, &number, sizeof(number));
  }
  static void MakeRequest(std::byte* frame, uint32_t number) {
    static constexpr std::array<uint8_t, kDataAt> kHead = {
        2, 0,  0, 0, 1, 1,  2, 0, 0, 0,  1, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40,
        0, 64, 1, 0, 0, 10, 0, 1, 2, 10, 0, 1, 3, 8, 0,    0, 0, 0,  1, 0, 0};
    std::memcpy(frame, kHead.data(), kHead.size());
    std::memset(frame + kDataAt, 0x55, kDataBytes);
    Put(frame + kDataAt, number);
    const std::span<std::byte> bytes(frame, kFrameBytes);
    packet_io::CompleteChecksum(bytes.first(34), 14, 10);
    packet_io::CompleteChecksum(bytes, 34, 2);
  }
  // With right checksums.
  static bool IsReply(const std::byte* frame) {
    return frame[12] == std::byte{8} && frame[13] == std::byte{0} &&
           frame[23] == std::byte{1} && frame[34] == std::byte{0} &&
           packet_io::OnesSum({frame + 14, 20}) == 0xffff &&
           packet_io::OnesSum({frame + 34, kFrameBytes - 34}) == 0xffff;
  }

  const UniqueFd fd_;
  const bool udp_;
  std::unique_ptr<Burst> out_ = std::make_unique<Burst>();
  std::unique_ptr<Burst> in_ = std::make_unique<Burst>();
};

struct Figures {
  double p50 = 0, p95 = 0, p99 = 0;  // microseconds, one request at a time
  double rate = 0;                   // answers a second, kWindow at a time
  uint64_t lost = 0;
};

void MeasureTimes(Client& client, uint32_t* next, Figures* figures) {
  std::vector<Nanoseconds> times;
  const Nanoseconds end = NowNs() + kTrialNs;
  while (NowNs() < end) {
    const uint32_t number = (*next)++;
    const Nanoseconds start = NowNs();
    client.Send(number, 1);
    bool came = false;
    while (!came && NowNs() - start < kLostAfterNs) {
      client.Receive([&](uint32_t got) { came |= got == number; });
      if (!came) client.Wait();
    }
    if (came) {
      times.push_back(NowNs() - start);
    } else {
      ++figures->lost;
    }
  }
  if (times.empty()) return;
  std::ranges::sort(times);
  const auto at = [&](double part) {
    return static_cast<double>(
               times[static_cast<size_t>(part * (times.size() - 1.0))]) /
           1e3;
  };
  figures->p50 = at(0.5);
  figures->p95 = at(0.95);
  figures->p99 = at(0.99);
}

void MeasureRate(Client& client, uint32_t* next, Figures* figures) {
  // Answers of before count no more.
  const uint32_t first = *next;
  uint32_t outstanding = 0;
  uint64_t answers = 0;
  const Nanoseconds start = NowNs();
  Nanoseconds last = start;
  Nanoseconds now = start;
  while ((now = NowNs()) - start < kTrialNs) {
    if (outstanding + kBurst <= kWindow) {
      const uint32_t sent = client.Send(*next, kBurst);
      *next += sent;
      outstanding += sent;
    }
    const uint32_t got = client.Receive([&](uint32_t number) {
      if (number - first < *next - first) ++answers;
    });
    if (got > 0) {
      outstanding -= std::min(outstanding, got);
      last = now;
    } else if (now - last > kLostAfterNs) {
      figures->lost += outstanding;
      outstanding = 0;
      last = now;
    } else if (outstanding + kBurst > kWindow) {
      client.Wait();
    }
  }
  figures->rate =
      static_cast<double>(answers) * 1e9 / static_cast<double>(now - start);
}

// --- The network

class Bench {
 public:
  explicit Bench(std::string source) : source_(std::move(source)) {
    auto holder =
        Process::Start("server", {"/usr/bin/unshare", "-n", "/bin/sh", "-c",
                                  "echo entered; exec sleep "
                                  "infinity"});
    Require(holder.ok() && (*holder)->WaitForOutput("entered"), "a namespace");
    holder_ = *std::move(holder);
    if (!tap()) {
      Require(
          RunIp("", fmt::format(
                        "link add near address 02:00:00:00:01:02 type veth "
                        "peer name rear address 02:00:00:00:01:01 netns {}\n"
                        "addr add 10.0.1.2/24 dev near\nlink set near up\n",
                        holder_->pid())),
          "a cable");
      InServer("ip addr add 10.0.1.1/24 dev rear && ip link set rear up");
    }
    std::ofstream{routes_};
    auto testbed = Testbed::Start();
    Require(testbed.ok(), "a testbed");
    testbed_ = *std::move(testbed);
  }
  ~Bench() { RunIp("-force", "link del near\n"); }

  Figures Run(bool gpu) { return gpu ? RunRouter() : RunBare(); }

 private:
  bool tap() const { return source_ == "tap"; }
  bool udp() const { return source_ == "udp"; }

  void InServer(const std::string& command) {
    Require(std::system(fmt::format("nsenter -t {} -n sh -c '{}'",
                                    holder_->pid(), command)
                            .c_str()) == 0,
            command);
  }
  // The TAP's other side is this namespace's.
  void TakeTap() {
    InServer(fmt::format("ip link set near address 02:00:00:00:01:02 netns {}",
                         getpid()));
    Require(RunIp("", "addr add 10.0.1.2/24 dev near\nlink set near up\n"),
            "the TAP");
  }
  Figures Measure() {
    Client client(udp() ? UdpSocket() : PacketSocket("near"), udp());
    uint32_t next = 1;
    // Until the first answers come: interfaces take a moment.
    const bool answered = Eventually([&] {
      client.Send(next++, 1);
      client.Wait();
      return client.Receive([](uint32_t) {}) > 0;
    });
    Require(answered, source_ + ": no answer");
    Figures figures;
    MeasureTimes(client, &next, &figures);
    MeasureRate(client, &next, &figures);
    return figures;
  }

  Figures RunRouter() {
    const std::string port =
        udp()   ? fmt::format("udp:{}:{}", kUdpAddress, kUdpPort)
        : tap() ? "tap:near"
                : source_ + ":rear";
    auto router = Process::Start(
        "router0", {"/usr/bin/nsenter", "-t", std::to_string(holder_->pid()),
                    "-n", testing::Program("devices/router/router"), "--dir",
                    testbed_->directory(), "--name", "router0", "--routes",
                    routes_, "--ports", "p=" + port, "--addresses",
                    fmt::format("{},{}", kUdpAddress, kPingAddress)});
    Require(router.ok() && (*router)->WaitForOutput("forwarding at"),
            router.ok() ? (*router)->output() : "a router");
    if (tap()) TakeTap();
    const Figures figures = Measure();
    (*router)->Signal(SIGTERM);
    Require((*router)->Wait() == 0, "the router's end");
    return figures;
  }

  Figures RunBare() {
    std::atomic<bool> stop{false};
    std::atomic<bool> ready{false};
    std::thread thread([&] {
      Enter(holder_->pid());
      std::vector<std::byte> memory(packet_io::FramePool::BytesFor(1));
      packet_io::FramePool pool(memory);
      if (tap()) {
        const auto port = packet_io::TapPort::Open("near", &pool);
        Require(port.ok(), "a TAP");
        ready = true;
        AnswerByTap((*port)->fd(), stop);
        return;
      }
      const UniqueFd fd = udp() ? UdpSocket() : PacketSocket("rear");
      const sockaddr_in address = UdpAddress();
      Require(
          !udp() || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0,
          "bind");
      ready = true;
      AnswerBySocket(fd.get(), udp(), stop);
    });
    Require(Eventually([&] { return ready.load(); }), "a thread");
    if (tap()) TakeTap();
    const Figures figures = Measure();
    stop = true;
    thread.join();
    return figures;
  }

  const std::string source_;
  const TempDirectory directory_;
  const std::string routes_ = directory_.path() + "/routes";
  std::unique_ptr<Process> holder_;
  std::unique_ptr<Testbed> testbed_;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

void Compare(const std::string& source, int rounds) {
  if (source == "af_xdp" && geteuid() != 0) {
    fmt::print(
        "af_xdp: left out, since only root can load a program into "
        "Linux\n");
    return;
  }
  Bench bench(source);
  std::array<std::vector<Figures>, 2> all;
  for (int round = 0; round < rounds; ++round) {
    // A B B A
    for (const bool gpu : {round % 2 == 0, round % 2 != 0}) {
      const Figures figures = bench.Run(gpu);
      all[gpu].push_back(figures);
      fmt::print(
          "{:<10} {:<6} p50 {:7.1f} us, p95 {:7.1f}, p99 {:7.1f}; "
          "{:9.0f} answers/s; {} lost\n",
          source, gpu ? "kernel" : "bare", figures.p50, figures.p95,
          figures.p99, figures.rate, figures.lost);
      std::fflush(stdout);
    }
  }
  const auto median = [&](bool gpu, double Figures::*field) {
    std::vector<double> values;
    for (const Figures& figures : all[gpu]) values.push_back(figures.*field);
    return Median(values);
  };
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    ratios.push_back(all[1][static_cast<size_t>(round)].rate /
                     all[0][static_cast<size_t>(round)].rate);
  }
  const auto [least, most] = std::ranges::minmax(ratios);
  fmt::print(
      "{}: medians of {}: kernel p50 {:.1f} us, p95 {:.1f}, p99 {:.1f}, "
      "{:.0f}/s; bare p50 {:.1f} us, p95 {:.1f}, p99 {:.1f}, {:.0f}/s; kernel "
      "/ "
      "bare {:.2f} ({:.2f} to {:.2f})\n",
      source, rounds, median(true, &Figures::p50), median(true, &Figures::p95),
      median(true, &Figures::p99), median(true, &Figures::rate),
      median(false, &Figures::p50), median(false, &Figures::p95),
      median(false, &Figures::p99), median(false, &Figures::rate),
      Median(ratios), least, most);
  std::fflush(stdout);
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  using namespace carillon;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 4;
  signal(SIGPIPE, SIG_IGN);
  if (rounds < 1) {
    fmt::print(stderr, "usage: ping_benchmark [ROUNDS]\n");
    return 2;
  }
  Require(EnterNetworkNamespace(), "no network namespace here");
  for (const char* source : {"udp", "af_packet", "af_xdp", "tap"}) {
    Compare(source, rounds);
  }
}
