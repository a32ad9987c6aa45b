// The hash tables that Hash-Sim compares (thesis 4.4.1): what each keeps and what it
// evicts, without values. All hold at most `entries` keys, and all but chaining may have
// to evict before they are full, because of collisions.
//
// The keys are numbers from 0 on. What lies in memory in a real table, the string, is
// here its hash: the caller hashes each key once.
#ifndef CARILLON_TOOLS_HASH_SIM_HASH_TABLE_H_
#define CARILLON_TOOLS_HASH_SIM_HASH_TABLE_H_

#include <cstdint>
#include <memory>

namespace carillon::hash_sim {

using Key = uint32_t;

class HashTable {
 public:
  virtual ~HashTable() = default;

  // Whether the key is there; it is then the most recently used one.
  virtual bool Get(Key key, uint32_t hash) = 0;
  // Adds the key, or makes it the most recently used one.
  virtual void Set(Key key, uint32_t hash) = 0;
};

// Chaining with one LRU queue for all keys: it evicts only when it is full, whatever
// collides, so the chains themselves are not modelled. Keys are below `keys`.
std::unique_ptr<HashTable> MakeChaining(uint32_t entries, uint32_t keys);

// `ways` entries for each hash value, and the least recently used of them is evicted.
// `entries` is a multiple of `ways`, of which there are kMostWays at most.
std::unique_ptr<HashTable> MakeSetAssociative(uint32_t entries, uint32_t ways);

// A key lies in one of the kGroup entries from its own on. A free entry is looked for in
// the kSearch entries from there, and moved nearer by moving other keys within their
// groups. Where that fails, the group's least recently used key is evicted.
// `entries` is at least kSearch.
std::unique_ptr<HashTable> MakeHopscotch(uint32_t entries);

// A key lies in one of kGroup entries, kStride apart, from its own on. Nothing is moved;
// the group's least recently used key is evicted. `entries` is at least
// kGroup * kStride.
std::unique_ptr<HashTable> MakeStridedProbe(uint32_t entries);

// A key lies in one of two entries: that of its hash, and that number combined with the
// hash's upper byte times MurmurHash2's constant, as in MemC3. Where both are taken, keys go to their
// other entries, one pushing the next, for at most kSearch steps; if no entry on this way
// is free, the least recently used key of the way is evicted.
std::unique_ptr<HashTable> MakeCuckoo(uint32_t entries);

// The thesis' constants.
inline constexpr uint32_t kGroup = 16;
inline constexpr uint32_t kStride = 4;
inline constexpr uint32_t kSearch = 512;

inline constexpr uint32_t kMostWays = 16;

}  // namespace carillon::hash_sim

#endif  // CARILLON_TOOLS_HASH_SIM_HASH_TABLE_H_
