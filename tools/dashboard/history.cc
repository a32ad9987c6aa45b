#include "tools/dashboard/history.h"

#include <memory>

namespace carillon::dashboard {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace

void History::Add(uint64_t now_ns, std::string text) {
  text.shrink_to_fit();
  bytes_ += text.size() + kOverhead;
  texts_.push_back({now_ns, std::make_shared<std::string>(std::move(text))});
  while (!texts_.empty() &&
         (bytes_ > limits_.bytes ||
          now_ns - texts_.front().time_ns >= limits_.seconds * kSecond)) {
    bytes_ -= texts_.front().text->size() + kOverhead;
    texts_.pop_front();
  }
}

std::vector<SharedText> History::Last(uint64_t now_ns, uint64_t seconds) const {
  std::vector<SharedText> last;
  for (const Entry& entry : texts_) {
    if (now_ns - entry.time_ns < seconds * kSecond) last.push_back(entry.text);
  }
  return last;
}

}  // namespace carillon::dashboard
