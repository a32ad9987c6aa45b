// Packets a second through the router, beside a thread that takes frames of one
// interface and sends them out of the other as they are. A host sends as fast as
// it can; what arrives at the other one counts. In turns, A B B A.
//
//   bazel run //integration_tests:router_benchmark [ROUNDS]
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
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
#include <vector>

#include "base/clock.h"
#include "base/temp_directory.h"
#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "devices/packet_io/frame_pool.h"
#include "devices/packet_io/tap_port.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Process;
using testing::Testbed;

constexpr Nanoseconds kTrialNs = 1'000'000'000;
constexpr uint32_t kBurst = 64;
constexpr size_t kFrameBytes = 60;
using FrameBytes = std::array<uint8_t, kFrameBytes>;

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

UniqueFd PacketSocket(const std::string& interface, int protocol) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int size = 4 << 20;
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
  setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
  setsockopt(fd.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(static_cast<uint16_t>(protocol));
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  Require(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) == 0,
          interface);
  return fd;
}

struct Burst {
  std::array<std::array<uint8_t, 2048>, kBurst> bytes;
  std::array<iovec, kBurst> parts;
  std::array<mmsghdr, kBurst> messages{};
  Burst() {
    for (uint32_t i = 0; i < kBurst; ++i) {
      parts[i] = {bytes[i].data(), bytes[i].size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

// The bare forwarders: until `stop`.
void ForwardPackets(const std::atomic<bool>& stop) {
  const UniqueFd in = PacketSocket("ra", ETH_P_IP);
  const UniqueFd out = PacketSocket("rb", 0);
  auto burst = std::make_unique<Burst>();
  while (!stop) {
    for (auto& part : burst->parts) part.iov_len = burst->bytes[0].size();
    const int count = recvmmsg(in.get(), burst->messages.data(), kBurst,
                               MSG_DONTWAIT, nullptr);
    if (count <= 0) {
      pollfd readable = {in.get(), POLLIN, 0};
      poll(&readable, 1, 10);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      burst->parts[i].iov_len = burst->messages[i].msg_len;
    }
    for (int sent = 0; sent < count;) {
      const int some = sendmmsg(out.get(), burst->messages.data() + sent,
                                static_cast<uint32_t>(count - sent), 0);
      sent += std::max(some, 1);
    }
  }
}

void ForwardTaps(int in, int out, const std::atomic<bool>& stop) {
  std::array<uint8_t, 2048> frame;
  while (!stop) {
    const ssize_t length = read(in, frame.data(), frame.size());
    if (length <= 0) {
      pollfd readable = {in, POLLIN, 0};
      poll(&readable, 1, 10);
    } else if (write(out, frame.data(), static_cast<size_t>(length)) < 0) {
      continue;  // no room there
    }
  }
}

FrameBytes UdpFrame() {
  FrameBytes frame = {2,    0, 0,  0,  1, 1, 2, 0, 0,  0,  1, 2, 8,  0,
                      0x45, 0, 0,  46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
                      1,    2, 10, 0,  2, 2, 0, 9, 0,  9,  0, 26};
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) sum += frame[i] * 256u + frame[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  frame[24] = static_cast<uint8_t>((0xffff - sum) >> 8);
  frame[25] = static_cast<uint8_t>(0xffff - sum);
  return frame;
}

struct Figures {
  double offered = 0;    // frames a second
  double forwarded = 0;  // the same
};

class Bench {
 public:
  explicit Bench(bool tap) : tap_(tap) {
    for (int i = 0; i < 2; ++i) {
      auto holder = Process::Start("host", {"/usr/bin/unshare", "-n", "/bin/sh",
                                            "-c", "echo in; exec sleep 1000"});
      Require(holder.ok() && (*holder)->WaitForOutput("in"), "unshare");
      hosts_.push_back(*std::move(holder));
    }
    std::ofstream(routes_)
        << "10.0.1.2/32 02:00:00:00:01:02 02:00:00:00:01:01 dev a\n"
           "10.0.2.2/32 02:00:00:00:02:02 02:00:00:00:02:01 dev b\n";
    auto testbed = Testbed::Start();
    Require(testbed.ok(), "gpud");
    testbed_ = *std::move(testbed);
    if (tap_) return;
    for (int i = 0; i < 2; ++i) {
      Require(RunIp("", fmt::format(
                            "link add r{0} address 02:00:00:00:0{1}:01 type "
                            "veth peer name host address 02:00:00:00:0{1}:02 "
                            "netns {2}\nlink set r{0} up\n",
                            "ab"[i], i + 1, hosts_[i]->pid())),
              "ip");
      InHost(i, [] { Require(RunIp("", "link set host up\n"), "ip"); });
    }
  }
  ~Bench() {
    if (!tap_) RunIp("", "link del ra\nlink del rb\n");
  }

  Figures Bare() {
    std::atomic<bool> stop = false;
    std::vector<std::byte> memory(packet_io::FramePool::BytesFor(1));
    packet_io::FramePool pool(memory);
    std::unique_ptr<packet_io::TapPort> taps[2];
    if (tap_) {
      for (int i = 0; i < 2; ++i) {
        auto tap = packet_io::TapPort::Open(fmt::format("r{}", "ab"[i]), &pool);
        Require(tap.ok(), "tap");
        taps[i] = *std::move(tap);
      }
      MoveTaps();
    }
    std::thread forwarder([&] {
      tap_ ? ForwardTaps(taps[0]->fd(), taps[1]->fd(), stop)
           : ForwardPackets(stop);
    });
    const Figures figures = Load();
    stop = true;
    forwarder.join();
    return figures;
  }

  Figures Router() {
    const std::string kind = tap_ ? "tap" : "af_packet";
    auto router =
        testbed_->StartDevice("router0", "devices/router/router",
                              {"--routes", routes_, "--ports",
                               fmt::format("a={0}:ra,b={0}:rb", kind)});
    Require(router.ok() && (*router)->WaitForOutput("forwarding at"), "router");
    if (tap_) MoveTaps();
    const Figures figures = Load();
    (*router)->Signal(SIGTERM);
    (*router)->Wait();
    return figures;
  }

 private:
  void InHost(int host, const std::function<void()>& work) {
    std::thread thread([&] {
      Enter(hosts_[host]->pid());
      work();
    });
    thread.join();
  }
  void MoveTaps() {
    for (int i = 0; i < 2; ++i) {
      Require(RunIp("", fmt::format("link set r{} name host netns {}\n",
                                    "ab"[i], hosts_[i] -> pid())),
              "ip");
      InHost(i, [] { Require(RunIp("", "link set host up\n"), "ip"); });
    }
  }
  uint64_t Arrived() {
    uint64_t packets = 0;
    InHost(1, [&] {
      std::ifstream file("/proc/thread-self/net/dev");
      for (std::string line; std::getline(file, line);) {
        unsigned long long bytes = 0, count = 0;
        if (sscanf(line.c_str(), " host: %llu %llu", &bytes, &count) == 2) {
          packets = count;
        }
      }
    });
    return packets;
  }
  Figures Load() {
    const uint64_t before = Arrived();
    uint64_t sent = 0;
    Nanoseconds took = 0;
    InHost(0, [&] {
      const UniqueFd out = PacketSocket("host", 0);
      auto burst = std::make_unique<Burst>();
      const FrameBytes frame = UdpFrame();
      for (uint32_t i = 0; i < kBurst; ++i) {
        std::copy(frame.begin(), frame.end(), burst->bytes[i].begin());
        burst->parts[i].iov_len = kFrameBytes;
      }
      const Nanoseconds start = NowNs();
      while ((took = NowNs() - start) < kTrialNs) {
        const int count =
            sendmmsg(out.get(), burst->messages.data(), kBurst, 0);
        if (count > 0) sent += static_cast<uint64_t>(count);
      }
    });
    // What is still on its way when the load ends is little, and not counted.
    const uint64_t arrived = Arrived() - before;
    const double seconds = static_cast<double>(took) / 1e9;
    return {static_cast<double>(sent) / seconds,
            static_cast<double>(arrived) / seconds};
  }

  const bool tap_;
  const TempDirectory directory_;
  const std::string routes_ = directory_.path() + "/routes";
  std::vector<std::unique_ptr<Process>> hosts_;
  std::unique_ptr<Testbed> testbed_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Run(bool tap, int rounds) {
  Bench bench(tap);
  std::vector<double> bare, router, ratios, offered;
  for (int round = 0; round < rounds; ++round) {
    const Figures first = bench.Bare();
    const Figures second = bench.Router();
    const Figures third = bench.Router();
    const Figures fourth = bench.Bare();
    bare.insert(bare.end(), {first.forwarded, fourth.forwarded});
    router.insert(router.end(), {second.forwarded, third.forwarded});
    offered.insert(offered.end(), {first.offered, second.offered, third.offered,
                                   fourth.offered});
    ratios.push_back((second.forwarded + third.forwarded) /
                     (first.forwarded + fourth.forwarded));
  }
  const auto [least, most] = std::ranges::minmax(ratios);
  fmt::print(
      "{:<10} bare {:>8.0f}/s  router {:>8.0f}/s  offered {:>8.0f}/s  "
      "router/bare {:.2f} ({:.2f} to {:.2f}, {} rounds)\n",
      tap ? "tap" : "af_packet", Median(bare), Median(router), Median(offered),
      Median(ratios), least, most, rounds);
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 5;
  carillon::Require(carillon::EnterNetworkNamespace(), "a network namespace");
  for (const bool tap : {false, true}) carillon::Run(tap, rounds);
  return 0;
}
