// The router's ports by their numbers.
#ifndef CARILLON_DEVICES_ROUTER_PORTS_H_
#define CARILLON_DEVICES_ROUTER_PORTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/packet_io/packet_port.h"
#include "devices/router/router_options.h"

namespace carillon::router {

// The ports' names: those of `ports`, and behind them `file` for `from` and `to`.
// Error: InvalidArgument.
absl::StatusOr<std::vector<std::string>> PortNames(
    const RouterOptions& options);

// For each port "lan_in", "lan_out", and what is dropped.
std::vector<std::string> PortCounterNames(
    const std::vector<std::string>& ports);

// Not thread safe.
class Ports {
 public:
  // Those of PortNames(). Errors: InvalidArgument, and those of each port's
  // Open(): above all PermissionDenied, which names the capability.
  static absl::StatusOr<Ports> Open(const RouterOptions& options,
                                    packet_io::FramePool* pool);

  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return ports_.size(); }
  packet_io::PacketPort& operator[](size_t port) { return *ports_[port]; }

  // Its frames are datagrams of a socket.
  bool is_udp(size_t port) const { return is_udp_[port]; }

  // Readable while frames wait at any of them.
  int fd() const { return epoll_.get(); }
  struct Arrival {
    packet_io::Frame frame;
    uint32_t port;
  };
  // Appends waiting frames of all ports, a burst at most of each. Returns false
  // if no more are waiting.
  bool Receive(std::vector<Arrival>* arrivals);
  // Queues a frame, whose parts must not change until Flush(). Requires
  // port < size().
  void Send(size_t port, const packet_io::OutgoingFrame& frame) {
    outgoing_[port].push_back(frame);
  }
  void Flush();

  // All ports have ended.
  bool ended() const;
  // The first error.
  absl::Status Finish();
  std::string Describe() const;

  // The values of PortCounterNames().
  std::vector<uint64_t> Counters();

 private:
  Ports() = default;
  absl::Status Add(std::string name,
                   std::unique_ptr<packet_io::PacketPort> port,
                   bool is_udp = false);

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<packet_io::PacketPort>> ports_;
  std::vector<bool> is_udp_;                                     // by port
  std::vector<std::vector<packet_io::OutgoingFrame>> outgoing_;  // by port
  std::vector<packet_io::Frame> received_;  // kept to avoid allocations
  UniqueFd epoll_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_PORTS_H_
