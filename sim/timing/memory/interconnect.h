// The crossbar between SMs and L2 slices: two networks, one for requests and
// one for replies, which share nothing.
//
//   SM: queue --port--> (wires) --port--> queue of the slice     requests
//   slice: queue --port--> (wires) --port--> the SM              replies
//
// A packet leaves its queue when its port is free and its destination has a
// credit, which stands for a place there, and is given back when the
// destination has dealt with the packet. Queues are in order: a packet without
// a credit holds up those behind it, whatever their destination
// (head-of-line blocking). So a slice that does not get on stops the SMs that
// send to it, one after the other.
//
// Nothing can be held up for ever:
//  - An SM takes each reply when it arrives, whatever else it does, so credits
//    for replies always come back, and the slices' queues of replies empty.
//  - What DRAM delivers is always taken (l2.h), so the queues of DRAM empty.
//  - A slice's oldest request waits only for a place for its reply, for a place
//    in the queue to DRAM, or for an MSHR, which DRAM's data frees. None of
//    these waits for another request. So credits for requests come back.
#ifndef CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_
#define CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/timing/config.h"
#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/memory_request.h"

namespace carillon::sim::timing {

struct Packet {
  MemoryRequest request;
  uint64_t line = 0;  // in the slice's own addresses
  uint32_t destination = 0;
  uint32_t bytes = 0;  // without the header
};

// One direction, from sources to destinations.
class Network {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Shape {
    uint32_t sources = 1;
    uint32_t destinations = 1;
    uint32_t queue = 1;    // packets of a source
    uint32_t credits = 1;  // packets of a destination, under way or there
    Ticks latency = 0;
    Ticks flit = 1;             // how long a port takes for its bytes
    uint32_t source_bytes = 1;  // of a source's port
    uint32_t destination_bytes = 1;
    uint32_t header_bytes = 0;
  };
  // Adds what passes the sources' ports to *flits, and the packets that found
  // no credit to *stalls.
  Network(const Shape& shape, uint64_t* flits, uint64_t* stalls)
      : shape_(shape),
        flits_(flits),
        stalls_(stalls),
        sources_(shape.sources),
        destinations_(shape.destinations) {
    for (Destination& to : destinations_) to.credits = shape.credits;
  }

  bool HasRoom(uint32_t source) const {
    return sources_[source].queue.size() < shape_.queue;
  }
  // Takes a packet even where there is no room: who may do that says why the
  // number of these is bounded.
  void Push(uint32_t source, const Packet& packet) {
    sources_[source].queue.push(packet);
  }

  // Sends all that can leave the source in this cycle. Calls arrive(packet, at)
  // for each, with when all of it will have passed the destination's port; for
  // one destination, the times only grow. Returns when to ask again; kNever:
  // after a Push(), or when ReturnCredit() names the source.
  template <class Arrive>
  Cycle Advance(uint32_t source, Cycle now, Arrive arrive) {
    Source& from = sources_[source];
    while (!from.queue.empty() && !from.waits) {
      if (from.free >= TicksOf(now + 1)) return from.free / kTicksPerCycle;
      const Packet& packet = from.queue.front();
      Destination& to = destinations_[packet.destination];
      if (to.credits == 0) {
        to.waiting.push(source);
        from.waits = true;
        ++*stalls_;
        break;
      }
      --to.credits;
      arrive(packet,
             Pass(packet.bytes, std::max(TicksOf(now), from.free), from, to));
      from.queue.pop();
    }
    return kNever;
  }

  // A destination has dealt with a packet. Returns the source that has waited
  // longest for the credit; kNone if none waits. It must be advanced at once, so
  // that no other one takes the credit.
  uint32_t ReturnCredit(uint32_t destination) {
    Destination& to = destinations_[destination];
    ++to.credits;
    if (to.waiting.empty()) return kNone;
    const uint32_t source = to.waiting.front();
    to.waiting.pop();
    sources_[source].waits = false;
    return source;
  }

 private:
  struct Source {
    GrowingQueue<Packet> queue;
    Ticks free = 0;
    bool waits = false;  // is in Destination::waiting
  };
  struct Destination {
    Ticks free = 0;
    uint32_t credits = 0;
    GrowingQueue<uint32_t> waiting;  // sources, in the order of their coming
  };

  Ticks Time(uint32_t bytes, uint32_t width) const {
    return (shape_.header_bytes + bytes + width - 1) / width * shape_.flit;
  }
  // Bytes pass the second port as they arrive from the first.
  Ticks Pass(uint32_t bytes, Ticks sent, Source& from, Destination& to) {
    const Ticks out = Time(bytes, shape_.source_bytes);
    const Ticks in = Time(bytes, shape_.destination_bytes);
    *flits_ += out / shape_.flit;
    from.free = sent + out;
    to.free = std::max(std::max(sent + shape_.latency, to.free) + in,
                       sent + out + shape_.latency);
    return to.free;
  }

  const Shape shape_;
  uint64_t* const flits_;
  uint64_t* const stalls_;
  std::vector<Source> sources_;
  std::vector<Destination> destinations_;
};

// How many packets a way of such a latency holds if one follows the other in
// `interval`: a destination has so many more credits than places, or the way
// itself would slow down what nobody blocks.
constexpr uint32_t PacketsOnTheWay(Ticks latency, Ticks interval) {
  return static_cast<uint32_t>((latency + interval - 1) / interval);
}

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_
