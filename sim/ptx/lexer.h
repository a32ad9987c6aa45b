// PTX text as tokens (PTX ISA 9.0, chapter 4).
#ifndef CARILLON_SIM_PTX_LEXER_H_
#define CARILLON_SIM_PTX_LEXER_H_

#include <cstdint>
#include <string_view>

namespace carillon::sim::ptx {

// A position in the text; both count from 1.
struct Location {
  uint32_t line = 1;
  uint32_t column = 1;

  bool operator==(const Location&) const = default;
};

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kWord,     // identifier, opcode with its suffixes, %register, .directive
    kInteger,  // value; is_unsigned if it ends in U
    kFloat,    // value: the bits of an f64, or of an f32 if is_single
    kString,   // text without its quotes
    kPunctuation,  // one character
    kBad,          // text: what is wrong
  };

  Kind kind = Kind::kEnd;
  bool is_unsigned = false;
  bool is_single = false;
  Location at;
  std::string_view text;
  uint64_t value = 0;

  bool Is(std::string_view what) const {
    return (kind == Kind::kWord || kind == Kind::kPunctuation) && text == what;
  }
};

// The text must outlive the lexer and its tokens. A kBad token is the last one.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token Next();

 private:
  // Skips blanks and comments. Returns false if a comment never ends.
  bool SkipBlanks();
  Token Number(Token token);
  Token HexFloat(Token token, size_t digits);
  Token Bad(Token token, std::string_view what);
  void Advance(size_t count);
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  const std::string_view text_;
  size_t at_ = 0;
  Location location_;
  bool ended_ = false;
};

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_LEXER_H_
