// What a device can try to harm gpud or its neighbours. Each trick uses the raw
// interfaces: the mapped apertures, the hand-over socket, gRPC. It prints a
// line for each attempt:
//
//   refused: WHAT: WHY          by gpud or by the kernel
//   ended: COUNT events WORDS   how its events ended
//   closed: REASON              gpud has ended its session
//   seen: WHAT                  what gpud says of it
//   ACCEPTED: WHAT              what should have been refused
//   UNEXPECTED: WHAT            anything else that must not happen
#ifndef CARILLON_INTEGRATION_TESTS_HOSTILE_HOSTILE_TRICKS_H_
#define CARILLON_INTEGRATION_TESTS_HOSTILE_HOSTILE_TRICKS_H_

#include <grpcpp/support/status.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "integration_tests/hostile/wire_device.h"

namespace carillon::testing {

struct Scene {
  TestbedPaths paths;
  std::string name;    // the hostile device's name
  std::string victim;  // an attached device of another process
};

struct Trick {
  std::string_view name;
  std::string_view what;
  // Leaves everything that it holds unchanged: the caller waits, and dies.
  void (*play)(const Scene& scene);
};

std::vector<Trick> MemoryTricks();
std::vector<Trick> RingTricks();
std::vector<Trick> HandoverTricks();
std::vector<Trick> CallTricks();

// --- For tricks.

template <class... Args>
void Say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{}\n", fmt::format(text, std::forward<Args>(args)...));
  std::fflush(stdout);
}

void SayOutcome(std::string_view what, const grpc::Status& status);
void SayOutcome(std::string_view what, const absl::Status& status);
// `failed` is the outcome of a system call whose errno is still set; it must be
// EPERM or EACCES.
void SayDenied(std::string_view what, bool failed);
// Waits until gpud has closed the session; reports why, and what a later call
// gets.
void SayClosed(const WireDevice& device);

class Tally {
 public:
  void Count(const shm::EcqEntry& ended) {
    ++counts_[{static_cast<uint32_t>(ended.state), ended.status}];
  }
  // Counts the end of an event, if it has one.
  void Run(WireRing& ring, const WireRing::Entry& entry) {
    if (const auto ended = ring.Run(entry)) Count(*ended);
  }
  // Reports everything that differs from `expected` (0: done) as unexpected.
  void Say(const std::vector<uint32_t>& expected) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts_;
};

// Keeps an object for as long as the process lives.
template <class T>
T& Keep(T* object) {
  return *object;
}

// Runs this program as another process; returns when it has ended.
void RunSelf(const std::vector<std::string>& arguments);
// What that process does: it fetches apertures with a ticket, or uses a
// session.
void PresentTicket(const TestbedPaths& paths, const std::string& hex);
void UseSession(const TestbedPaths& paths, const std::string& hex);

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_HOSTILE_HOSTILE_TRICKS_H_
