#include "tools/bench/transports/transport.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {

std::span<const Transport> AllTransports() {
  static const Transport kAll[] = {
      PlainRing(), Ring(),      RingNull(),      FutexWake(),
      EventEcho(), EventNull(), UnixSeqpacket(), BoostMessageQueue(),
      ZeroMqIpc(), GrpcUnary(),
  };
  return kAll;
}

const Transport* FindTransport(std::string_view name) {
  for (const Transport& transport : AllTransports()) {
    if (transport.name == name) return &transport;
  }
  return nullptr;
}

}  // namespace carillon::bench
