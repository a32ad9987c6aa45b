// The transports. Each has a file of its own.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_

#include <chrono>
#include <span>

#include "tools/bench/transports/transport.h"

namespace carillon::bench {

// A textbook single-producer single-consumer ring of 64-byte slots each way. It
// shows the limit of shared memory.
Transport PlainRing();
// Carillon's ring (shm/device_ring.h, shm/gpu_ring.h) without a GPU daemon: the
// request is in the entry, the reply in an output buffer. RingNull has 8 bytes
// of parameters and no output, as a null event.
Transport Ring();
Transport RingNull();
// One futex word each way and nothing else.
Transport FutexWake();
// Carillon's whole event path: this device process, gpud, an event kernel (echo
// or null_event) and back.
Transport EventEcho();
Transport EventNull();
// How the device connects if another host's gpud runs its events: with rings for
// kMaxLinkWindow of them.
using Connection = absl::StatusOr<std::unique_ptr<Client>> (*)(
    const std::string& endpoint, Wait wait);
Connection NullEventsOverALink();
Connection EchoEventsOverALink();
// A null event of one among so many event kernels of a device
// ("event_null_16_kernels", 64, 256, 1024), or of one among so many devices of a
// process ("event_null_3_devices", 15, 31, 32): the others never ring.
std::span<const Transport> EventNullCrowds();
Transport UnixSeqpacket();
// Boost.Interprocess' message queue. Carillon itself never uses it, because it
// wedges when a peer dies inside it.
Transport BoostMessageQueue();
// ZeroMQ REQ/REP over ipc:// (DEALER/REP when pipelined).
Transport ZeroMqIpc();
// gRPC unary calls over a Unix socket, one completion queue a side.
Transport GrpcUnary();
// The same events from a device whose gpud has them run on another host, which
// is this machine, too: device, gpud, linkd, gpud and back (docs/mesh.md).
Transport RemoteEventNull();
Transport RemoteEventEcho();
// The same by a link with the engine ucx.
Transport RemoteEventNullByUcx();
Transport RemoteEventEchoByUcx();
// What such a link is made of: its TLS stream, 64 bytes each way.
Transport TlsEcho();
// The same two with the hosts 1 ms of round trip apart, by a DelayLine.
inline constexpr std::chrono::microseconds kFarEachWay{500};
Transport RemoteEventNullFar();
Transport TlsEchoFar();

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_
