#include "tools/bench/narrow/on_driver.h"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "kernels/simt/types.h"
#include "tools/bench/narrow/narrow_module.h"
#include "tools/bench/narrow/narrow_ptx.h"
#include "tools/bench/narrow/order.h"
#include "tools/bench/narrow/record.h"

namespace carillon::bench {
namespace {

namespace cuda = gpud::cuda;

// As many as a GPU has hardware queues (Pagoda 6.2).
constexpr size_t kStreams = 32;
// Tasks in a stream at once: the GPU must not wait for the host's next launch.
constexpr size_t kDepth = 8;
constexpr uint32_t kCopyThreads = 128;  // as a task has

class DriverImpl : public NarrowDriver {
 public:
  DriverImpl(cuda::Driver driver, CUdevice device)
      : driver_(driver), device_(device) {}
  ~DriverImpl() override {
    if (hangs_) {
      // Each of the calls below would wait for what hangs.
      kernels_.Abandon();
      narrow_.Abandon();
      return;
    }
    if (context_ == nullptr) return;
    driver_.cuCtxSynchronize();
    kernels_.Reset();
    narrow_.Reset();
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  absl::Status MakeContext() {
    RETURN_IF_ERROR(Check(driver_.cuDevicePrimaryCtxRetain(&context_, device_),
                          "make a CUDA context"));
    RETURN_IF_ERROR(
        Check(driver_.cuCtxSetCurrent(context_), "use the CUDA context"));
    ASSIGN_OR_RETURN(kernels_, cuda::LoadModule(driver_, NarrowModule()));
    return absl::OkStatus();
  }

  absl::StatusOr<NarrowOutcome> Run(
      const NarrowWorkload& workload, const NarrowDriverRun& run,
      const std::function<absl::Status()>& may_go_on) override;

  absl::Status Check(CUresult result, std::string_view what) const {
    return cuda::ToStatus(driver_, result, what);
  }
  const cuda::Driver& driver() const { return driver_; }
  // In its plain form.
  absl::StatusOr<CUfunction> Find(std::string_view kernel) const {
    return cuda::FindFunction(driver_, kernels_.get(),
                              fmt::format("carillon_{}", kernel).c_str());
  }
  // Whether it was asked before.
  bool IsWarm(const std::string& workload, const NarrowDriverRun& run) {
    return !warm_.insert({workload, std::string(run.path), run.copies}).second;
  }
  absl::StatusOr<CUfunction> FindFused(const std::string& kernel) {
    if (!narrow_) {
      ASSIGN_OR_RETURN(narrow_, cuda::LoadModule(driver_, NarrowPtx()));
    }
    return cuda::FindFunction(driver_, narrow_.get(), kernel.c_str());
  }

 private:
  const cuda::Driver driver_;
  const CUdevice device_;
  CUcontext context_ = nullptr;
  cuda::Module kernels_, narrow_;
  std::set<std::tuple<std::string, std::string, bool>> warm_;
  bool hangs_ = false;
};

// One run of a workload, and its data.
class DriverRun {
 public:
  DriverRun(DriverImpl& gpu, const NarrowWorkload& workload,
            const NarrowDriverRun& run,
            const std::function<absl::Status()>& may_go_on)
      : gpu_(gpu),
        workload_(workload),
        run_(run),
        may_go_on_(may_go_on),
        times_(workload.tasks().size()) {}
  // Nothing of it is in use by the GPU when it goes, or it stays.
  ~DriverRun() {
    if (hangs_) {
      Abandon();
    } else {
      gpu_.driver().cuCtxSynchronize();
    }
  }

  absl::StatusOr<NarrowOutcome> Execute() {
    absl::Status status = RunWarm();
    if (status.ok()) {
      return NarrowOutcome{.tasks = std::move(times_), .launches = launches_};
    }
    hangs_ = absl::IsDeadlineExceeded(status) || !Drain().ok();
    if (absl::IsDeadlineExceeded(status) || !may_go_on_().ok()) return status;
    if (hangs_) {
      return absl::DeadlineExceededError(fmt::format(
          "{}; what was launched before does not end", status.message()));
    }
    if (absl::IsUnimplemented(status) || absl::IsDataLoss(status)) {
      return status;
    }
    // The driver's InvalidArgument says nothing of what was asked for.
    return absl::InternalError(status.message());
  }
  // Whether some of it may run for ever.
  bool hangs() const { return hangs_; }

 private:
  struct Flight {
    size_t task;
    cuda::Event end;
  };
  struct Lane {
    cuda::Stream stream;
    std::deque<Flight> flights;       // the oldest first
    std::vector<cuda::Event> events;  // not in use
  };

  const NarrowUnit& Task(size_t task) const { return workload_.tasks()[task]; }
  uint64_t StatusOf(size_t task) const {
    return statuses_.address() + task * sizeof(uint32_t);
  }

  // The first time in this context once more, in vain: what the driver loads and
  // makes at the first launch of a kernel is no task's time.
  absl::Status RunWarm() {
    RETURN_IF_ERROR(MakeData());
    const bool warm = gpu_.IsWarm(workload_.name(), run_);
    for (int i = warm ? 1 : 0; i < 2; ++i) {
      RETURN_IF_ERROR(SetData());
      order_.emplace(workload_);
      launches_ = 0;
      begun_ = NowNs();
      RETURN_IF_ERROR(run_.path == kFusion ? RunFused() : RunStreams());
    }
    RETURN_IF_ERROR(
        gpu_.Check(gpu_.driver().cuCtxSynchronize(), "end the tasks"));
    return CheckResults();
  }
  uint64_t now() const { return static_cast<uint64_t>(NowNs() - begun_); }

  absl::Status MakeData() {
    const cuda::Driver& driver = gpu_.driver();
    const uint64_t count = workload_.tasks().size();
    ASSIGN_OR_RETURN(data_, cuda::DeviceBytes::Make(driver, workload_.bytes()));
    // A word more for what copies: it cannot fail.
    ASSIGN_OR_RETURN(statuses_, cuda::DeviceBytes::Make(
                                    driver, (count + 1) * sizeof(uint32_t)));
    if (run_.copies) {
      ASSIGN_OR_RETURN(in_, cuda::PinnedBytes::Make(driver, workload_.bytes()));
      ASSIGN_OR_RETURN(out_,
                       cuda::PinnedBytes::Make(driver, workload_.bytes()));
      std::ranges::copy(workload_.initial(), in_.data());
      // What is not copied is not there.
      hidden_.assign(workload_.initial().begin(), workload_.initial().end());
      for (const NarrowUnit& task : workload_.tasks()) {
        std::fill_n(hidden_.begin() + task.in.offset, task.in.bytes,
                    std::byte{0});
      }
    }
    const bool fused = run_.path == kFusion;
    if (fused) {
      ASSIGN_OR_RETURN(records_, cuda::DeviceBytes::Make(
                                     driver, count * sizeof(NarrowRecord)));
    }
    for (Lane& lane : std::span(lanes_).first(fused ? 1 : kStreams)) {
      ASSIGN_OR_RETURN(lane.stream, cuda::MakeStream(driver));
      for (size_t i = 0; i < (fused ? 0 : kDepth); ++i) {
        ASSIGN_OR_RETURN(auto event, cuda::MakeEvent(driver));
        lane.events.push_back(std::move(event));
      }
    }
    return absl::OkStatus();
  }
  // As it is before the first task. No task runs.
  absl::Status SetData() {
    const cuda::Driver& driver = gpu_.driver();
    if (run_.copies) {
      for (const NarrowUnit& task : workload_.tasks()) {
        std::fill_n(out_.data() + task.out.offset, task.out.bytes,
                    std::byte{0});
      }
    }
    const std::vector<std::byte> zeros(statuses_.size());
    RETURN_IF_ERROR(
        gpu_.Check(statuses_.Write(driver, zeros.data(), zeros.size()),
                   "clear the tasks' status"));
    const std::span<const std::byte> initial =
        run_.copies ? hidden_ : workload_.initial();
    return gpu_.Check(data_.Write(driver, initial.data(), initial.size()),
                      "copy the data");
  }

  absl::Status Launch(CUstream stream, CUfunction function, uint32_t blocks,
                      uint32_t threads, uint32_t shared,
                      std::span<void*> parameters) {
    ++launches_;
    return gpu_.Check(gpu_.driver().cuLaunchKernel(
                          function, blocks, 1, 1, threads, 1, 1, shared, stream,
                          parameters.data(), nullptr),
                      "launch a task");
  }
  // Found once.
  absl::StatusOr<CUfunction> Find(std::string_view kernel) {
    CUfunction& function = functions_[kernel];
    if (function == nullptr) {
      ASSIGN_OR_RETURN(function, gpu_.Find(kernel));
    }
    return function;
  }
  // With the kernel's own arguments.
  absl::Status LaunchPlain(CUstream stream, std::string_view kernel,
                           uint32_t threads, uint32_t shared, void* args,
                           uint64_t status) {
    ASSIGN_OR_RETURN(const CUfunction function, Find(kernel));
    std::array<void*, 2> parameters = {args, &status};
    return Launch(stream, function, 1, threads, shared, parameters);
  }
  absl::Status LaunchTask(CUstream stream, size_t index) {
    const NarrowUnit& task = Task(index);
    auto args = NarrowWorkload::ArgumentsOf(task, data_.address());
    return LaunchPlain(stream, task.kernel->name, task.threads,
                       task.kernel->static_shared_bytes, args.data(),
                       StatusOf(index));
  }
  // Kernel echo's arguments.
  absl::Status Copy(CUstream stream, const NarrowRange& range, uint64_t from,
                    uint64_t to) {
    if (!run_.copies || range.bytes == 0) return absl::OkStatus();
    simt::Span<std::byte> args[] = {
        {reinterpret_cast<std::byte*>(from + range.offset), range.bytes},
        {reinterpret_cast<std::byte*>(to + range.offset), range.bytes}};
    return LaunchPlain(stream, "echo", kCopyThreads, 0, args,
                       StatusOf(workload_.tasks().size()));
  }
  absl::Status CopyIn(CUstream stream, size_t task) {
    return Copy(stream, Task(task).in, reinterpret_cast<uint64_t>(in_.data()),
                data_.address());
  }
  absl::Status CopyOut(CUstream stream, size_t task) {
    return Copy(stream, Task(task).out, data_.address(),
                reinterpret_cast<uint64_t>(out_.data()));
  }
  void Ended(size_t task) {
    times_[task].ended_ns = now();
    order_->Ended(task);
  }

  // The host's turn: a launch, and a look at one stream. It looks at all of them
  // only when there is nothing to launch: a look is a call, too.
  absl::Status RunStreams() {
    uint64_t moved = NowNs();
    for (size_t turn = 0; !order_->all_ended(); ++turn) {
      RETURN_IF_ERROR(may_go_on_());
      ASSIGN_OR_RETURN(bool moves, EnqueueOne());
      const auto lanes = moves ? std::span(lanes_).subspan(turn % kStreams, 1)
                               : std::span(lanes_);
      for (Lane& lane : lanes) {
        ASSIGN_OR_RETURN(const bool ended, TakeEnds(lane));
        moves = moves || ended;
      }
      if (moves) {
        moved = NowNs();
      } else if (NowNs() - moved > run_.patience_ns) {
        return Hangs();
      }
    }
    return absl::OkStatus();
  }
  absl::Status Hangs() const {
    return absl::DeadlineExceededError(
        fmt::format("no task of {} ends", workload_.name()));
  }
  // Waits for all that was launched. Errors: also those of may_go_on.
  absl::Status Drain() const {
    for (const Lane& lane : lanes_) {
      if (lane.stream) RETURN_IF_ERROR(Await(lane));
    }
    return absl::OkStatus();
  }
  // Until the stream is empty, with or without success.
  absl::Status Await(const Lane& lane) const {
    const uint64_t begun = NowNs();
    while (gpu_.driver().cuStreamQuery(lane.stream.get()) ==
           CUDA_ERROR_NOT_READY) {
      RETURN_IF_ERROR(may_go_on_());
      if (NowNs() - begun > run_.patience_ns) return Hangs();
    }
    return absl::OkStatus();
  }
  // In the stream with the fewest tasks.
  // False: none has room, or no task may begin.
  absl::StatusOr<bool> EnqueueOne() {
    Lane& lane = *std::ranges::min_element(
        lanes_, {}, [](const Lane& one) { return one.flights.size(); });
    if (lane.events.empty()) return false;
    const size_t task = order_->Next();
    if (task == NarrowOrder::kNone) return false;
    times_[task].begun_ns = now();
    const CUstream stream = lane.stream.get();
    RETURN_IF_ERROR(CopyIn(stream, task));
    RETURN_IF_ERROR(LaunchTask(stream, task));
    RETURN_IF_ERROR(CopyOut(stream, task));
    cuda::Event end = std::move(lane.events.back());
    lane.events.pop_back();
    RETURN_IF_ERROR(gpu_.Check(gpu_.driver().cuEventRecord(end.get(), stream),
                               "record a task's end"));
    lane.flights.push_back({task, std::move(end)});
    return true;
  }
  // True: a task has ended.
  absl::StatusOr<bool> TakeEnds(Lane& lane) {
    bool any = false;
    while (!lane.flights.empty()) {
      Flight& flight = lane.flights.front();
      const CUresult result = gpu_.driver().cuEventQuery(flight.end.get());
      if (result == CUDA_ERROR_NOT_READY) break;
      RETURN_IF_ERROR(gpu_.Check(result, "see a task's end"));
      Ended(flight.task);
      lane.events.push_back(std::move(flight.end));
      lane.flights.pop_front();
      any = true;
    }
    return any;
  }

  absl::Status RunFused() {
    const absl::Status status = RunFusedLaunches();
    if (!absl::IsUnimplemented(status)) return status;
    return absl::UnimplementedError(fmt::format(
        "this driver runs no PTX of narrow_tasks.cu, which has the fused forms "
        "({})",
        status.message()));
  }
  absl::Status RunFusedLaunches() {
    const CUstream stream = lanes_[0].stream.get();
    while (!order_->all_ended()) {
      RETURN_IF_ERROR(may_go_on_());
      std::vector<NarrowRecord> records;
      std::vector<size_t> tasks;
      const uint64_t begun = now();
      for (size_t task = order_->Next(); task != NarrowOrder::kNone;
           task = order_->Next()) {
        times_[task].begun_ns = begun;
        tasks.push_back(task);
        records.push_back(
            RecordOf(Task(task), data_.address(), StatusOf(task)));
        RETURN_IF_ERROR(CopyIn(stream, task));
      }
      RETURN_IF_ERROR(
          gpu_.Check(records_.Write(gpu_.driver(), records.data(),
                                    records.size() * sizeof(NarrowRecord)),
                     "copy the tasks"));
      const FusedLaunch fused = FusedLaunchOf(records);
      CUfunction& function = fused_[fused.kernel];
      if (function == nullptr) {
        ASSIGN_OR_RETURN(function, gpu_.FindFused(fused.kernel));
      }
      CUdeviceptr at = records_.address();
      std::array<void*, 1> parameters = {&at};
      RETURN_IF_ERROR(Launch(stream, function,
                             static_cast<uint32_t>(records.size()),
                             fused.threads, 0, parameters));
      for (const size_t task : tasks) {
        RETURN_IF_ERROR(CopyOut(stream, task));
      }
      RETURN_IF_ERROR(Await(lanes_[0]));
      RETURN_IF_ERROR(gpu_.Check(gpu_.driver().cuStreamQuery(stream),
                                 "end a fused launch"));
      for (const size_t task : tasks) Ended(task);
    }
    return absl::OkStatus();
  }

  absl::Status CheckResults() {
    const size_t count = workload_.tasks().size();
    std::vector<uint32_t> status(count + 1);
    RETURN_IF_ERROR(gpu_.Check(
        gpu_.driver().cuMemcpyDtoH(status.data(), statuses_.address(),
                                   status.size() * sizeof(uint32_t)),
        "copy the tasks' status"));
    for (size_t i = 0; i <= count; ++i) {
      if (status[i] == 0) continue;
      return absl::InternalError(fmt::format(
          "{}: {} failed with status {}", workload_.name(),
          i == count ? "a copy"
                     : fmt::format("task {} ({})", i, Task(i).kernel->name),
          status[i]));
    }
    if (run_.copies) {
      return workload_.Check({out_.data(), workload_.bytes()});
    }
    std::vector<std::byte> memory(workload_.bytes());
    RETURN_IF_ERROR(
        gpu_.Check(gpu_.driver().cuMemcpyDtoH(memory.data(), data_.address(),
                                              memory.size()),
                   "copy the results"));
    return workload_.Check(memory);
  }

  // What the GPU may still use stays where it is.
  void Abandon() {
    data_.Abandon();
    statuses_.Abandon();
    records_.Abandon();
    in_.Abandon();
    out_.Abandon();
    for (Lane& lane : lanes_) {
      lane.stream.Abandon();
      for (Flight& flight : lane.flights) flight.end.Abandon();
      for (cuda::Event& event : lane.events) event.Abandon();
    }
  }

  DriverImpl& gpu_;
  const NarrowWorkload& workload_;
  const NarrowDriverRun run_;
  const std::function<absl::Status()>& may_go_on_;
  std::optional<NarrowOrder> order_;  // of the run that goes on
  std::vector<NarrowTimes> times_;
  uint64_t begun_ = 0;
  uint64_t launches_ = 0;
  std::map<std::string_view, CUfunction> functions_;
  std::map<std::string, CUfunction> fused_;
  cuda::DeviceBytes data_, statuses_;
  cuda::DeviceBytes records_;         // of fusion
  cuda::PinnedBytes in_, out_;        // where copies count
  std::vector<std::byte> hidden_;     // the data without the inputs, there
  std::array<Lane, kStreams> lanes_;  // fusion has one
  bool hangs_ = false;
};

absl::StatusOr<NarrowOutcome> DriverImpl::Run(
    const NarrowWorkload& workload, const NarrowDriverRun& run,
    const std::function<absl::Status()>& may_go_on) {
  DriverRun one(*this, workload, run, may_go_on);
  auto outcome = one.Execute();
  hangs_ = one.hangs();
  return outcome;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NarrowDriver>> NarrowDriver::Open() {
  // Before cuInit, as gpud does.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  ASSIGN_OR_RETURN(const cuda::Driver driver, cuda::Driver::Load());
  return Open(driver);
}

absl::StatusOr<std::unique_ptr<NarrowDriver>> NarrowDriver::Open(
    const cuda::Driver& driver) {
  CUdevice device = 0;
  RETURN_IF_ERROR(cuda::ToStatus(driver, driver.cuDeviceGet(&device, 0),
                                 "find the first GPU"));
  auto made = std::make_unique<DriverImpl>(driver, device);
  RETURN_IF_ERROR(made->MakeContext());
  return made;
}

}  // namespace carillon::bench
