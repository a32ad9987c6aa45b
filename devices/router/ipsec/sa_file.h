// Reads a file of IPsec tunnels: an SA a line, which is empty, begins with '#', or
// is
//
//   out SPI LOCAL PEER aes-gcm   KEY         NETWORK...
//   out SPI LOCAL PEER 3des-sha1 KEY AUTHKEY NETWORK...
//   in  SPI LOCAL PEER ...                   the same without networks
//
// SPI: 0x100 to 0xffffffff. LOCAL and PEER: the tunnel's ends, both IPv4 or both
// IPv6. KEY: in hex digits, for aes-gcm the 16 bytes of AES-128 and behind them
// the 4 of the salt, for 3des-sha1 24 bytes; AUTHKEY: 20 bytes. NETWORK: a prefix
// behind the peer. No message has a part of a key in it.
#ifndef CARILLON_DEVICES_ROUTER_IPSEC_SA_FILE_H_
#define CARILLON_DEVICES_ROUTER_IPSEC_SA_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/forwarding/fib.h"
#include "kernels/forwarding/prefix.h"
#include "kernels/ipsec/wire.h"

namespace carillon::router {

// SAs, each at its place in the kernels' table.
struct SaTable {
  struct Place {
    ipsec::Sa sa{};           // spi 0: none
    std::string fingerprint;  // of its key
  };
  std::vector<Place> places;
  // To the places of outbound SAs.
  std::vector<forwarding::Route> policies4;
  std::vector<forwarding::Route> policies6;
};

// Error: InvalidArgument, with the number of the line: above all for a key that
// two SAs have, because both would send the same numbers under it, and for an
// inbound SA whose peer has no outbound one, because nothing could come from it.
absl::StatusOr<SaTable> ParseSas(std::string_view text);

// `path` names it in errors. Errors: also those of ReadFile(); PermissionDenied
// (others than the file's owner may read it).
absl::StatusOr<SaTable> ReadSas(const std::string& path);

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_IPSEC_SA_FILE_H_
