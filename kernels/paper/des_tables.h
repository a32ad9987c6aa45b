// The tables and keys of fig_ipsec, in the form that its rounds use.
#ifndef CARILLON_KERNELS_PAPER_DES_TABLES_H_
#define CARILLON_KERNELS_PAPER_DES_TABLES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/paper/fig_ipsec.cuh"

namespace carillon::kernels {

// kFigDesTables words: for each of S1 to S8 and each 6-bit input, the output of
// the S-box permuted by P.
std::vector<uint32_t> DesTables();

using TripleDesKey = std::array<uint8_t, 24>;

// kFigDesKeys words. Parity bits do not count. To decrypt is to encrypt with
// the rounds' keys in reverse order.
std::vector<uint32_t> TripleDesEncryptKeys(const TripleDesKey& key);
std::vector<uint32_t> TripleDesDecryptKeys(const TripleDesKey& key);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_DES_TABLES_H_
