// The IPsec side of a router: which packets go into tunnels and which come out of
// them, the SAs in GPU memory, and their sequence numbers.
//
//   clear packet to a network behind a peer --> esp_encrypt --> forwarding
//   ESP to an end of ours --------------------> esp_decrypt --> forwarding
//
// Fails closed: what should go into a tunnel never leaves in the clear, and what
// should come out of one is not taken in the clear from where the peer is.
#ifndef CARILLON_DEVICES_ROUTER_IPSEC_TUNNELS_H_
#define CARILLON_DEVICES_ROUTER_IPSEC_TUNNELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/router/esp_channel.h"
#include "devices/router/forwarding_table.h"
#include "devices/router/ipsec/number_store.h"
#include "devices/router/ipsec/sa_file.h"
#include "devices/router/packet_events.h"
#include "devices/router/route_store.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/fib.h"

namespace carillon::router {

// Not thread safe.
class Tunnels {
 public:
  struct Options {
    uint32_t batch;
    uint32_t ring;
    uint32_t priority;
    const edge::Buffer* frames;  // of the FramePool
  };
  enum class Way {
    kForward,
    kEncrypt,
    kDecrypt,
    kRefuse,  // came in the clear from where it should be in a tunnel
  };

  // Names for counters(): "esp_encrypted", "esp_drops_replayed", ...
  static std::vector<std::string> CounterNames();
  // The room that it needs in the apertures.
  static uint64_t SubmissionBytes(const SaTable& table, uint32_t batch,
                                  uint32_t ring);
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `path`: of the tunnels, for the NumberStore. `device` must outlive it. Errors: those of
  // NumberStore::Open(), of the channels and of Begin().
  static absl::StatusOr<std::unique_ptr<Tunnels>> Make(edge::Device* device,
                                                       const Options& options,
                                                       SaTable table,
                                                       const std::string& path);

  // To be called with the routes that are in use: tunnels go out of the ports of
  // the routes to their peers.
  void UseRoutes(const RouteStore& routes) {
    outer_ports_ = OuterPorts(table_, routes);
  }
  // A bit for each port where peers are. All, with a warning, if a peer has no
  // route: it could be anywhere.
  static uint64_t OuterPorts(const SaTable& table, const RouteStore& routes);
  static constexpr uint64_t kAllPorts = ~uint64_t{0};

  // What is to be done with a packet that a port received: `ip` of an Ethernet
  // frame. Sets packet->sa with kEncrypt, and counts what it refuses.
  Way Classify(std::span<const std::byte> ip, Packet* packet);
  // Whether an answer to a packet that came in the clear may leave in the clear,
  // too; not to where a tunnel leads. Counts what it refuses.
  bool MayAnswer(std::span<const std::byte> ip);
  // As Classify(), for a packet that came out of a tunnel.
  Way ClassifyInner(std::span<const std::byte> ip, Packet* packet) const;

  EspChannel& encrypt() { return *encrypt_; }
  EspChannel& decrypt() { return *decrypt_; }
  // Counts a result. True: its packet may be passed on, and would be as new after
  // a crash. Errors: those of NumberStore::Cover(), and then it may not.
  absl::StatusOr<bool> Pass(const EspResult& result,
                            ipsec::Direction direction);

  // Writes SAs and policies into GPU memory, which are zeros. Numbers go on
  // behind all that were used, as far as anybody outside of gpud may know them.
  // Errors: ResourceExhausted (a key has no number left), Internal, and those of
  // EventQueue::Wait().
  absl::Status Begin();
  // When another gpud has taken over: waits for what the one before left undone,
  // and begins again. Errors: as Begin().
  absl::Status StartAnew();
  // Takes what has completed, as Device::Resume() requires.
  void TakeCompletions();
  // At an end in order: notes what inbound SAs have taken. Errors: those of the
  // NumberStore.
  absl::Status Settle();

  std::span<const uint64_t> counters() const { return counters_; }
  std::string Describe() const;

 private:
  Tunnels(const Options& options, SaTable table);

  absl::Status Register(edge::Device* device);
  absl::StatusOr<forwarding::Fib> MakePolicies(
      forwarding::Family family, const std::vector<forwarding::Route>& routes);
  absl::Status WriteSas();
  // Of an address behind a peer.
  std::optional<uint32_t> PolicyOf(forwarding::Family family,
                                   std::span<const std::byte> address) const;

  const Options options_;
  SaTable table_;
  std::set<std::vector<std::byte>> ends_;  // ours, of inbound SAs
  std::vector<forwarding::Fib> policies_;  // by Family
  std::unique_ptr<NumberStore> numbers_;
  std::vector<uint32_t> highest_;  // that inbound SAs have taken, by place
  uint64_t outer_ports_ = 0;       // a bit each
  edge::Buffer sas_;
  edge::Buffer staging_;
  edge::EventQueue* writer_ = nullptr;
  std::vector<std::unique_ptr<ForwardingTable>> policy_tables_;  // by Family
  std::unique_ptr<EspChannel> encrypt_;
  std::unique_ptr<EspChannel> decrypt_;
  std::vector<uint64_t> counters_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_IPSEC_TUNNELS_H_
