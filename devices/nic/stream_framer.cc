#include "devices/nic/stream_framer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string>

namespace carillon::nic {
namespace {

// memcached splits a line into at most so many words.
constexpr size_t kMaxWords = 24;
// A meta command has at most so many.
constexpr size_t kMaxMetaWords = 19;
// The first byte of a request in the binary protocol, which is not supported.
constexpr char kBinaryMagic = static_cast<char>(0x80);

struct LineWords {
  std::array<std::string_view, kMaxWords> word;
  size_t count = 0;  // kMaxWords: that many or more
};

LineWords SplitLine(std::string_view line) {
  LineWords words;
  size_t at = 0;
  while (words.count < kMaxWords) {
    at = line.find_first_not_of(' ', at);
    if (at == std::string_view::npos) break;
    const size_t end = std::min(line.find(' ', at), line.size());
    words.word[words.count++] = line.substr(at, end - at);
    at = end;
  }
  return words;
}

bool EndsNumber(char c) {
  return c == '\0' || c == ' ' || (c >= '\t' && c <= '\r');
}

// Reads a number like memcached's safe_strtol and its siblings: strtol's
// syntax, ended by the word's end or white space.
template <class T>
std::optional<T> ParseNumber(std::string_view word,
                             T (*parse)(const char*, char**, int)) {
  const std::string text(word);
  char* end = nullptr;
  errno = 0;
  const T value = parse(text.c_str(), &end, 10);
  if (errno == ERANGE || end == text.c_str() || !EndsNumber(*end)) {
    return std::nullopt;
  }
  return value;
}

bool IsUnsigned(std::string_view word) {
  const auto value = ParseNumber(word, &std::strtoul);
  return value && (static_cast<long>(*value) >= 0 ||
                   word.find('-') == std::string_view::npos);
}

// A number of bytes, as a storage command states it.
std::optional<uint32_t> StatedBytes(std::string_view word) {
  const auto bytes = ParseNumber(word, &std::strtol);
  if (!bytes || *bytes < 0 || *bytes > INT_MAX - 2) return std::nullopt;
  return static_cast<uint32_t>(*bytes);
}

// The bytes of the data block that follows the line, without its line end.
// Nothing if the line is not a well-formed storage command and is answered
// alone.
std::optional<uint32_t> DataBytes(const LineWords& words) {
  if (words.count == 0) return std::nullopt;
  const std::string_view verb = words.word[0];
  if (verb == "ms") {
    // ms key bytes flag*: a wrong flag does not hide the data block.
    if (words.count < 3 || words.count > kMaxMetaWords ||
        words.word[1].size() > kMaxKey) {
      return std::nullopt;
    }
    return StatedBytes(words.word[2]);
  }
  const bool cas = verb == "cas";
  if (!cas && verb != "set" && verb != "add" && verb != "replace" &&
      verb != "append" && verb != "prepend") {
    return std::nullopt;
  }
  // verb key flags exptime bytes [cas unique] [noreply]
  const size_t needed = cas ? 6 : 5;
  if (words.count != needed && words.count != needed + 1) return std::nullopt;
  if (words.word[1].size() > kMaxKey) return std::nullopt;
  if (!IsUnsigned(words.word[2]) || !ParseNumber(words.word[3], &std::strtol) ||
      (cas && !IsUnsigned(words.word[5]))) {
    return std::nullopt;
  }
  return StatedBytes(words.word[4]);
}

bool StartsLikeGet(std::string_view data) {
  const size_t spaces = std::min(data.find_first_not_of(' '), data.size());
  if (spaces > 100) return false;
  data.remove_prefix(spaces);
  return data.starts_with("get ") || data.starts_with("gets ");
}

}  // namespace

Frame StreamFramer::Next(std::string_view data) {
  if (data.empty()) return {};
  if (needed_ == 0 && skip_ > 0) {
    const size_t bytes =
        static_cast<size_t>(std::min<uint64_t>(skip_, data.size()));
    skip_ -= bytes;
    return {.kind = Frame::Kind::kSkip, .bytes = bytes};
  }
  if (first_ && data[0] == kBinaryMagic) return {.kind = Frame::Kind::kHangUp};
  first_ = false;
  Frame frame = needed_ > 0 ? Frame{} : NextLine(data);
  if (needed_ > 0 && data.size() >= needed_) {
    frame = {.kind = Frame::Kind::kCommand, .bytes = needed_};
  }
  if (frame.kind != Frame::Kind::kIncomplete) {
    scanned_ = 0;
    needed_ = 0;
  }
  return frame;
}

Frame StreamFramer::NextLine(std::string_view data) {
  const size_t newline = data.find('\n', scanned_);
  const bool whole = newline != std::string_view::npos;
  const size_t line_bytes = whole ? newline + 1 : data.size();
  if (line_bytes > kMaxLine &&
      (line_bytes > kMaxGetLine || !StartsLikeGet(data))) {
    return {.kind = Frame::Kind::kHangUp};
  }
  if (!whole) {
    scanned_ = data.size();
    return {};
  }
  std::string_view line = data.substr(0, newline);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::optional<uint32_t> bytes = DataBytes(SplitLine(line));
  needed_ = line_bytes;
  if (bytes && *bytes <= max_value_) needed_ += *bytes + 2;
  if (bytes && *bytes > max_value_) skip_ = uint64_t{*bytes} + 2;
  return {};
}

}  // namespace carillon::nic
