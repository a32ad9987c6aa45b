// How a test waits for a state that other threads or processes bring about.
#ifndef CARILLON_BASE_TESTING_EVENTUALLY_H_
#define CARILLON_BASE_TESTING_EVENTUALLY_H_

#include <poll.h>

#include <chrono>
#include <functional>

namespace carillon {

// Looks again and again until `state` holds; false if it does not within
// `bound`, which only says when a test hangs: nothing may depend on it.
inline bool Eventually(
    const std::function<bool()>& state,
    std::chrono::milliseconds bound = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!state()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace carillon

#endif  // CARILLON_BASE_TESTING_EVENTUALLY_H_
