// What another host says of its devices' sessions and calls, in simulated time,
// with a gpud that hands apertures over and listens: bytes reach the connection
// that they are for, and no other; of an aperture only what is a device's to
// write is changed; what ends is let go of; and nothing is said back but what a
// far end may say.
//
//   over and over: u8 what, modulo 10
//     0          u16 length modulo 300: a SessionStep as it comes
//     1, 2       open, close; 3: u16 length modulo 300, bytes for a connection
//     4          fetch; u8 bit 0: gpud refuses, bit 1: a ticket of another size
//     5          changed: u8 bit 0: u64 offset, else u16 in words of 8 bytes;
//                u16 length modulo 300, its bytes
//     6          answer: u64
//     7          end
//     8, 9       gpud ends a connection, a session
//   each of 1 to 9 with a u8 modulo 4: the id of a connection or session
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "devices/link/linked_sessions.h"
#include "shm/aperture.h"
#include "shm/simulated_time.h"
#include "shm/wakeups.h"

namespace carillon::link {
namespace {

using shm::Aperture;
using shm::RegionKind;

constexpr uint64_t kHeapBytes = 2 * shm::kPageSize;
constexpr shm::Generation kGeneration{1};

std::pair<UniqueFd, UniqueFd> SocketPair(int type) {
  std::array<int, 2> ends;
  FUZZ_CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// What has come; nothing: the other end is closed, and all has been read.
std::optional<std::string> ReadAll(int connection) {
  std::string all;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count =
        recv(connection, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0) return all;
    if (count == 0) return all.empty() ? std::nullopt : std::optional(all);
    all.append(buffer.data(), static_cast<size_t>(count));
  }
}

// gpud's side of a session. Apertures are made once, and each input finds them
// with zeros.
struct GpudSession {
  static Aperture Make(RegionKind kind) {
    return Aperture::Create({.kind = kind,
                             .growth_bytes = kHeapBytes,
                             .generation = kGeneration,
                             .device_id = 1})
        .value();
  }
  Aperture submission = Make(RegionKind::kSubmission);
  Aperture completion = Make(RegionKind::kCompletion);
  shm::CompletionEvent event = shm::CompletionEvent::Create().value();
  UniqueFd connection;
  std::vector<std::byte> expected;

  shm::HandedOver HandOver() {
    std::memset(submission.At(shm::kPageSize), 0,
                submission.size() - shm::kPageSize);
    std::memset(completion.At(shm::kPageSize), 0,
                completion.size() - shm::kPageSize);
    shm::TurnGiver(&submission, &completion).Give(1);
    expected.assign(submission.At(0), submission.At(0) + submission.size());
    auto [here, there] = SocketPair(SOCK_SEQPACKET);
    connection = std::move(here);
    return {.device_id = 1,
            .generation = kGeneration,
            .submission = UniqueFd(dup(submission.fd())),
            .completion = UniqueFd(dup(completion.fd())),
            .completion_event = UniqueFd(dup(event.reader.get())),
            .connection = std::move(there)};
  }
  // linkd has its end.
  bool is_held() const { return connection && ReadAll(connection.get()); }
  shm::TimeAnswer answer() const {
    shm::TimeAnswer answer;
    std::memcpy(&answer, submission.At(shm::kSimulatedTimeOffset),
                sizeof(answer));
    return answer;
  }
  // All but the control words, where linkd says for the device that it lives.
  void Check() const {
    const auto same = [&](uint64_t from, uint64_t to) {
      return std::memcmp(submission.At(from), &expected[from], to - from) == 0;
    };
    FUZZ_CHECK(same(0, shm::kControlOffset));
    FUZZ_CHECK(same(shm::kTelemetryOffset, submission.size()));
  }
  bool Store(const v1::ChangedMemory& changed) {
    for (const v1::ChangedRange& range : changed.ranges()) {
      const uint64_t length = range.bytes().size();
      if (range.offset() % 8 != 0 || length % 8 != 0 ||
          range.offset() < shm::kTelemetryOffset ||
          range.offset() > expected.size() ||
          length > expected.size() - range.offset()) {
        return false;
      }
      std::memcpy(&expected[range.offset()], range.bytes().data(), length);
    }
    return true;
  }
};

class Run {
 public:
  explicit Run(fuzz::FuzzInput input) : input_(input) {
    while (!input_.empty()) Step();
    sessions_.Clear();
    for (const auto& [id, calls] : calls_) FUZZ_CHECK(!ReadAll(calls.get()));
    for (const auto& [id, session] : devices_) FUZZ_CHECK(!session->is_held());
  }

 private:
  static std::array<GpudSession, 8>& Pool() {
    static auto* const pool = new std::array<GpudSession, 8>();
    return *pool;
  }

  absl::StatusOr<UniqueFd> Connect() {
    auto [here, there] = SocketPair(SOCK_STREAM);
    calls_[asked_] = std::move(here);
    return std::move(there);
  }
  absl::StatusOr<shm::HandedOver> HandOver() {
    if (refuses_) return absl::NotFoundError("no such ticket");
    for (GpudSession& each : Pool()) {
      if (each.is_held()) continue;
      devices_[asked_] = &each;
      return each.HandOver();
    }
    return absl::ResourceExhaustedError("no more devices");
  }
  void Hear(const v1::SessionStep& step) {
    switch (step.step_case()) {
      case v1::SessionStep::kClose:
        closed_ = step.close().connection();
        return;
      case v1::SessionStep::kEnd:
        ended_ = step.end().session();
        return;
      case v1::SessionStep::kFetched:
        FUZZ_CHECK((step.fetched().code() == 0) ==
                   (step.fetched().generation() == kGeneration.value()));
        return;
      default:
        // gpud has given one turn, has said nothing and written nothing.
        FUZZ_CHECK(false, "step %d", static_cast<int>(step.step_case()));
    }
  }

  v1::SessionStep TakeStep(uint32_t what, uint64_t id) {
    v1::SessionStep step;
    switch (what) {
      case 0: {
        const auto text = input_.TakeText(input_.TakeBelow(300));
        if (!step.ParseFromString(std::string(text))) step.Clear();
        break;
      }
      case 1:
        step.mutable_open()->set_connection(id);
        break;
      case 2:
        step.mutable_close()->set_connection(id);
        break;
      case 3:
        step.mutable_bytes()->set_connection(id);
        step.mutable_bytes()->set_bytes(
            std::string(input_.TakeText(input_.TakeBelow(300))));
        break;
      case 4: {
        const auto how = input_.Take<uint8_t>();
        refuses_ = (how & 1) != 0;
        step.mutable_fetch()->set_session(id);
        step.mutable_fetch()->set_ticket(
            std::string(sizeof(shm::Ticket) - ((how & 2) != 0 ? 1 : 0), 't'));
        break;
      }
      case 5: {
        step.mutable_changed()->set_session(id);
        auto* const range = step.mutable_changed()->add_ranges();
        range->set_offset(input_.TakeBool()
                              ? input_.Take<uint64_t>()
                              : uint64_t{8} * input_.Take<uint16_t>());
        range->set_bytes(std::string(input_.TakeText(input_.TakeBelow(300))));
        break;
      }
      case 6:
        step.mutable_answer()->set_session(id);
        step.mutable_answer()->set_next_ns(input_.Take<uint64_t>());
        break;
      default:
        step.mutable_end()->set_session(id);
    }
    return step;
  }

  void Step() {
    const uint32_t what = input_.Take<uint8_t>() % 10;
    const uint64_t id = what == 0 ? 0 : input_.Take<uint8_t>() % 4;
    if (what >= 8) return EndAtGpud(id, what == 8);
    const v1::SessionStep step = TakeStep(what, id);
    asked_ =
        step.has_open() ? step.open().connection() : step.fetch().session();
    bool good = true;
    if (step.has_changed()) {
      const auto found = devices_.find(step.changed().session());
      if (found != devices_.end()) good = found->second->Store(step.changed());
    }
    ended_.reset();
    sessions_.Take(step);
    FUZZ_CHECK(ended_ ==
               (good ? std::nullopt : std::optional(step.changed().session())));
    for (auto& [connection, calls] : calls_) {
      if (!calls) continue;
      const auto read = ReadAll(calls.get());
      if (!read) {
        calls.reset();  // it was closed, or another has taken its place
        FUZZ_CHECK(step.has_close() && step.close().connection() == connection);
      } else if (step.has_bytes() && step.bytes().connection() == connection) {
        FUZZ_CHECK(*read == step.bytes().bytes());
      } else {
        FUZZ_CHECK(read->empty(), "bytes for another connection");
      }
    }
    for (const auto& [session, gpuds] : devices_) {
      gpuds->Check();
      const bool ends = (step.has_end() && step.end().session() == session) ||
                        (!good && step.changed().session() == session);
      FUZZ_CHECK(gpuds->is_held() == !ends);
      if (step.has_answer() && step.answer().session() == session) {
        FUZZ_CHECK(gpuds->answer().next_ns == step.answer().next_ns());
      }
    }
    std::erase_if(calls_, [](const auto& one) { return !one.second; });
    std::erase_if(devices_,
                  [](const auto& one) { return !one.second->is_held(); });
    FUZZ_CHECK(sessions_.connections() == calls_.size());
    FUZZ_CHECK(sessions_.devices() == devices_.size());
  }

  // What ends there is told, once.
  void EndAtGpud(uint64_t id, bool connection) {
    bool there = false;
    if (connection) {
      there = calls_.erase(id) != 0;
    } else if (const auto found = devices_.find(id); found != devices_.end()) {
      there = true;
      found->second->connection.reset();
      devices_.erase(found);
    }
    const auto told = [&](bool it) {
      return it ? std::optional(id) : std::nullopt;
    };
    for (const bool first : {true, false}) {
      closed_.reset();
      ended_.reset();
      std::vector<pollfd> fds;
      sessions_.Watch(/*answers=*/true, &fds);
      poll(fds.data(), fds.size(), 0);
      sessions_.Read(fds);
      FUZZ_CHECK(closed_ == told(first && there && connection));
      FUZZ_CHECK(ended_ == told(first && there && !connection));
    }
  }

  fuzz::FuzzInput input_;
  uint64_t asked_ = 0;  // the id of what is being opened
  bool refuses_ = false;
  std::map<uint64_t, UniqueFd> calls_;  // gpud's ends
  std::map<uint64_t, GpudSession*> devices_;
  std::optional<uint64_t> closed_;
  std::optional<uint64_t> ended_;
  LinkedSessions sessions_{
      "a",
      {.connect = [this] { return Connect(); },
       .fetch = [this](const shm::Ticket&) { return HandOver(); }},
      [this](const v1::SessionStep& step) { Hear(step); }};
};

}  // namespace
}  // namespace carillon::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool silent = [] {
    spdlog::set_level(spdlog::level::off);
    return true;
  }();
  carillon::link::Run(carillon::fuzz::FuzzInput(data, size));
  return 0;
}
