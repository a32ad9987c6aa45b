// For the tests of forwarding: routing tables like those of the Internet, what
// forwarding means by definition, and a router without a network. What is
// expected is worked out here byte by byte, with nothing of the kernels' code.
#ifndef CARILLON_KERNELS_FORWARDING_FORWARD_TEST_UTIL_H_
#define CARILLON_KERNELS_FORWARDING_FORWARD_TEST_UTIL_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/forwarding/fib.h"
#include "kernels/forwarding/fib_write.cuh"
#include "kernels/forwarding/ipv4_forward.cuh"
#include "kernels/forwarding/ipv6_forward.cuh"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::forwarding {

using Bytes = std::vector<uint8_t>;

// Routes whose lengths are as frequent as in the Internet's tables of 2025, in
// few enough networks that they nest.
std::vector<Route> MakeRoutes(Family family, uint32_t count, uint32_t next_hops,
                              uint64_t seed);
// Addresses inside, at the ends of and beside the routes' prefixes, and others.
std::vector<AddressBytes> MakeAddresses(std::span<const Route> routes,
                                        Family family, uint32_t count,
                                        uint64_t seed);

// The next hop by a search through all routes.
std::optional<uint32_t> LongestMatch(std::span<const Route> routes,
                                     const AddressBytes& address);

AddressBytes Address(const std::string& text);

// RFC 1071, byte by byte.
uint16_t Checksum(std::span<const uint8_t> bytes);
// Puts the right checksum into an IPv4 header of `header_bytes` bytes.
void SetChecksum(Bytes& packet, size_t header_bytes = 20);

// A UDP packet with `payload` bytes behind the IP header, with options in it.
Bytes MakeIpv4(const AddressBytes& from, const AddressBytes& to, uint8_t ttl,
               uint32_t payload = 26, const Bytes& options = {});
Bytes MakeIpv6(const AddressBytes& from, const AddressBytes& to,
               uint8_t hop_limit, uint32_t payload = 26);

// What a forwarder made of a packet.
struct Forwarded {
  Verdict verdict = Verdict::kNone;
  uint32_t next_hop = 0;
  Bytes frame;  // as it goes out, from the Ethernet header on; with kForward
  friend bool operator==(const Forwarded&, const Forwarded&) = default;
};
// For failures of tests: the verdict's number, the next hop, the frame in hex.
void PrintTo(const Forwarded& forwarded, std::ostream* out);

// What should be made of an aligned packet inside of its buffer, by the words of
// the RFCs.
Forwarded ExpectForwarded(Family family, std::span<const uint8_t> packet,
                          std::span<const Route> routes,
                          std::span<const NextHop> hops);

// Next hops whose addresses say their number.
std::vector<NextHop> MakeNextHops(uint32_t count, uint16_t mtu = 1500);

// A table in memory and the kernels that write and read it, as gpud runs them.
class Router {
 public:
  Router(Family family, uint32_t groups, uint32_t first_bits,
         std::vector<NextHop> hops);

  // Copies what has changed since this half was written last, and publishes it.
  void Publish(const Fib& fib);
  void Write(std::span<const uint32_t> words, uint64_t first);

  std::vector<Forwarded> Forward(const std::vector<Bytes>& packets);
  // Descriptors may lie anywhere. The buffers have exactly these sizes, so that
  // an access one byte too far is seen.
  std::vector<Forwarded> ForwardRaw(std::span<const uint8_t> packets,
                                    const std::vector<Packet>& descriptors);

  const simt::KernelInfo& kernel() const {
    return family_ == Family::kIpv4 ? kernels::ipv4_forward_info
                                    : kernels::ipv6_forward_info;
  }
  kernels::ForwardArgs args() const;
  simt::Span<uint32_t> table() const { return {table_.get(), table_words_}; }
  uint32_t event_status() const { return event_status_; }
  uint32_t block = 32;

 private:
  struct Freer {
    void operator()(uint32_t* memory) const { std::free(memory); }
  };
  Family family_;
  uint32_t first_bits_;
  uint64_t table_words_;
  std::unique_ptr<uint32_t, Freer> table_;
  std::vector<NextHop> hops_;
  uint32_t active_ = 0;
  uint64_t versions_[2] = {0, 0};
  uint32_t event_status_ = 0;
};

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_FORWARD_TEST_UTIL_H_
