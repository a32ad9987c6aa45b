// For the tests of IPsec: what ESP means by definition, and a gateway without a
// network. What is expected is worked out here byte by byte, with OpenSSL's
// ciphers and nothing of the kernels' code.
#ifndef CARILLON_KERNELS_IPSEC_ESP_TEST_UTIL_H_
#define CARILLON_KERNELS_IPSEC_ESP_TEST_UTIL_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/forwarding/fib.h"
#include "kernels/forwarding/forward_test_util.h"
#include "kernels/ipsec/esp_decrypt.cuh"
#include "kernels/ipsec/esp_encrypt.cuh"
#include "kernels/ipsec/sa.h"
#include "kernels/ipsec/sa_write.cuh"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::ipsec_test {

using forwarding::Address;
using forwarding::Bytes;
using forwarding::Family;
using forwarding::MakeIpv4;
using forwarding::MakeIpv6;
using forwarding::Route;
using ipsec::Direction;
using ipsec::Suite;
using ipsec::Verdict;

// An SA as a key manager has it.
struct Association {
  uint32_t spi;
  Suite suite;
  Direction direction;
  Bytes local, peer;
  Bytes cipher_key, integrity_key;
};
ipsec::Sa ToSa(const Association& association);

// Keys of a suite's lengths, made of a number.
Association MakeAssociation(uint32_t spi, Suite suite, Direction direction,
                            const std::string& local, const std::string& peer,
                            uint32_t seed);
// The other end's form of it.
Association OtherEnd(const Association& association);

// The ESP packet, from the SPI to the ICV, of a payload: inner packet, padding
// and trailer. OpenSSL encrypts it.
Bytes SealEsp(const Association& sa, uint32_t sequence, const Bytes& payload);
// The payload of an inner packet with the shortest padding.
Bytes PadPayload(Suite suite, const Bytes& inner, uint8_t next_header);
// An outer header and what follows it. `traffic_class`: of the header.
Bytes WithOuterHeader(const Association& sa, const Bytes& esp,
                      uint8_t traffic_class = 0, uint16_t id = 0,
                      bool stays_whole = false);

// What a kernel made of a packet, or should make of it.
struct Handled {
  Verdict verdict = Verdict::kNone;
  uint32_t spi = 0;
  uint32_t sequence = 0;
  Bytes packet;  // with kDone
  friend bool operator==(const Handled&, const Handled&) = default;
};
void PrintTo(const Handled& handled, std::ostream* out);

// What should be made of packets, one after the other.
class Model {
 public:
  Model(std::vector<Association> table, std::vector<Route> routes,
        uint32_t stride);

  Handled Encrypt(std::span<const uint8_t> packet);
  Handled Decrypt(std::span<const uint8_t> packet);

  const std::vector<Association>& table() const { return table_; }

 private:
  struct State {
    uint64_t sequence = 0;
    uint32_t highest = 0;
    std::set<uint32_t> seen;
  };
  bool TooOldOrSeen(const State& state, uint32_t sequence) const;
  // The outbound SA's place, for an inner packet's address.
  std::optional<uint32_t> Policy(Family family,
                                 std::span<const uint8_t> address) const;
  Handled Open(const Association& sa, State& state, bool congested,
               std::span<const uint8_t> esp);

  std::vector<Association> table_;  // SPI 0: no SA
  std::vector<Route> routes_;
  uint32_t stride_;
  std::vector<State> states_;
};

// The kernels with their tables in memory, as gpud runs them.
class Gateway {
 public:
  // `routes`: to places in the table.
  Gateway(const std::vector<Association>& table,
          const std::vector<Route>& routes, uint32_t stride);

  std::vector<Handled> Encrypt(const std::vector<Bytes>& packets) {
    return Run(kernels::esp_encrypt_info, packets);
  }
  std::vector<Handled> Decrypt(const std::vector<Bytes>& packets) {
    return Run(kernels::esp_decrypt_info, packets);
  }
  std::vector<Handled> Run(const simt::KernelInfo& kernel,
                           const std::vector<Bytes>& packets);
  // Descriptors may lie anywhere. The buffers have exactly these sizes, so that
  // an access one byte too far is seen.
  std::vector<Handled> RunRaw(
      const simt::KernelInfo& kernel, std::span<const uint8_t> packets,
      const std::vector<forwarding::Packet>& descriptors);

  void Write(uint64_t first, const std::vector<ipsec::Sa>& sas);
  simt::Span<ipsec::Sa> sas() const { return {sas_.get(), sas_count_}; }
  simt::Span<uint32_t> policies(Family family) const {
    return (family == Family::kIpv4 ? four_ : six_).table();
  }
  kernels::EspArgs args() const;
  uint32_t event_status() const { return event_status_; }
  const std::vector<uint64_t>& counts() const { return counts_; }

  uint32_t blocks = 1;
  uint32_t workers = 1;

 private:
  struct Freer {
    void operator()(ipsec::Sa* memory) const { std::free(memory); }
  };
  uint32_t stride_;
  size_t sas_count_;
  std::unique_ptr<ipsec::Sa, Freer> sas_;
  forwarding::Router four_;
  forwarding::Router six_;
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(ipsec::kVerdicts);
  uint32_t event_status_ = 0;
};

}  // namespace carillon::ipsec_test

#endif  // CARILLON_KERNELS_IPSEC_ESP_TEST_UTIL_H_
