#include "sim/ptx/lexer.h"

#include <bit>
#include <charconv>

namespace carillon::sim::ptx {
namespace {

using Kind = Token::Kind;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsHexDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool BeginsWord(char c) {
  return IsLetter(c) || c == '_' || c == '$' || c == '%' || c == '.';
}
// A word includes the dots of its suffixes ("ld.global.u32", "%tid.x") and the
// colons of "mma::fill".
bool ContinuesWord(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_' || c == '$' || c == '.';
}

}  // namespace

void Lexer::Advance(size_t count) {
  for (; count > 0 && at_ < text_.size(); --count, ++at_) {
    if (text_[at_] == '\n') {
      ++location_.line;
      location_.column = 1;
    } else {
      ++location_.column;
    }
  }
}

bool Lexer::SkipBlanks() {
  while (true) {
    const char c = Peek();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      Advance(1);
    } else if (c == '/' && Peek(1) == '/') {
      const size_t end = text_.find('\n', at_);
      Advance((end == std::string_view::npos ? text_.size() : end) - at_);
    } else if (c == '/' && Peek(1) == '*') {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return false;
      Advance(end + 2 - at_);
    } else {
      return true;
    }
  }
}

Token Lexer::Bad(Token token, std::string_view what) {
  ended_ = true;
  token.kind = Kind::kBad;
  token.text = what;
  return token;
}

Token Lexer::Next() {
  Token token{.at = location_};
  if (ended_) return token;
  const bool comment_ended = SkipBlanks();
  token.at = location_;
  if (!comment_ended) return Bad(token, "a comment that never ends");
  if (at_ >= text_.size()) return token;
  const char c = Peek();
  if (IsDigit(c)) return Number(token);
  size_t length = 1;
  if (BeginsWord(c)) {
    token.kind = Kind::kWord;
    // ".reg.b32" is two words: directives and types need no space between.
    while ((ContinuesWord(Peek(length)) && (c != '.' || Peek(length) != '.')) ||
           (Peek(length) == ':' && Peek(length + 1) == ':')) {
      length += Peek(length) == ':' ? 2 : 1;
    }
  } else if (c == '"') {
    token.kind = Kind::kString;
    const size_t end = text_.find_first_of("\"\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') {
      return Bad(token, "a string that never ends");
    }
    token.text = text_.substr(at_ + 1, end - at_ - 1);
    Advance(end + 1 - at_);
    return token;
  } else if (c < ' ' || c > '~') {
    return Bad(token, "a character that PTX has not");
  } else {
    token.kind = Kind::kPunctuation;
  }
  token.text = text_.substr(at_, length);
  Advance(length);
  return token;
}

Token Lexer::HexFloat(Token token, size_t digits) {
  size_t length = 2;
  while (IsHexDigit(Peek(length))) ++length;
  if (length != 2 + digits || ContinuesWord(Peek(length))) {
    return Bad(token, digits == 8 ? "0f is followed by 8 hexadecimal digits"
                                  : "0d is followed by 16 hexadecimal digits");
  }
  token.kind = Kind::kFloat;
  token.is_single = digits == 8;
  token.text = text_.substr(at_, length);
  std::from_chars(token.text.data() + 2, token.text.data() + length,
                  token.value, 16);
  Advance(length);
  return token;
}

Token Lexer::Number(Token token) {
  const char second = Peek(1);
  if (Peek() == '0' && (second == 'f' || second == 'F')) {
    return HexFloat(token, 8);
  }
  if (Peek() == '0' && (second == 'd' || second == 'D')) {
    return HexFloat(token, 16);
  }
  int base = 10;
  size_t begin = 0;
  if (Peek() == '0' && (second == 'x' || second == 'X')) {
    base = 16;
    begin = 2;
  } else if (Peek() == '0' && (second == 'b' || second == 'B')) {
    base = 2;
    begin = 2;
  } else if (Peek() == '0' && IsDigit(second)) {
    base = 8;
    begin = 1;
  }
  size_t length = begin;
  while (base == 16 ? IsHexDigit(Peek(length)) : IsDigit(Peek(length))) {
    ++length;
  }
  const char next = Peek(length);
  if (base == 10 && (next == '.' || next == 'e' || next == 'E')) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    length = static_cast<size_t>(end - (text_.data() + at_));
    if (error != std::errc()) return Bad(token, "a number out of range");
    token.kind = Kind::kFloat;
    token.value = std::bit_cast<uint64_t>(value);
  } else {
    const char* const first = text_.data() + at_ + begin;
    const char* const last = text_.data() + at_ + length;
    const auto [end, error] = std::from_chars(first, last, token.value, base);
    if (error == std::errc::result_out_of_range) {
      return Bad(token, "an integer of more than 64 bits");
    }
    if (first == last || end != last) return Bad(token, "a malformed number");
    token.kind = Kind::kInteger;
    if (Peek(length) == 'U') {
      token.is_unsigned = true;
      ++length;
    }
  }
  if (ContinuesWord(Peek(length)) && Peek(length) != '.') {
    return Bad(token, "a malformed number");
  }
  token.text = text_.substr(at_, length);
  Advance(length);
  return token;
}

}  // namespace carillon::sim::ptx
