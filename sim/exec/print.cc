#include "sim/exec/print.h"

#include <bit>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace carillon::sim {
namespace {

constexpr size_t kMaxTextBytes = 4096;  // text, and the width of a field

// Runs one conversion through the host's printf.
template <class T>
void Convert(const std::string& format, T value, std::string& text) {
  char buffer[2 * kMaxTextBytes];
  const int length =
      std::snprintf(buffer, sizeof(buffer), format.c_str(), value);
  if (length > 0) text.append(buffer, static_cast<size_t>(length));
}

}  // namespace

bool ReadText(const ByteReader& read, DeviceAddress address,
              std::string& text) {
  for (size_t i = 0; i < kMaxTextBytes; ++i) {
    std::byte byte{};
    if (!read(address + i, byte)) return false;
    if (byte == std::byte{0}) return true;
    text += static_cast<char>(byte);
  }
  return true;
}

bool Print(const ByteReader& read, DeviceAddress format,
           DeviceAddress arguments, std::string& text) {
  std::string pattern;
  if (!ReadText(read, format, pattern)) {
    text = "its format cannot be read";
    return false;
  }
  // Each at a multiple of its own size.
  DeviceAddress next = arguments;
  const auto take = [&](uint32_t bytes, uint64_t& value) {
    next = (next + bytes - 1) / bytes * bytes;
    value = 0;
    for (uint32_t i = 0; i < bytes; ++i) {
      std::byte byte{};
      if (!read(next + i, byte)) return false;
      value |= static_cast<uint64_t>(byte) << (8 * i);
    }
    next += bytes;
    return true;
  };
  const auto unreadable = [&] {
    text = "an argument cannot be read";
    return false;
  };
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    std::string spec = "%";
    size_t at = i + 1;
    uint64_t value = 0;
    const auto number = [&] {
      std::string digits;
      while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9') {
        digits += pattern[at++];
      }
      if (digits.size() > 3) digits = "999";
      spec += digits;
    };
    const auto star = [&] {
      if (at >= pattern.size() || pattern[at] != '*') return true;
      ++at;
      if (!take(4, value)) return false;
      int width = static_cast<int32_t>(value);
      width = width > 999 ? 999 : width < -999 ? -999 : width;
      if (spec.back() == '.' && width < 0) {
        spec.pop_back();  // as C: a negative precision is none
      } else {
        spec += std::to_string(width);
      }
      return true;
    };
    while (at < pattern.size() && std::string_view("-+ #0").find(pattern[at]) !=
                                      std::string_view::npos) {
      spec += pattern[at++];
    }
    if (!star()) return unreadable();
    number();
    if (at < pattern.size() && pattern[at] == '.') {
      spec += '.';
      ++at;
      if (!star()) return unreadable();
      number();
    }
    uint32_t bytes = 4;
    int shorter = 0;  // bits
    while (at < pattern.size() && std::string_view("hlLqjzt").find(
                                      pattern[at]) != std::string_view::npos) {
      if (pattern[at] != 'h') {
        bytes = 8;
      } else {
        shorter = shorter == 16 ? 24 : 16;
      }
      ++at;
    }
    // h and hh drop the upper bits.
    const auto as_int = [&] {
      return static_cast<int32_t>(static_cast<uint32_t>(value) << shorter) >>
             shorter;
    };
    const auto as_unsigned = [&] {
      return bytes == 8 ? value
                        : static_cast<uint32_t>(value) << shorter >> shorter;
    };
    const char conversion = at < pattern.size() ? pattern[at] : '\0';
    switch (conversion) {
      case '%':
        out += '%';
        break;
      case 'd':
      case 'i':
        if (!take(bytes, value)) return unreadable();
        Convert(spec + "lld",
                bytes == 8 ? static_cast<long long>(value)
                           : static_cast<long long>(as_int()),
                out);
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        if (!take(bytes, value)) return unreadable();
        Convert(spec + "ll" + conversion,
                static_cast<unsigned long long>(as_unsigned()), out);
        break;
      case 'c':
        if (!take(4, value)) return unreadable();
        Convert(spec + 'c', static_cast<int>(value & 0xff), out);
        break;
      case 'p':
        if (!take(8, value)) return unreadable();
        Convert(spec + 'p',
                reinterpret_cast<void*>(static_cast<uintptr_t>(value)), out);
        break;
      case 's': {
        if (!take(8, value)) return unreadable();
        std::string what;
        if (value == 0) {
          what = "(null)";
        } else if (!ReadText(read, value, what)) {
          return unreadable();
        }
        Convert(spec + 's', what.c_str(), out);
        break;
      }
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!take(8, value)) return unreadable();
        Convert(spec + conversion, std::bit_cast<double>(value), out);
        break;
      default:
        // As in CUDA, text that is no conversion is written as it is.
        out += pattern.substr(i, at - i + (conversion != '\0'));
        break;
    }
    i = conversion == '\0' ? pattern.size() : at;
  }
  text += out;
  return true;
}

}  // namespace carillon::sim
