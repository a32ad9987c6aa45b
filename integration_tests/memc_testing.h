// Memcached clients for tests, which see every byte.
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

// No call blocks for longer than kBound; then the test fails.
class MemcUdpClient {
 public:
  explicit MemcUdpClient(uint16_t port);

  void Send(std::string_view datagram);
  // Everything that the server sends back for `datagram`, including frame
  // headers; empty if it has answered later requests but not this one. The
  // datagram's first byte must not be 0xff. Not for replies of more than one
  // datagram, since later requests might overtake them.
  std::vector<std::string> Ask(std::string_view datagram);
  // The datagrams of one reply, ordered by their sequence numbers. Fails the
  // test unless the reply is complete.
  std::vector<std::string> AskMessage(std::string_view datagram);
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
  // Everything up to and including the end of a line.
  std::string ReceiveLine();
  // Sends, and receives exactly as many bytes as `reply` has.
  std::string Ask(std::string_view request, std::string_view reply);
  // Waits for the server to close. Returns whether it did.
  bool WaitForClose();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// Starts a NIC of `testbed` and waits until it is ready, at any free ports
// unless `flags` name them. Fails the test if it does not become ready.
std::unique_ptr<Process> StartNic(Testbed& testbed,
                                  const std::vector<std::string>& flags,
                                  MemcPorts* ports,
                                  const std::string& name = "nic0");

// Starts Debian's memcached at free ports and waits until it is ready. Null if
// it is not installed.
std::unique_ptr<Process> StartMemcached(MemcPorts* ports);

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_MEMC_TESTING_H_
