// The requests that Hash-Sim plays to a hash table (thesis 4.3.2): YCSB's, as MemC3
// made traces of them. All keys are set once; then come the requests that count, 95 % GET
// and 5 % SET.
#ifndef CARILLON_TOOLS_HASH_SIM_REQUESTS_H_
#define CARILLON_TOOLS_HASH_SIM_REQUESTS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tools/hash_sim/hash_table.h"

namespace carillon::hash_sim {

enum class Distribution {
  kZipf,     // key k in proportion to (k + 1)^-0.99; a SET is an update
  kLatest,   // the same, counted from the newest key back; a SET adds a key
  kUniform,  // a SET is an update
};

struct Request {
  bool set = false;
  Key key = 0;
};

// `keys` were there before the first request. Draws `count` requests.
std::vector<Request> DrawRequests(Distribution distribution, uint32_t keys,
                                  uint32_t count, uint64_t seed);

// lookup3 of YCSB's name of each key, "user" and the number.
std::vector<uint32_t> HashKeys(uint32_t keys);

}  // namespace carillon::hash_sim

#endif  // CARILLON_TOOLS_HASH_SIM_REQUESTS_H_
