// Small, reproducible damage to inputs: what a fuzz target sees where libFuzzer
// is not at work.
#ifndef CARILLON_BASE_TESTING_MUTATOR_H_
#define CARILLON_BASE_TESTING_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace carillon::fuzz {

using Bytes = std::vector<uint8_t>;

// Not thread safe. The same seed, corpus, words and calls give the same inputs
// everywhere: it uses none of the library's distributions, whose results are
// not fixed.
class Mutator {
 public:
  // `words` are put in whole. `max_bytes` > 0.
  Mutator(uint64_t seed, std::vector<Bytes> corpus, std::vector<Bytes> words,
          size_t max_bytes);

  // One to four changes to one of the corpus: bits, bytes and integers
  // overwritten; parts removed, doubled, or taken from another input.
  Bytes Next();

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void Change(Bytes& input);
  void Overwrite(Bytes& input, const Bytes& with);
  void Insert(Bytes& input, const Bytes& part);
  Bytes SomeInteger();
  Bytes SomePart(const Bytes& of);

  std::mt19937_64 random_;
  const std::vector<Bytes> corpus_;
  const std::vector<Bytes> words_;
  const size_t max_bytes_;
};

// The words of a dictionary in libFuzzer's format: name="text\x00\\" a line, #
// comments. Nothing, and `error` set, if a line is something else.
std::vector<Bytes> ParseDictionary(const std::string& text, std::string* error);

}  // namespace carillon::fuzz

#endif  // CARILLON_BASE_TESTING_MUTATOR_H_
