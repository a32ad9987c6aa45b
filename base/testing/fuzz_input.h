// What a fuzz target takes out of its bytes, and how it says that a property
// does not hold.
#ifndef CARILLON_BASE_TESTING_FUZZ_INPUT_H_
#define CARILLON_BASE_TESTING_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

// Ends the process, as a sanitizer does: the fuzzer keeps the input.
#define FUZZ_CHECK(condition, ...)                                        \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      std::fprintf(stderr, "%s:%d: %s does not hold", __FILE__, __LINE__, \
                   #condition);                                           \
      __VA_OPT__(std::fprintf(stderr, ": " __VA_ARGS__);)                 \
      std::fputc('\n', stderr);                                           \
      std::abort();                                                       \
    }                                                                     \
  } while (false)

namespace carillon::fuzz {

// Reads from the front; past the end there are zeros. The bytes must outlive it.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : bytes_(data, size) {}

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }

  template <class T>
  requires std::is_trivially_copyable_v<T> T Take() {
    T value{};
    const auto part = TakeBytes(sizeof(T));
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  // From 0 to limit - 1; limit > 0.
  uint32_t TakeBelow(uint32_t limit) { return Take<uint16_t>() % limit; }
  bool TakeBool() { return (Take<uint8_t>() & 1) != 0; }

  // At most `count`: fewer where the input ends.
  std::span<const uint8_t> TakeBytes(size_t count) {
    const auto part = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }
  std::string_view TakeText(size_t count) { return Text(TakeBytes(count)); }
  // All that is left.
  std::string_view TakeRest() { return Text(TakeBytes(bytes_.size())); }

 private:
  static std::string_view Text(std::span<const uint8_t> part) {
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  std::span<const uint8_t> bytes_;
};

}  // namespace carillon::fuzz

#endif  // CARILLON_BASE_TESTING_FUZZ_INPUT_H_
