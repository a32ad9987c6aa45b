#include "tools/hash_sim/hash_table.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace carillon::hash_sim {
namespace {

constexpr Key kNoKey = ~Key{0};

// One list from the most to the least recently used key.
class Chaining final : public HashTable {
 public:
  Chaining(uint32_t entries, uint32_t keys)
      : entries_(entries), links_(size_t{keys} + 1), head_(keys) {
    links_[head_] = {head_, head_};
  }

  bool Get(Key key, uint32_t) override {
    if (links_[key].next == kNoKey) return false;
    Unlink(key);
    LinkFirst(key);
    return true;
  }
  void Set(Key key, uint32_t hash) override {
    if (Get(key, hash)) return;
    if (size_ == entries_) {
      Unlink(links_[head_].previous);
    } else {
      ++size_;
    }
    LinkFirst(key);
  }

 private:
  struct Link {
    Key previous = kNoKey;
    Key next = kNoKey;  // kNoKey: the key is not in the list
  };

  void Unlink(Key key) {
    links_[links_[key].previous].next = links_[key].next;
    links_[links_[key].next].previous = links_[key].previous;
    links_[key] = {};
  }
  void LinkFirst(Key key) {
    const Key second = links_[head_].next;
    links_[key] = {head_, second};
    links_[second].previous = key;
    links_[head_].next = key;
  }

  const uint32_t entries_;
  std::vector<Link> links_;
  const Key head_;
  uint32_t size_ = 0;
};

// Entries in an array. What differs is where a key may lie, and how room is made.
class OpenTable : public HashTable {
 public:
  explicit OpenTable(uint32_t entries) : entries_(entries) {}

  bool Get(Key key, uint32_t hash) final {
    const auto [places, count] = PlacesOf(hash);
    for (uint32_t i = 0; i < count; ++i) {
      Entry& entry = entries_[places[i]];
      if (entry.key != key) continue;
      entry.used = ++clock_;
      return true;
    }
    return false;
  }
  void Set(Key key, uint32_t hash) final {
    if (Get(key, hash)) return;
    entries_[MakeRoom(hash)] = {key, hash, ++clock_};
  }

 protected:
  struct Entry {
    Key key = kNoKey;
    uint32_t hash = 0;
    uint64_t used = 0;  // when; 0: it is free, and leaves before all others
  };
  struct Places {
    std::array<uint32_t, kMostWays> index;
    uint32_t count;
  };

  // Where a key of this hash may lie.
  virtual Places PlacesOf(uint32_t hash) const = 0;
  // An entry that such a key may have. What was there is evicted.
  virtual uint32_t MakeRoom(uint32_t hash) {
    const auto [places, count] = PlacesOf(hash);
    return *std::min_element(places.begin(), places.begin() + count,
                             [&](uint32_t a, uint32_t b) {
                               return entries_[a].used < entries_[b].used;
                             });
  }

  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  bool IsFree(uint32_t index) const { return entries_[index].key == kNoKey; }
  std::vector<Entry> entries_;

 private:
  uint64_t clock_ = 0;
};

class SetAssociative final : public OpenTable {
 public:
  SetAssociative(uint32_t entries, uint32_t ways)
      : OpenTable(entries), ways_(ways) {}

 private:
  Places PlacesOf(uint32_t hash) const override {
    Places places;
    places.count = ways_;
    const uint32_t first = hash % (size() / ways_) * ways_;
    for (uint32_t i = 0; i < ways_; ++i) places.index[i] = first + i;
    return places;
  }

  const uint32_t ways_;
};

class StridedProbe final : public OpenTable {
 public:
  using OpenTable::OpenTable;

 private:
  Places PlacesOf(uint32_t hash) const override {
    Places places;
    places.count = kGroup;
    for (uint32_t i = 0; i < kGroup; ++i) {
      places.index[i] = (hash % size() + i * kStride) % size();
    }
    return places;
  }
};

class Hopscotch final : public OpenTable {
 public:
  using OpenTable::OpenTable;

 private:
  uint32_t At(uint32_t from, uint32_t distance) const {
    return (from + distance) % size();
  }

  Places PlacesOf(uint32_t hash) const override {
    Places places;
    places.count = kGroup;
    for (uint32_t i = 0; i < kGroup; ++i) {
      places.index[i] = At(hash % size(), i);
    }
    return places;
  }

  uint32_t MakeRoom(uint32_t hash) override {
    const uint32_t home = hash % size();
    uint32_t free = 0;  // its distance from home
    while (free < kSearch && !IsFree(At(home, free))) ++free;
    if (free == kSearch) return OpenTable::MakeRoom(hash);
    while (free >= kGroup) {
      // Of the keys before it that may lie there, the farthest one goes there.
      uint32_t from = free - (kGroup - 1);
      while (from < free && !MayMove(At(home, from), At(home, free))) ++from;
      if (from == free) return OpenTable::MakeRoom(hash);
      entries_[At(home, free)] = entries_[At(home, from)];
      entries_[At(home, from)] = {};
      free = from;
    }
    return At(home, free);
  }

  bool MayMove(uint32_t from, uint32_t to) const {
    const uint32_t home = entries_[from].hash % size();
    return (to + size() - home) % size() < kGroup;
  }
};

class Cuckoo final : public OpenTable {
 public:
  explicit Cuckoo(uint32_t entries) : OpenTable(entries), last_way_(entries) {}

 private:
  uint32_t First(uint32_t hash) const { return hash % size(); }
  uint32_t Second(uint32_t hash) const {
    constexpr uint32_t kMurmurHash2 = 0x5bd1e995;
    const uint32_t tag = std::max(hash >> 24, 1u);
    return (First(hash) ^ (tag * kMurmurHash2)) % size();
  }
  uint32_t OtherOf(uint32_t index) const {
    const uint32_t first = First(entries_[index].hash);
    return index == first ? Second(entries_[index].hash) : first;
  }

  Places PlacesOf(uint32_t hash) const override {
    return {{First(hash), Second(hash)}, 2};
  }

  uint32_t MakeRoom(uint32_t hash) override {
    if (IsFree(First(hash))) return First(hash);
    if (IsFree(Second(hash))) return Second(hash);
    way_.assign(1, First(hash));
    last_way_[way_[0]] = ++ways_;
    size_t victim = 0;  // on the way
    while (way_.size() < kSearch) {
      const uint32_t next = OtherOf(way_.back());
      // A way that has come back to itself leads nowhere else.
      if (last_way_[next] == ways_) break;
      last_way_[next] = ways_;
      way_.push_back(next);
      if (IsFree(next)) {
        victim = way_.size() - 1;
        break;
      }
      if (entries_[next].used < entries_[way_[victim]].used) {
        victim = way_.size() - 1;
      }
    }
    for (; victim != 0; --victim) {
      entries_[way_[victim]] = entries_[way_[victim - 1]];
    }
    return way_[0];
  }

  std::vector<uint32_t> way_;
  std::vector<uint32_t> last_way_;  // by entry: the last way that it was on
  uint32_t ways_ = 0;
};

}  // namespace

std::unique_ptr<HashTable> MakeChaining(uint32_t entries, uint32_t keys) {
  return std::make_unique<Chaining>(entries, keys);
}
std::unique_ptr<HashTable> MakeSetAssociative(uint32_t entries, uint32_t ways) {
  return std::make_unique<SetAssociative>(entries, ways);
}
std::unique_ptr<HashTable> MakeHopscotch(uint32_t entries) {
  return std::make_unique<Hopscotch>(entries);
}
std::unique_ptr<HashTable> MakeStridedProbe(uint32_t entries) {
  return std::make_unique<StridedProbe>(entries);
}
std::unique_ptr<HashTable> MakeCuckoo(uint32_t entries) {
  return std::make_unique<Cuckoo>(entries);
}

}  // namespace carillon::hash_sim
