// Pagoda's API for devices (Pagoda, TOPC'19, section 3, Table 1) over events:
// taskSpawn, wait, check and waitAll. What its kernels call, getTid, syncBlock and
// getSMPtr, is in kernels/simt/pagoda.h.
//
//   pagoda::Tasks tasks(device.get());
//   const auto add = *tasks.AddFunction(
//       {.kernel = "vector_add",
//        .parameters = {edge::WritableBuffer("a", in), ...}});
//   const auto id = *tasks.taskSpawn(128, 4, 0, add, a, b, c);
//   const absl::Status status = tasks.wait(id, std::chrono::seconds(1));
//
// A task is an event whose entry brings its own dimensions, so what runs it is the
// event kernel's launch path: `pagoda`, unless the specification names another.
#ifndef CARILLON_DEVICES_SDK_PAGODA_H_
#define CARILLON_DEVICES_SDK_PAGODA_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::pagoda {

// Above 1, as in the paper; never given twice.
enum class TaskId : uint64_t {};

// A kernel that tasks run: of the Tasks that has added it.
enum class Function : uint32_t {};

// Belongs to the first thread that calls any of its functions but the
// constructor: from another thread they return FAILED_PRECONDITION and do nothing.
// After Device::Resume() it goes on; before that, check() or wait() must have been
// called after the session's end. A task that had ended, and was waited for, runs
// once more with the next gpud if one of its function before it had not ended: its
// slot was not free.
class Tasks {
 public:
  struct Options {
    // That taskSpawn waits for room.
    std::chrono::nanoseconds longest_full = std::chrono::seconds(1);
  };
  // The device must outlive it.
  explicit Tasks(edge::Device* device) : Tasks(device, Options()) {}
  Tasks(edge::Device* device, Options options);
  // Waits for the tasks of each function for at most a second, and aborts the
  // rest.
  ~Tasks();
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  // Registers an event kernel of which every event is a task: max_in_flight of
  // them at once. The arguments of its tasks are the parameters that are
  // writable, in their order here. `modifyable` is set, and `launch_path` is
  // "pagoda" if it is empty. Errors: as edgeRegisterEvent; INVALID_ARGUMENT: a
  // stride by slots, as a task has no slot; on cuda's pagoda_ring also a kernel
  // that checks its dimensions itself, as only a CPU can ask it.
  absl::StatusOr<Function> AddFunction(edge::EventSpec spec);

  // Does not wait for the task, only for room for it. A task that an MTB cannot
  // hold runs as a kernel of its own; on cuda it fails with
  // shm::EventStatus::kBadKmd. The paper's flag for barriers is missing: a
  // kernel says by itself whether its threads meet. Each argument must have its
  // parameter's type, and is a shm::BufferRef for a buffer. Errors: NOT_FOUND
  // (function), INVALID_ARGUMENT (dimensions, number, kinds and sizes of arguments),
  // RESOURCE_EXHAUSTED (as many tasks of the function as its ring has entries run
  // and none ends, or a million tasks were spawned that nobody has waited for),
  // UNAVAILABLE (gpud is gone).
  template <class... Args>
  absl::StatusOr<TaskId> taskSpawn(uint32_t threads_per_block, uint32_t blocks,
                                   uint32_t shared_bytes, Function function,
                                   const Args&... args) {
    const std::array<Argument, sizeof...(Args)> list = {ArgumentOf(args)...};
    return Spawn(threads_per_block, blocks, shared_bytes, function, list);
  }

  // Until the task has ended; once for each: what it has written is there. Errors:
  // NOT_FOUND (no such task), FAILED_PRECONDITION (it was waited for before),
  // DEADLINE_EXCEEDED (it runs on, and may be waited for again), INTERNAL (its
  // kernel has failed), ABORTED, UNAVAILABLE (gpud is gone).
  absl::Status wait(TaskId id, std::chrono::nanoseconds bound);
  // Whether it has ended, in whatever way; changes nothing. Errors: NOT_FOUND,
  // FAILED_PRECONDITION, UNAVAILABLE as wait().
  absl::StatusOr<bool> check(TaskId id);
  // Until all tasks have ended. All have been waited for then, even if it returns
  // the error of one that has failed. DEADLINE_EXCEEDED: some run on, and none
  // has been waited for.
  absl::Status waitAll(std::chrono::nanoseconds bound);

 private:
  struct Argument {
    const void* value;
    size_t bytes;
    bool is_buffer;
  };
  template <class T>
  static Argument ArgumentOf(const T& value) {
    constexpr bool kIsBuffer = std::is_same_v<T, shm::BufferRef>;
    static_assert(kIsBuffer || std::is_arithmetic_v<T>,
                  "an argument is a number or a shm::BufferRef");
    return {&value, sizeof(T), kIsBuffer};
  }
  struct Registered {
    edge::EventQueue* queue;
    struct Place {
      std::string name;
      uint32_t offset;
      uint32_t bytes;
      bool is_buffer;
    };
    std::vector<Place> places;  // of its arguments
  };
  static constexpr size_t kMaxNotWaitedFor = 1 << 20;

  absl::StatusOr<TaskId> Spawn(uint32_t threads, uint32_t blocks,
                               uint32_t shared_bytes, Function function,
                               std::span<const Argument> arguments);
  absl::Status CheckThread();
  absl::Status CheckId(TaskId id) const;
  TaskId IdOf(size_t function, shm::Sequence sequence) const;
  // Frees the slots of tasks that have ended, and keeps how.
  void Collect();
  // Requires a task that nobody has waited for.
  std::optional<edge::Completion> EndOf(TaskId id);
  bool AllEnded();

  edge::Device& device_;
  const Options options_;
  std::atomic<std::thread::id> owner_{};
  std::vector<Registered> functions_;
  // Tasks that nobody has waited for; how they ended, if Collect() has seen it.
  std::map<TaskId, std::optional<edge::Completion>> open_;
};

}  // namespace carillon::pagoda

#endif  // CARILLON_DEVICES_SDK_PAGODA_H_
