// What the tests put into an event and its outputs: every word follows from the
// sequence, so that a torn, stale or misplaced byte shows.
#ifndef CARILLON_SHM_TESTING_EVENT_PATTERN_H_
#define CARILLON_SHM_TESTING_EVENT_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shm/layout.h"

namespace carillon::shm {

class EventPattern {
 public:
  static constexpr uint32_t kParameterWords = 12;
  static constexpr uint32_t kOutputWords = 8;

  struct Entry {
    EsqEntryHeader header;
    uint64_t parameters[kParameterWords];
  };

  static void FillParameters(std::byte* to, uint64_t sequence) {
    Fill(to, kParameterWords, sequence);
  }
  static bool Matches(const Entry& entry, uint64_t sequence) {
    return entry.header.sequence == sequence &&
           Same(entry.parameters, kParameterWords, sequence);
  }
  static uint32_t Status(uint64_t sequence) {
    return static_cast<uint32_t>(Word(sequence, 1000));
  }
  static void FillOutput(std::byte* to, uint64_t sequence) {
    Fill(to, kOutputWords, ~sequence);
  }
  static bool OutputMatches(const std::byte* from, uint64_t sequence) {
    return Same(from, kOutputWords, ~sequence);
  }

 private:
  // splitmix64
  static uint64_t Word(uint64_t sequence, uint64_t index) {
    uint64_t x = (sequence * 1024 + index) * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  static void Fill(std::byte* to, uint32_t words, uint64_t sequence) {
    for (uint32_t i = 0; i < words; ++i) {
      const uint64_t word = Word(sequence, i);
      std::memcpy(to + i * sizeof(word), &word, sizeof(word));
    }
  }
  static bool Same(const void* from, uint32_t words, uint64_t sequence) {
    uint64_t different = 0;
    for (uint32_t i = 0; i < words; ++i) {
      uint64_t word;
      std::memcpy(&word, static_cast<const std::byte*>(from) + i * sizeof(word),
                  sizeof(word));
      different |= word ^ Word(sequence, i);
    }
    return different == 0;
  }
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_TESTING_EVENT_PATTERN_H_
