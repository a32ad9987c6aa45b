// Receive side scaling: the Toeplitz hash by which network cards spread packets
// over queues, each flow to one.
#ifndef CARILLON_DEVICES_PACKET_IO_TOEPLITZ_H_
#define CARILLON_DEVICES_PACKET_IO_TOEPLITZ_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace carillon::packet_io {

// Of up to 36 bytes. The key is the one of Microsoft's specification, which most
// cards have as their default. Thread safe.
inline constexpr size_t kToeplitzBytes = 36;
uint32_t ToeplitzHash(std::span<const std::byte> input);

// Of an IP packet: of its addresses and, if it is a whole one of TCP or UDP, its
// ports. What follows an IPv6 extension header is not looked at. 0: it is no IP
// packet, or too short.
uint32_t FlowHash(std::span<const std::byte> ip);

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_TOEPLITZ_H_
