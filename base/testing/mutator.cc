#include "base/testing/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <sstream>
#include <utility>

namespace carillon::fuzz {
namespace {

// Where sizes, signs and halves end.
constexpr std::array<uint64_t, 16> kEdges = {0,
                                             1,
                                             2,
                                             0x7f,
                                             0x80,
                                             0xff,
                                             0x100,
                                             0x7fff,
                                             0x8000,
                                             0xffff,
                                             0x10000,
                                             0x7fffffff,
                                             0x80000000,
                                             0xffffffff,
                                             0x7fffffffffffffff,
                                             0xffffffffffffffff};

}  // namespace

Mutator::Mutator(uint64_t seed, std::vector<Bytes> corpus,
                 std::vector<Bytes> words, size_t max_bytes)
    : random_(seed),
      corpus_(std::move(corpus)),
      words_(std::move(words)),
      max_bytes_(max_bytes) {}

Bytes Mutator::Next() {
  Bytes input;
  if (!corpus_.empty()) input = corpus_[Below(corpus_.size())];
  for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(input);
  if (input.size() > max_bytes_) input.resize(max_bytes_);
  return input;
}

void Mutator::Change(Bytes& input) {
  switch (Below(words_.empty() ? 7 : 9)) {
    case 0:
      if (!input.empty()) input[Below(input.size())] ^= 1 << Below(8);
      break;
    case 1:
      if (!input.empty()) {
        input[Below(input.size())] = static_cast<uint8_t>(random_());
      }
      break;
    case 2:
      Overwrite(input, SomeInteger());
      break;
    case 3:
      Insert(input, SomeInteger());
      break;
    case 4: {
      const size_t from = Below(input.size());
      const size_t count = Below(std::min<size_t>(input.size() - from, 64)) + 1;
      if (!input.empty()) {
        input.erase(input.begin() + from,
                    input.begin() + std::min(from + count, input.size()));
      }
      break;
    }
    case 5:
      Insert(input, SomePart(input));
      break;
    case 6:
      if (!corpus_.empty()) {
        Insert(input, SomePart(corpus_[Below(corpus_.size())]));
      }
      break;
    case 7:
      Overwrite(input, words_[Below(words_.size())]);
      break;
    default:
      Insert(input, words_[Below(words_.size())]);
  }
}

void Mutator::Overwrite(Bytes& input, const Bytes& with) {
  const size_t at = Below(input.size());
  std::copy_n(with.begin(), std::min(with.size(), input.size() - at),
              input.begin() + at);
}

void Mutator::Insert(Bytes& input, const Bytes& part) {
  input.insert(input.begin() + Below(input.size() + 1), part.begin(),
               part.end());
}

Bytes Mutator::SomeInteger() {
  const uint64_t value = kEdges[Below(kEdges.size())] + Below(3) - 1;
  Bytes bytes(size_t{1} << Below(4));
  std::memcpy(bytes.data(), &value, bytes.size());
  if (Below(4) == 0) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

Bytes Mutator::SomePart(const Bytes& of) {
  const size_t from = Below(of.size());
  const size_t count = std::min(Below(128) + 1, of.size() - from);
  return Bytes(of.begin() + from, of.begin() + from + count);
}

std::vector<Bytes> ParseDictionary(const std::string& text,
                                   std::string* error) {
  std::vector<Bytes> words;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const size_t begin = line.find('"');
    const size_t end = line.rfind('"');
    Bytes word;
    bool good = begin != std::string::npos && end > begin;
    for (size_t i = begin + 1; good && i < end; ++i) {
      if (line[i] != '\\') {
        word.push_back(static_cast<uint8_t>(line[i]));
      } else if (i + 1 < end && (line[i + 1] == '\\' || line[i + 1] == '"')) {
        word.push_back(static_cast<uint8_t>(line[++i]));
      } else if (i + 3 < end && line[i + 1] == 'x' &&
                 std::isxdigit(static_cast<unsigned char>(line[i + 2])) != 0 &&
                 std::isxdigit(static_cast<unsigned char>(line[i + 3])) != 0) {
        word.push_back(static_cast<uint8_t>(
            std::stoul(line.substr(i + 2, 2), nullptr, 16)));
        i += 3;
      } else {
        good = false;
      }
    }
    if (!good || word.empty()) {
      *error = "line " + std::to_string(number) + ": " + line;
      return {};
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace carillon::fuzz
