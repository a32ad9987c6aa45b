#include <vector>

#include "tools/bench/transports/transport.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {

std::span<const Transport> AllTransports() {
  static const std::vector<Transport> kAll = [] {
    std::vector<Transport> all = {
        PlainRing(),
        Ring(),
        RingNull(),
        FutexWake(),
        EventEcho(),
        EventNull(),
        UnixSeqpacket(),
        BoostMessageQueue(),
        ZeroMqIpc(),
        GrpcUnary(),
        RemoteEventNull(),
        RemoteEventEcho(),
        RemoteEventNullByUcx(),
        RemoteEventEchoByUcx(),
        TlsEcho(),
        RemoteEventNullFar(),
        TlsEchoFar(),
    };
    const auto crowds = EventNullCrowds();
    all.insert(all.end(), crowds.begin(), crowds.end());
    return all;
  }();
  return kAll;
}

const Transport* FindTransport(std::string_view name) {
  for (const Transport& transport : AllTransports()) {
    if (transport.name == name) return &transport;
  }
  return nullptr;
}

}  // namespace carillon::bench
