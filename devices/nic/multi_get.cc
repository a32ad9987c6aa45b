#include "devices/nic/multi_get.h"

#include <algorithm>

#include "devices/nic/stream_framer.h"

namespace carillon::nic {

std::optional<MultiGet> MultiGet::Parse(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  std::string start;
  std::string keys;
  bool exptime_next = false;
  size_t at = 0;
  while ((at = line.find_first_not_of(' ', at)) != std::string_view::npos) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    at = end;
    if (start.empty()) {
      exptime_next = word == "gat" || word == "gats";
      if (!exptime_next && word != "get" && word != "gets") return std::nullopt;
      start = word;
      continue;
    }
    if (exptime_next) {
      start.append(" ").append(word);
      exptime_next = false;
      continue;
    }
    if (word.size() > kMaxKey) return std::nullopt;
    if (!keys.empty()) keys += ' ';
    keys += word;
  }
  if (keys.empty()) return std::nullopt;
  return MultiGet(std::move(start), std::move(keys));
}

std::string MultiGet::Next(size_t max_bytes) {
  if (done()) return {};
  last_ = at_;
  last_keys_ = 0;
  std::string piece = start_;
  while (!done() && last_keys_ < max_keys_) {
    const size_t end = std::min(keys_.find(' ', at_), keys_.size());
    if (piece.size() + 1 + (end - at_) + 2 > max_bytes) break;
    piece += ' ';
    piece.append(keys_, at_, end - at_);
    at_ = end + 1;
    ++last_keys_;
  }
  piece += "\r\n";
  return piece;
}

bool MultiGet::Halve() {
  if (last_keys_ < 2) return false;
  // It does not grow again, since the next values usually have a similar size.
  max_keys_ = last_keys_ / 2;
  at_ = last_;
  return true;
}

std::string_view MultiGet::Trim(std::string_view reply, bool* failed) const {
  constexpr std::string_view kEnd = "END\r\n";
  *failed = !reply.ends_with(kEnd);
  if (!*failed && !done()) reply.remove_suffix(kEnd.size());
  return reply;
}

}  // namespace carillon::nic
