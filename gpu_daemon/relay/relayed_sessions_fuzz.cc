// What the GPU's host says, in simulated time, to a host with two connections of
// calls (ids 0, 1), two devices that have shown their ticket (2, 3) and one that
// has not (4): bytes reach the connection that they are for, and no other; of a
// device's memory only what is gpud's to write is changed; what ends is let go
// of, and nobody lists it; nothing is said back but that a session has ended.
//
//   over and over: u8 what, modulo 8
//     0          u16 length modulo 300: a SessionStep as it comes
//     1          u16 length modulo 300, bytes for a connection
//     2          close
//     3          fetched; u8 modulo 4: its heaps' pages; u8 bit 0: refused
//     4          changed: u8 bit 0: u64 offset, else u16 in words of 8 bytes;
//                u16 length modulo 300, its bytes
//     5          turn: u64
//     6          end: u8 why
//     7          the list of devices
//   each of 1 to 6 with a u8 modulo 6: the id of a connection or session
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/relay/relayed_sessions.h"
#include "shm/aperture.h"
#include "shm/handover.h"
#include "shm/simulated_time.h"

namespace carillon::gpud {
namespace {

using shm::Aperture;
using shm::RegionKind;

constexpr uint64_t kCalls = 2;
constexpr uint64_t kAsking = 2;
constexpr uint64_t kConnections = 5;
constexpr uint64_t kMostModelled = 8 * shm::kPageSize;

// What the end of a connection hears: bytes, descriptors; not open: all has been
// heard.
struct Heard {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
  bool open = true;
};

Heard Hear(int connection) {
  Heard heard;
  for (;;) {
    std::array<char, 4096> buffer;
    iovec payload{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &payload;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count =
        recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0) return heard;
    if (count == 0) {
      heard.open = false;
      return heard;
    }
    heard.bytes.append(buffer.data(), static_cast<size_t>(count));
    const cmsghdr* const part = CMSG_FIRSTHDR(&message);
    if (part == nullptr) continue;
    FUZZ_CHECK(part->cmsg_type == SCM_RIGHTS);
    for (size_t at = CMSG_LEN(0); at < part->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<const char*>(part) + at, sizeof(fd));
      heard.descriptors.emplace_back(fd);
    }
  }
}

// What a device has been handed over, and what must be in it.
struct Memory {
  Memory(const v1::FetchedSession& fetched, std::vector<UniqueFd> descriptors)
      : submission(Aperture::Map(std::move(descriptors[0]),
                                 RegionKind::kSubmission,
                                 shm::Generation(fetched.generation()))
                       .value()),
        completion(Aperture::Map(std::move(descriptors[1]),
                                 RegionKind::kCompletion,
                                 shm::Generation(fetched.generation()))
                       .value()),
        now_ns(fetched.now_ns()),
        device_id(fetched.device_id()) {
    for (const Aperture* each : {&submission, &completion}) {
      FUZZ_CHECK(each->generation().value() == fetched.generation());
      if (each->size() > kMostModelled) modelled = false;
    }
    FUZZ_CHECK(submission.heap_size() ==
               shm::AlignUp(fetched.submission_heap(), shm::kPageSize));
    if (!modelled) return;
    heap.assign(completion.heap_size(), std::byte{0});
    written.assign(submission.At(0), submission.At(0) + submission.size());
  }

  void Store(const v1::ChangedMemory& changed) {
    if (!modelled) return;
    for (const v1::ChangedRange& range : changed.ranges()) {
      const uint64_t length = range.bytes().size();
      const uint64_t first = completion.heap_offset();
      if (range.offset() % 8 != 0 || length % 8 != 0 ||
          range.offset() < first || range.offset() > completion.size() ||
          length > completion.size() - range.offset()) {
        return;
      }
      std::memcpy(&heap[range.offset() - first], range.bytes().data(), length);
    }
  }
  void Check() const {
    shm::TimeTurn turn;
    std::memcpy(&turn, completion.At(shm::kSimulatedTimeOffset), sizeof(turn));
    FUZZ_CHECK(turn.turn == turns && turn.now_ns == now_ns);
    FUZZ_CHECK(completion.completion_control().closed == closed);
    if (!modelled) return;
    FUZZ_CHECK(std::memcmp(completion.At(completion.heap_offset()), heap.data(),
                           heap.size()) == 0);
    FUZZ_CHECK(std::memcmp(submission.At(0), written.data(), written.size()) ==
               0);
  }

  const Aperture submission;
  const Aperture completion;
  bool modelled = true;
  std::vector<std::byte> heap;     // of `completion`
  std::vector<std::byte> written;  // all of `submission`
  uint64_t turns = 1;
  uint64_t now_ns;
  const uint32_t device_id;
  uint32_t closed = 0;
};

class Run {
 public:
  explicit Run(fuzz::FuzzInput input) : input_(input) {
    Begin();
    while (!input_.empty()) Step();
    sessions_.EndAll(shm::CloseReason::kShutdown);
    for (const auto& [id, end] : ends_) FUZZ_CHECK(!Hear(end.get()).open);
    FUZZ_CHECK(sessions_.Devices().devices().empty());
  }

 private:
  UniqueFd Connect(uint64_t id, int type) {
    std::array<int, 2> both;
    FUZZ_CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both.data()) == 0);
    ends_[id] = UniqueFd(both[0]);
    return UniqueFd(both[1]);
  }
  void Begin() {
    for (uint64_t id = 0; id < kConnections; ++id) {
      const pid_t pid = 1 + static_cast<pid_t>(id % 2);
      if (id < kCalls) {
        sessions_.AddCalls(Connect(id, SOCK_STREAM), pid);
        continue;
      }
      sessions_.AddDevice(Connect(id, SOCK_SEQPACKET), pid);
      if (id >= kCalls + kAsking) continue;
      const shm::HandoverRequest request{.magic = shm::kMagic,
                                         .layout_version = shm::kLayoutVersion,
                                         .reserved = 0,
                                         .ticket = {}};
      FUZZ_CHECK(send(ends_[id].get(), &request, sizeof(request), 0) ==
                 sizeof(request));
    }
    loop_->Run();  // until both have asked
  }
  void Said(const v1::SessionStep& step) {
    if (step.has_fetch()) {
      if (++asked_ == kAsking) loop_->Stop();
      return;
    }
    if (step.has_end()) ended_ = step.end().session();
    FUZZ_CHECK(step.has_open() || step.has_end() || step.has_close(), "step %d",
               static_cast<int>(step.step_case()));
  }

  v1::SessionStep TakeStep() {
    v1::SessionStep step;
    const uint32_t what = input_.Take<uint8_t>() % 8;
    const auto text = [&] {
      return std::string(input_.TakeText(input_.TakeBelow(300)));
    };
    const auto id = [&] { return uint64_t{input_.Take<uint8_t>()} % 6; };
    switch (what) {
      case 0:
        if (!step.ParseFromString(text())) step.Clear();
        break;
      case 1:
        step.mutable_bytes()->set_connection(id());
        step.mutable_bytes()->set_bytes(text());
        break;
      case 2:
        step.mutable_close()->set_connection(id());
        break;
      case 3: {
        v1::FetchedSession* const fetched = step.mutable_fetched();
        fetched->set_session(id());
        fetched->set_device_id(static_cast<uint32_t>(fetched->session()));
        fetched->set_generation(1);
        fetched->set_doorbells(32);
        fetched->set_now_ns(1);
        const uint64_t pages = input_.Take<uint8_t>() % 4;
        fetched->set_submission_heap(pages * shm::kPageSize);
        fetched->set_completion_heap(pages * shm::kPageSize);
        if (input_.TakeBool()) fetched->set_code(5);
        break;
      }
      case 4: {
        step.mutable_changed()->set_session(id());
        auto* const range = step.mutable_changed()->add_ranges();
        range->set_offset(input_.TakeBool()
                              ? input_.Take<uint64_t>()
                              : uint64_t{8} * input_.Take<uint16_t>());
        range->set_bytes(text());
        break;
      }
      case 5:
        step.mutable_turn()->set_session(id());
        step.mutable_turn()->set_now_ns(input_.Take<uint64_t>());
        break;
      case 6:
        step.mutable_end()->set_session(id());
        step.mutable_end()->set_reason(input_.Take<uint8_t>());
        break;
      default: {
        v1::ListDevicesResponse all;
        for (uint32_t each = 0; each < kConnections; ++each) {
          all.add_devices()->set_device_id(each);
        }
        step.set_devices(all.SerializeAsString());
      }
    }
    return step;
  }

  void Step() {
    const v1::SessionStep step = TakeStep();
    ended_.reset();
    sessions_.Take(step);
    std::erase_if(ends_, [&](const auto& end) {
      Heard heard = Hear(end.second.get());
      return end.first < kCalls ? !CheckCalls(step, end.first, heard)
                                : !CheckDevice(step, end.first, heard);
    });
    std::erase_if(devices_, [&](const auto& each) {
      return !ends_.contains(each.first);
    });
    const v1::ListDevicesResponse listed = sessions_.Devices();
    for (const v1::Device& device : listed.devices()) {
      FUZZ_CHECK(ids_.contains(device.device_id()) && device.pid() != 0);
    }
  }
  // Whether it is still open.
  static bool CheckCalls(const v1::SessionStep& step, uint64_t id,
                         const Heard& heard) {
    const bool its = step.bytes().connection() == id && step.has_bytes();
    FUZZ_CHECK(heard.bytes == (its ? step.bytes().bytes() : ""));
    FUZZ_CHECK(heard.open ==
               !(step.has_close() && step.close().connection() == id));
    return heard.open;
  }
  bool CheckDevice(const v1::SessionStep& step, uint64_t id, Heard& heard) {
    const auto found = devices_.find(id);
    const bool fetched = step.has_fetched() && step.fetched().session() == id;
    const bool ends = step.has_end() && step.end().session() == id;
    FUZZ_CHECK(heard.bytes.empty() || fetched);
    FUZZ_CHECK((ended_ == id) == (!heard.open && fetched));
    FUZZ_CHECK(heard.open || fetched || ends);
    if (found != devices_.end()) {
      Memory& memory = *found->second;
      if (step.has_changed() && step.changed().session() == id) {
        memory.Store(step.changed());
      }
      if (step.has_turn() && step.turn().session() == id) {
        ++memory.turns;
        memory.now_ns = step.turn().now_ns();
      }
      if (ends) memory.closed = step.end().reason();
      if (fetched) {
        FUZZ_CHECK(!heard.open, "a session is handed over a second time");
        memory.closed = static_cast<uint32_t>(shm::CloseReason::kEvicted);
      }
      memory.Check();
      if (!heard.open) ids_.erase(ids_.find(memory.device_id));
    } else if (fetched && heard.open) {
      FUZZ_CHECK(id < kCalls + kAsking, "nobody has asked for it");
      FUZZ_CHECK(heard.descriptors.size() == 3);
      devices_[id] = std::make_unique<Memory>(step.fetched(),
                                              std::move(heard.descriptors));
      devices_[id]->Check();
      ids_.insert(step.fetched().device_id());
    }
    return heard.open;
  }

  fuzz::FuzzInput input_;
  const std::unique_ptr<EventLoop> loop_ = EventLoop::Create().value();
  std::map<uint64_t, UniqueFd> ends_;  // the processes' ends
  std::map<uint64_t, std::unique_ptr<Memory>> devices_;
  std::multiset<uint32_t> ids_;  // of devices_
  uint64_t asked_ = 0;
  std::optional<uint64_t> ended_;  // said by the last step
  RelayedSessions sessions_{loop_.get(), "b", 0,
                            [this](const v1::SessionStep& step) { Said(step); },
                            [] {}};
};

}  // namespace
}  // namespace carillon::gpud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool silent = [] {
    spdlog::set_level(spdlog::level::off);
    return true;
  }();
  carillon::gpud::Run(carillon::fuzz::FuzzInput(data, size));
  return 0;
}
