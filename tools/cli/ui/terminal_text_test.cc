#include "tools/cli/ui/terminal_text.h"

#include <gtest/gtest.h>

namespace carillon::cli {
namespace {

TEST(TerminalText, PlainTextOfAnyLanguageStays) {
  for (const char* text : {"", "plain ~", "\xc3\xa4 \xe2\x82\xac",
                           "\xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ForTerminal(text), text);
    EXPECT_TRUE(IsForTerminal(text)) << text;
  }
}

TEST(TerminalText, NothingSteersATerminal) {
  struct Case {
    std::string_view text;
    const char* shown;
  };
  for (const Case& bad : {
           Case{"\x1b[2J\r\a", "\\x1b[2J\\x0d\\x07"},
           Case{{"a\0b\x7f", 4}, "a\\x00b\\x7f"},
           Case{"a\tb", "a  b"},
           // C1 controls, alone and as UTF-8; bytes that are no UTF-8.
           Case{"\x9b[2J", "\\x9b[2J"},
           Case{"\xc2\x9b[2J", "\\xc2\\x9b[2J"},
           Case{"\xff \xc3", "\\xff \\xc3"},
           Case{"\xe2\x82 \xe2\x82", "\\xe2\\x82 \\xe2\\x82"},
           // Overlong forms of ESC, a surrogate, beyond the last character.
           Case{"\xc0\x9b", "\\xc0\\x9b"},
           Case{"\xe0\x80\x9b", "\\xe0\\x80\\x9b"},
           Case{"\xf0\x80\x80\x9b", "\\xf0\\x80\\x80\\x9b"},
           Case{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
           Case{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
           // U+202E, U+2066, U+061C, U+2028.
           Case{"\xe2\x80\xae", "\\xe2\\x80\\xae"},
           Case{"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},
           Case{"\xd8\x9c", "\\xd8\\x9c"},
           Case{"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},
       }) {
    EXPECT_EQ(ForTerminal(bad.text), bad.shown);
    EXPECT_FALSE(IsForTerminal(bad.text)) << bad.shown;
  }
}

TEST(TerminalText, TheEndsOfLinesStay) {
  EXPECT_EQ(LinesForTerminal("a\n\x1b[2J\n\nb"), "a\n\\x1b[2J\n\nb");
  EXPECT_EQ(LinesForTerminal("a\n"), "a\n");
  EXPECT_EQ(LinesForTerminal(""), "");
}

}  // namespace
}  // namespace carillon::cli
