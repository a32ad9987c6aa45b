// A way between two hosts that is long: TCP over loopback, each byte of which
// comes later. It stands in for tc-netem, whose module not every kernel has; the
// connection ends here and begins anew, so that TCP itself sees no distance.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_DELAY_LINE_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_DELAY_LINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "mesh/link_sockets.h"

namespace carillon::bench {

// Carries one connection at a time. A connection that ends at one side ends at
// the other, and what was on its way is lost.
class DelayLine {
 public:
  // Whoever connects to port() of loopback talks to port `to`, and each byte is
  // there `each_way` later. Errors: Internal, of a socket.
  static absl::StatusOr<std::unique_ptr<DelayLine>> Start(
      uint16_t to, std::chrono::nanoseconds each_way);
  ~DelayLine();

  uint16_t port() const { return port_; }

 private:
  DelayLine(UniqueFd listener, uint16_t port, uint16_t to,
            std::chrono::nanoseconds each_way);
  void Run();
  // Until it ends, or stop_ rings.
  void Carry(const UniqueFd& near, const UniqueFd& far);

  const UniqueFd listener_;
  const uint16_t port_;
  const uint16_t to_;
  const std::chrono::nanoseconds each_way_;
  const mesh::Alarm stop_;
  std::thread thread_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_DELAY_LINE_H_
