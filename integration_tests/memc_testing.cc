#include "integration_tests/memc_testing.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "fmt/format.h"

namespace carillon::testing {
namespace {

constexpr size_t kFrameBytes = 8;
// The id of requests whose answer shows that everything before them was
// answered.
constexpr uint16_t kGetSentinel = 0xfff0;
constexpr uint16_t kSetSentinel = 0xfff1;

UniqueFd ConnectTo(uint16_t port, int type) {
  UniqueFd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval bound = {.tv_sec = kBound.count(), .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
  // Room for a reply of a megabyte, if the system allows it.
  const int bytes = 8 << 20;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) !=
      0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0)
      << strerror(errno);
  return fd;
}

uint16_t IdOf(std::string_view datagram) { return FrameField(datagram, 0); }

// The number after `label`; NICs and memcached write their ports in this way.
uint16_t PortAfter(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  if (at == std::string::npos) return 0;
  return static_cast<uint16_t>(
      std::strtoul(text.c_str() + at + label.size(), nullptr, 10));
}

}  // namespace

uint16_t FrameField(std::string_view datagram, size_t index) {
  return static_cast<uint16_t>(static_cast<uint8_t>(datagram[2 * index]) << 8 |
                               static_cast<uint8_t>(datagram[2 * index + 1]));
}

std::string Datagram(uint16_t id, std::string_view text) {
  std::string datagram(kFrameBytes, '\0');
  datagram[0] = static_cast<char>(id >> 8);
  datagram[1] = static_cast<char>(id);
  datagram[5] = 1;
  datagram.append(text);
  return datagram;
}

MemcUdpClient::MemcUdpClient(uint16_t port)
    : fd_(ConnectTo(port, SOCK_DGRAM)) {}

void MemcUdpClient::Send(std::string_view datagram) {
  ASSERT_EQ(send(fd_.get(), datagram.data(), datagram.size(), 0),
            static_cast<ssize_t>(datagram.size()))
      << strerror(errno);
}

std::string MemcUdpClient::Receive() {
  std::string datagram(65536, '\0');
  const ssize_t bytes = recv(fd_.get(), datagram.data(), datagram.size(), 0);
  EXPECT_GE(bytes, 0) << "no reply: " << strerror(errno);
  datagram.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return datagram;
}

std::vector<std::string> MemcUdpClient::Ask(std::string_view datagram) {
  Send(datagram);
  // Requests of one type are answered in order, so one of each ends the case.
  Send(Datagram(kGetSentinel, "get sentinel\r\n"));
  Send(Datagram(kSetSentinel, "version\r\n"));
  std::vector<std::string> replies;
  for (int sentinels = 0; sentinels < 2;) {
    std::string reply = Receive();
    if (reply.size() < kFrameBytes) {
      ADD_FAILURE() << "a reply of " << reply.size() << " bytes";
      return replies;
    }
    const uint16_t id = IdOf(reply);
    if (id == kGetSentinel || id == kSetSentinel) {
      ++sentinels;
    } else {
      replies.push_back(std::move(reply));
    }
  }
  return replies;
}

std::vector<std::string> MemcUdpClient::AskMessage(std::string_view datagram) {
  Send(datagram);
  std::map<uint16_t, std::string> parts;
  uint16_t total = 1;
  while (parts.size() < total) {
    const std::string reply = Receive();
    if (reply.size() < kFrameBytes || IdOf(reply) != IdOf(datagram)) {
      ADD_FAILURE() << "not a reply to request " << IdOf(datagram);
      return {};
    }
    total = FrameField(reply, 2);
    const uint16_t sequence = FrameField(reply, 1);
    EXPECT_LT(sequence, total);
    EXPECT_EQ(FrameField(reply, 3), 0) << "reserved";
    if (!parts.emplace(sequence, reply).second) {
      ADD_FAILURE() << "sequence number " << sequence << " twice";
      return {};
    }
  }
  std::vector<std::string> message;
  for (auto& [sequence, part] : parts) message.push_back(std::move(part));
  return message;
}

std::string MemcUdpClient::AskText(uint16_t id, std::string_view text) {
  std::string whole;
  for (const std::string& part : AskMessage(Datagram(id, text))) {
    whole += part.substr(kFrameBytes);
  }
  return whole;
}

MemcTcpClient::MemcTcpClient(uint16_t port)
    : fd_(ConnectTo(port, SOCK_STREAM)) {}

void MemcTcpClient::Send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent =
        send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ASSERT_GT(sent, 0) << strerror(errno);
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string MemcTcpClient::Receive(size_t bytes) {
  std::string text(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = recv(fd_.get(), text.data() + have, bytes - have, 0);
    EXPECT_GE(got, 0) << "no reply: " << strerror(errno);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

std::string MemcTcpClient::ReceiveLine() {
  std::string line;
  do {
    const std::string next = Receive(1);
    if (next.empty()) break;
    line += next;
  } while (line.back() != '\n');
  return line;
}

std::string MemcTcpClient::Ask(std::string_view request,
                               std::string_view reply) {
  Send(request);
  return Receive(reply.size());
}

bool MemcTcpClient::WaitForClose() {
  char byte;
  const ssize_t got = recv(fd_.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

std::unique_ptr<Process> StartNic(Testbed& testbed,
                                  const std::vector<std::string>& flags,
                                  MemcPorts* ports, const std::string& name) {
  std::vector<std::string> all = flags;
  for (const char* port : {"--udp-port", "--tcp-port"}) {
    if (std::find(flags.begin(), flags.end(), port) == flags.end()) {
      all.insert(all.end(), {port, "0"});
    }
  }
  auto nic = testbed.StartDevice(name, "devices/nic/nic", all);
  if (!nic.ok()) {
    ADD_FAILURE() << std::string(nic.status().message());
    return nullptr;
  }
  if (!(*nic)->WaitForOutput("serving memcached at ")) {
    ADD_FAILURE() << "the NIC does not serve";
    return std::move(*nic);
  }
  // The note in the control plane: "udp 127.0.0.1:PORT tcp 127.0.0.1:PORT".
  const v1::ListDevicesResponse devices = testbed.Devices();
  for (const auto& device : devices.devices()) {
    if (device.name() != name) continue;
    EXPECT_EQ(device.state(), "ready");
    ports->udp = PortAfter(device.note(), "udp 127.0.0.1:");
    ports->tcp = PortAfter(device.note(), "tcp 127.0.0.1:");
  }
  EXPECT_NE(ports->udp, 0);
  EXPECT_NE(ports->tcp, 0);
  return std::move(*nic);
}

std::unique_ptr<Process> StartMemcached(MemcPorts* ports) {
  const auto program = FindProgram("memcached");
  if (!program.ok()) return nullptr;
  const std::string file =
      fmt::format("{}/memcached-ports-{}", ::testing::TempDir(), getpid());
  unlink(file.c_str());  // of an earlier one
  // As root, memcached refuses to run without a user's name.
  // Without its LRU thread, which holds items for a moment: whether "ma" pads a
  // shorter number or makes a new item would depend on that.
  auto process = Process::Start(
      "memcached",
      {*program, "-u", "root", "-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-t",
       "1", "-m", "64", "-o", "no_lru_maintainer"},
      {"MEMCACHED_PORT_FILENAME=" + file});
  if (!process.ok()) {
    ADD_FAILURE() << std::string(process.status().message());
    return nullptr;
  }
  EXPECT_TRUE(Eventually([&] {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    ports->tcp = PortAfter(text.str(), "TCP INET: ");
    ports->udp = PortAfter(text.str(), "UDP INET: ");
    return ports->tcp != 0 && ports->udp != 0;
  }));
  return *std::move(process);
}

}  // namespace carillon::testing
