// A request on its way through the NIC: from a packet or a TCP connection into
// a batch, through an event, and back.
#ifndef CARILLON_DEVICES_NIC_REQUEST_H_
#define CARILLON_DEVICES_NIC_REQUEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"

namespace carillon::nic {

// A buffer holds one packet; GNoM's GRXBs have the same size (thesis 4.1.2).
inline constexpr uint32_t kPacketBytes = 2048;

// The longest datagram of UDP over IPv4. What is longer than a buffer is a long
// packet: it waits apart, and its event gets a copy.
inline constexpr uint32_t kMaxDatagramBytes = 65507;

// Requests are batched by type, so that the threads of a warp do the same work
// (thesis 4.1.1). memc_get answers the first type, memc_set everything else.
enum class RequestType : uint32_t { kGet = 0, kSet = 1 };
inline constexpr uint32_t kRequestTypes = 2;

using BufferIndex = uint32_t;
// The index of a TCP connection; not reused before its last request was
// answered.
using ConnectionIndex = uint32_t;

struct Request {
  enum class Origin : uint32_t { kDatagram, kStream };
  Origin origin = Origin::kDatagram;
  // kDatagram: a BufferIndex; kStream: a ConnectionIndex.
  uint32_t index = 0;
  uint32_t length = 0;  // bytes, a datagram's frame header included
  RequestType type = RequestType::kGet;
  Nanoseconds received_ns = 0;
};

inline std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// All that the NIC itself understands of a request: which event kernel answers
// it. `text` begins at the command line (in a datagram, after its frame header),
// and may be garbage. Returns kGet for the retrieval commands (get, gets, gat,
// gats, mg) with an argument, and kSet for everything else.
inline RequestType TypeOfRequest(std::string_view text) {
  // memcached takes leading spaces.
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  for (const std::string_view verb :
       {"get ", "gets ", "gat ", "gats ", "mg "}) {
    if (text.starts_with(verb)) return RequestType::kGet;
  }
  return RequestType::kSet;
}

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_REQUEST_H_
