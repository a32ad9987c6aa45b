// Memcached clients that see every byte, for tests.
#ifndef CARILLON_INTEGRATION_TESTS_MEMC_TESTING_H_
#define CARILLON_INTEGRATION_TESTS_MEMC_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "integration_tests/testbed_process.h"

namespace carillon::testing {

struct MemcPorts {
  uint16_t udp = 0;
  uint16_t tcp = 0;
};

// One of the four numbers of a frame header: id, sequence, total, reserved.
// Requires datagram.size() >= 8.
uint16_t FrameField(std::string_view datagram, size_t index);

// A datagram as clients send it: id, sequence 0, total 1, reserved 0.
std::string Datagram(uint16_t id, std::string_view text);

// Blocks for at most kBound in any call; the test fails then.
class MemcUdpClient {
 public:
  explicit MemcUdpClient(uint16_t port);

  void Send(std::string_view datagram);
  // Everything that the server sends back for `datagram`, frame headers
  // included; empty if it has answered what was sent later and not this. The
  // datagram's first byte must not be 0xff. Not for replies of more than one
  // datagram: nothing says that later requests do not overtake them.
  std::vector<std::string> Ask(std::string_view datagram);
  // The datagrams of one reply, by their sequence numbers. Fails the test
  // unless it is whole.
  std::vector<std::string> AskMessage(std::string_view datagram);
  // The text of one reply in any number of datagrams.
  std::string AskText(uint16_t id, std::string_view text);
  // One datagram of any reply.
  std::string Receive();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class MemcTcpClient {
 public:
  explicit MemcTcpClient(uint16_t port);

  void Send(std::string_view text);
  // Exactly so many bytes, fewer if the server closes before.
  std::string Receive(size_t bytes);
  // Up to and with the end of a line.
  std::string ReceiveLine();
  // Sends, and receives exactly as many bytes as `reply` has.
  std::string Ask(std::string_view request, std::string_view reply);
  // Whether the server has closed, after waiting for it.
  bool WaitForClose();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// A NIC of `testbed`, ready, at any free ports unless `flags` say which. Fails
// the test when it does not get there.
std::unique_ptr<Process> StartNic(Testbed& testbed,
                                  const std::vector<std::string>& flags,
                                  MemcPorts* ports,
                                  const std::string& name = "nic0");

// Debian's memcached, ready, at free ports. Null if it is not installed.
std::unique_ptr<Process> StartMemcached(MemcPorts* ports);

// Where a program of the system is, or "".
std::string FindProgram(const std::string& name);

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_MEMC_TESTING_H_
