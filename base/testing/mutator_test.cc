#include "base/testing/mutator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace carillon::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Bytes Of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(Mutator, GivesTheSameInputsForTheSameSeed) {
  const std::vector<Bytes> corpus = {Of("get key\r\n"), Of("set key 0 0 1")};
  Mutator one(7, corpus, {}, 64);
  Mutator same(7, corpus, {}, 64);
  Mutator other(8, corpus, {}, 64);
  int differences = 0;
  for (int i = 0; i < 100; ++i) {
    const Bytes input = one.Next();
    EXPECT_EQ(input, same.Next());
    differences += input != other.Next() ? 1 : 0;
  }
  EXPECT_GT(differences, 50);
}

TEST(Mutator, MakesManyDifferentInputsOfOneAndKeepsToTheLimit) {
  Mutator mutator(1, {Of("0123456789")}, {Of("word")}, 16);
  std::set<Bytes> seen;
  bool has_word = false;
  for (int i = 0; i < 1000; ++i) {
    const Bytes input = mutator.Next();
    EXPECT_LE(input.size(), 16u);
    const std::string text(input.begin(), input.end());
    has_word |= text.find("word") != std::string::npos;
    seen.insert(input);
  }
  EXPECT_GT(seen.size(), 800u);
  EXPECT_TRUE(has_word);
}

TEST(Mutator, MakesInputsOutOfNothing) {
  Mutator without(1, {}, {}, 8);
  Mutator with_empty(1, {Bytes()}, {}, 8);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LE(without.Next().size(), 8u);
    EXPECT_LE(with_empty.Next().size(), 8u);
  }
}

TEST(Dictionary, HasTheWordsOfLibFuzzersFormat) {
  std::string error;
  EXPECT_THAT(
      ParseDictionary("# comment\n\nkey=\"a\\x00\\\\\\\"b\"\n\"c\"\n", &error),
      ElementsAre(Bytes{'a', 0, '\\', '"', 'b'}, Bytes{'c'}));
  EXPECT_THAT(error, IsEmpty());
  for (const char* bad : {"word", "\"", "\"\"", "\"\\q\"", "\"\\x0\""}) {
    EXPECT_THAT(ParseDictionary(bad, &error), SizeIs(0)) << bad;
    EXPECT_THAT(error, Not(IsEmpty())) << bad;
    error.clear();
  }
}

}  // namespace
}  // namespace carillon::fuzz
