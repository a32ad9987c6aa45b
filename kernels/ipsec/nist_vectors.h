// Reads the files of test vectors that NIST published for its algorithms, from
// Debian's python3-cryptography-vectors.
#ifndef CARILLON_KERNELS_IPSEC_NIST_VECTORS_H_
#define CARILLON_KERNELS_IPSEC_NIST_VECTORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::ipsec_test {

using Bytes = std::vector<uint8_t>;

Bytes FromHex(std::string_view hex);
std::string ToHex(const Bytes& bytes);

// The fields of one vector, by name. "[NAME]" and "[NAME = VALUE]" before it are
// fields of all that follow, until another one of that name; names without a
// value are in "section". A line without "=", as "FAIL", has the value "".
using Vector = std::map<std::string, std::string, std::less<>>;

// `file`: as "ciphers/3DES/ECB/TECBMMT1.rsp". A file that is not there is a
// test's failure, and gives no vectors.
std::vector<Vector> NistVectors(const std::string& file);

}  // namespace carillon::ipsec_test

#endif  // CARILLON_KERNELS_IPSEC_NIST_VECTORS_H_
