// The transports, each with its own file.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_

#include "tools/bench/transports/transport.h"

namespace carillon::bench {

// A textbook single-producer single-consumer ring of 64-byte slots each way,
// both sides spinning: what shared memory can do at all.
Transport PlainRing();
// Carillon's ring (shm/device_ring.h, shm/gpu_ring.h) without a GPU daemon: the
// request in the entry, the reply in an output buffer. RingNull: 8 bytes of
// parameters and no output, as a null event moves them.
Transport RingSpin();
Transport RingSpinThenFutex();
Transport RingNull();
// One futex word each way and nothing else; both sides sleep at once.
Transport FutexWake();
// Carillon's whole event path: this device process, gpud, an event kernel (echo
// or null_event) and back.
Transport EventEcho();
Transport EventNull();
Transport UnixSeqpacket();
// Boost.Interprocess' message queue. Carillon itself never uses it: it wedges
// when a peer dies inside it.
Transport BoostMessageQueue();
// ZeroMQ REQ/REP over ipc:// (DEALER/REP when pipelined).
Transport ZeroMqIpc();
// gRPC unary calls over a Unix socket.
Transport GrpcUnary();

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORTS_H_
