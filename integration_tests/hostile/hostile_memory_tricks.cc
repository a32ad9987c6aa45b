// Tricks against the memory that the device shares with gpud.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "integration_tests/hostile/hostile_tricks.h"
#include "shm/layout.h"
#include "shm/waiting.h"

namespace carillon::testing {
namespace {

using shm::EventStatus;

constexpr uint32_t kDone = 0;
constexpr uint32_t Status(EventStatus status) {
  return static_cast<uint32_t>(status);
}

void OneHonestEvent(WireRing& ring) {
  Tally tally;
  tally.Run(ring, ring.Next());
  tally.Say({kDone});
}

void Resize(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  for (const auto& [what, fd] :
       {std::pair{"submission", device.handed.submission.get()},
        std::pair{"completion", device.handed.completion.get()}}) {
    SayDenied(fmt::format("shrinking the {} aperture", what),
              ftruncate(fd, 0) != 0);
    SayDenied(fmt::format("growing the {} aperture", what),
              ftruncate(fd, 1 << 30) != 0);
    SayDenied(fmt::format("sealing the {} aperture", what),
              fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  }
  OneHonestEvent(ring);
}

void WriteCompletions(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  const int fd = device.handed.completion.get();
  const size_t size = device.completion().size();
  auto* const mapped = const_cast<std::byte*>(device.completion().data());
  SayDenied("mapping the completion aperture writable",
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
                MAP_FAILED);
  SayDenied("making its mapping writable",
            mprotect(mapped, size, PROT_READ | PROT_WRITE) != 0);
  SayDenied("write() to it", pwrite(fd, "x", 1, 0) != 1);
  SayDenied("punching a hole into it",
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(size)) != 0);
  const int again =
      open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC);
  SayDenied("mapping it writable by its name in /proc",
            again < 0 || mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                              again, 0) == MAP_FAILED);
  OneHonestEvent(ring);
}

// Takes the pages out of gpud's mapping, including those of doorbells.
void PunchHoles(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  OneHonestEvent(ring);
  OneHonestEvent(ring);
  if (fallocate(device.handed.submission.get(),
                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(device.submission().size())) != 0) {
    Say("UNEXPECTED: no hole can be punched");
  }
  shm::BumpAndWake(&device.submission_control().summary);
  SayClosed(device);
}

// Takes memory of its apertures that it was not given: writes behind what there
// is of one, and reads behind what there is of the other.
void TouchUngiven(const Scene& scene) {
  constexpr size_t kTouched = size_t{16} << 20;
  auto& writer = Keep(new WireDevice(scene.paths, scene.name));
  OneHonestEvent(Keep(new WireRing(&writer, 8, 32)));
  const std::span<std::byte> given = writer.submission();
  std::memset(given.data() + given.size(), 1, kTouched);
  SayClosed(writer);
  auto& reader = Keep(new WireDevice(scene.paths, scene.name + "-2"));
  const std::span<const std::byte> read = reader.completion();
  for (size_t at = 0; at < kTouched; at += shm::kPageSize) {
    if (std::atomic_ref(const_cast<std::byte&>(*(&read.back() + 1 + at)))
            .load() != std::byte{0}) {
      Say("UNEXPECTED: something is there");
    }
  }
  SayClosed(reader);
}

// Writes random bytes into [begin, end) while `work` runs.
template <class Work>
void WhileScribbling(std::span<std::byte> bytes, Work work) {
  std::atomic<bool> stop{false};  // writer: this thread; reader: the scribbler
  std::thread scribbler([&] {
    std::mt19937_64 random(7);
    while (!stop.load(std::memory_order_relaxed)) {
      for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const uint64_t value = random();
        std::memcpy(bytes.data() + i, &value, sizeof(value));
      }
    }
  });
  work();
  stop.store(true, std::memory_order_relaxed);
  scribbler.join();
}

// Scribbles over everything that it can write, including doorbells and control
// words.
void ScribbleAll(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  OneHonestEvent(ring);
  WhileScribbling(device.submission(), [&] {
    Await("the end of the session",
          [&] { return device.closed() != shm::CloseReason::kOpen; });
  });
  SayClosed(device);
}

// Scribbles over everything except the doorbells: control words, telemetry,
// consumed counters, entries.
void ScribbleEntries(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  const uint64_t doorbells_end =
      shm::kDoorbellOffset + shm::kMaxDoorbells * sizeof(uint32_t);
  Tally tally;
  WhileScribbling(device.submission().subspan(doorbells_end), [&] {
    WhileScribbling(device.submission().first(shm::kDoorbellOffset), [&] {
      for (int i = 0; i < 3000; ++i) tally.Run(ring, ring.Next());
      const auto control = WireControl::OfOperator(scene.paths);
      if (!control.Call(&v1::Admin::Stub::ListDevices, v1::ListDevicesRequest())
               .ok() ||
          !control.Call(&v1::Admin::Stub::ListRings, v1::ListRingsRequest())
               .ok()) {
        Say("UNEXPECTED: gpud cannot show what was scribbled");
      }
    });
  });
  tally.Say({kDone, Status(EventStatus::kStaleGeneration),
             Status(EventStatus::kBadSequence),
             Status(EventStatus::kBadBufferRef),
             Status(EventStatus::kBadFlags)});
}

// Makes the same entry valid and invalid in turn while gpud reads it.
void RewriteParameters(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  Tally tally;
  for (const uint32_t threads : {32u, 64u}) {
    auto& ring = Keep(new WireRing(&device, 4, threads));
    std::atomic<bool> stop{false};  // writer: this thread; reader: the rewriter
    std::thread rewriter([&] {
      std::mt19937_64 random(11);
      while (!stop.load(std::memory_order_relaxed)) {
        for (uint32_t slot = 0; slot < 4; ++slot) {
          auto* const in = reinterpret_cast<shm::BufferRef*>(
              ring.entry(slot) + ring.layout().parameter_offset());
          std::atomic_ref(in->offset)
              .store(random() % 2 ? 0 : random(), std::memory_order_relaxed);
          std::atomic_ref(in->length)
              .store(random() % 2 ? WireRing::kMessage : random(),
                     std::memory_order_relaxed);
        }
      }
    });
    for (int i = 0; i < 2000; ++i) tally.Run(ring, ring.Next());
    stop.store(true, std::memory_order_relaxed);
    rewriter.join();
  }
  tally.Say({kDone, Status(EventStatus::kBadBufferRef)});
}

// Writes a heartbeat from the future, and then none: its silence must still be
// noticed.
void LyingLease(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  std::atomic_ref(device.submission_control().heartbeat_ns)
      .store(~uint64_t{0}, std::memory_order_relaxed);
  const auto control = WireControl::OfOperator(scene.paths);
  Await("its silence", [&] {
    v1::ListDevicesResponse devices;
    if (!control
             .Call(&v1::Admin::Stub::ListDevices, v1::ListDevicesRequest(),
                   &devices)
             .ok()) {
      return false;
    }
    for (const v1::Device& one : devices.devices()) {
      if (one.name() == scene.name && one.silent_ns() > 500'000'000)
        return true;
    }
    return false;
  });
  Say("seen: silent, whatever its heartbeat says");
}

void LyingCounters(const Scene& scene) {
  auto& device = Keep(new WireDevice(scene.paths, scene.name));
  auto& ring = Keep(new WireRing(&device, 8, 32));
  for (const uint64_t lie :
       {~uint64_t{0}, uint64_t{1} << 63, uint64_t{12345}}) {
    auto* const consumed = device.At<uint64_t>(shm::kConsumedOffset);
    for (uint32_t i = 0; i < shm::kMaxDoorbells; ++i) consumed[i] = lie;
    auto* const telemetry = device.At<uint64_t>(shm::kTelemetryOffset);
    for (size_t i = 0; i < sizeof(shm::Telemetry) / 8; ++i) telemetry[i] = lie;
    std::atomic_ref(device.submission_control().completion_armed)
        .store(static_cast<uint32_t>(lie), std::memory_order_relaxed);
    // More events than there are slots: gpud must not believe the counters.
    for (int i = 0; i < 20; ++i) OneHonestEvent(ring);
    const auto control = WireControl::OfOperator(scene.paths);
    const auto rings_shown =
        control.Call(&v1::Admin::Stub::ListRings, v1::ListRingsRequest());
    const auto devices_shown =
        control.Call(&v1::Admin::Stub::ListDevices, v1::ListDevicesRequest());
    Say("{}: its counters", rings_shown.ok() && devices_shown.ok()
                                ? "seen"
                                : "UNEXPECTED: gpud cannot show");
  }
}

}  // namespace

std::vector<Trick> MemoryTricks() {
  return {
      {"resize", "shrinks, grows and seals its apertures", Resize},
      {"write-completions", "writes where only gpud may", WriteCompletions},
      {"punch-holes", "frees the pages of what gpud reads", PunchHoles},
      {"touch-ungiven", "takes memory that its apertures have not grown to",
       TouchUngiven},
      {"scribble-all", "random bytes everywhere, doorbells too", ScribbleAll},
      {"scribble-entries", "random bytes all around its doorbells",
       ScribbleEntries},
      {"rewrite-parameters", "changes entries while gpud checks them",
       RewriteParameters},
      {"lying-lease", "a sign of life from the future, and then none",
       LyingLease},
      {"lying-counters", "consumed counters and telemetry that cannot be",
       LyingCounters},
  };
}

}  // namespace carillon::testing
