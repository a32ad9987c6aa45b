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
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "kernels/simt/types.h"
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
    ASSIGN_OR_RETURN(kernels_, cuda::LoadModule(driver_, gpud::CudaModule()));
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
        order_(workload),
        times_(workload.tasks().size()) {}
  // Nothing of it is in use by the GPU when it goes.
  ~DriverRun() { gpu_.driver().cuCtxSynchronize(); }

  absl::StatusOr<NarrowOutcome> Execute() {
    RETURN_IF_ERROR(MakeData());
    const uint64_t begun = NowNs();
    now_ = [begun] { return static_cast<uint64_t>(NowNs() - begun); };
    RETURN_IF_ERROR(run_.path == kFusion ? RunFused() : RunStreams());
    RETURN_IF_ERROR(
        gpu_.Check(gpu_.driver().cuCtxSynchronize(), "end the tasks"));
    RETURN_IF_ERROR(CheckResults());
    return NarrowOutcome{.tasks = std::move(times_), .launches = launches_};
  }

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

  absl::Status MakeData() {
    const cuda::Driver& driver = gpu_.driver();
    const uint64_t count = workload_.tasks().size();
    std::vector<std::byte> initial(workload_.initial().begin(),
                                   workload_.initial().end());
    ASSIGN_OR_RETURN(data_, cuda::DeviceBytes::Make(driver, workload_.bytes()));
    // A word more for what copies: it cannot fail.
    ASSIGN_OR_RETURN(statuses_, cuda::DeviceBytes::Make(
                                    driver, (count + 1) * sizeof(uint32_t)));
    if (run_.copies) {
      ASSIGN_OR_RETURN(in_, cuda::PinnedBytes::Make(driver, initial.size()));
      ASSIGN_OR_RETURN(out_, cuda::PinnedBytes::Make(driver, initial.size()));
      std::ranges::copy(initial, in_.data());
      // What is not copied is not there.
      for (const NarrowUnit& task : workload_.tasks()) {
        std::fill_n(initial.begin() + task.in.offset, task.in.bytes,
                    std::byte{0});
      }
    }
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
    times_[task].ended_ns = now_();
    order_.Ended(task);
  }

  absl::Status RunStreams() {
    for (Lane& lane : lanes_) {
      ASSIGN_OR_RETURN(lane.stream, cuda::MakeStream(gpu_.driver()));
      for (size_t i = 0; i < kDepth; ++i) {
        ASSIGN_OR_RETURN(auto event, cuda::MakeEvent(gpu_.driver()));
        lane.events.push_back(std::move(event));
      }
    }
    while (!order_.all_ended()) {
      RETURN_IF_ERROR(may_go_on_());
      RETURN_IF_ERROR(EnqueueOne());
      for (Lane& lane : lanes_) RETURN_IF_ERROR(TakeEnds(lane));
    }
    return absl::OkStatus();
  }
  // In the stream with the fewest tasks.
  absl::Status EnqueueOne() {
    Lane& lane = *std::ranges::min_element(
        lanes_, {}, [](const Lane& one) { return one.flights.size(); });
    if (lane.events.empty()) return absl::OkStatus();
    const size_t task = order_.Next();
    if (task == NarrowOrder::kNone) return absl::OkStatus();
    times_[task].begun_ns = now_();
    const CUstream stream = lane.stream.get();
    RETURN_IF_ERROR(CopyIn(stream, task));
    RETURN_IF_ERROR(LaunchTask(stream, task));
    RETURN_IF_ERROR(CopyOut(stream, task));
    cuda::Event end = std::move(lane.events.back());
    lane.events.pop_back();
    RETURN_IF_ERROR(gpu_.Check(gpu_.driver().cuEventRecord(end.get(), stream),
                               "record a task's end"));
    lane.flights.push_back({task, std::move(end)});
    return absl::OkStatus();
  }
  absl::Status TakeEnds(Lane& lane) {
    while (!lane.flights.empty()) {
      Flight& flight = lane.flights.front();
      const CUresult result = gpu_.driver().cuEventQuery(flight.end.get());
      if (result == CUDA_ERROR_NOT_READY) break;
      RETURN_IF_ERROR(gpu_.Check(result, "see a task's end"));
      Ended(flight.task);
      lane.events.push_back(std::move(flight.end));
      lane.flights.pop_front();
    }
    return absl::OkStatus();
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
    ASSIGN_OR_RETURN(const auto stream, cuda::MakeStream(gpu_.driver()));
    ASSIGN_OR_RETURN(
        const auto memory,
        cuda::DeviceBytes::Make(
            gpu_.driver(), workload_.tasks().size() * sizeof(NarrowRecord)));
    while (!order_.all_ended()) {
      RETURN_IF_ERROR(may_go_on_());
      std::vector<NarrowRecord> records;
      std::vector<size_t> tasks;
      const uint64_t begun = now_();
      for (size_t task = order_.Next(); task != NarrowOrder::kNone;
           task = order_.Next()) {
        times_[task].begun_ns = begun;
        tasks.push_back(task);
        records.push_back(
            RecordOf(Task(task), data_.address(), StatusOf(task)));
        RETURN_IF_ERROR(CopyIn(stream.get(), task));
      }
      RETURN_IF_ERROR(
          gpu_.Check(memory.Write(gpu_.driver(), records.data(),
                                  records.size() * sizeof(NarrowRecord)),
                     "copy the tasks"));
      const FusedLaunch fused = FusedLaunchOf(records);
      ASSIGN_OR_RETURN(const CUfunction function, gpu_.FindFused(fused.kernel));
      CUdeviceptr at = memory.address();
      std::array<void*, 1> parameters = {&at};
      RETURN_IF_ERROR(Launch(stream.get(), function,
                             static_cast<uint32_t>(records.size()),
                             fused.threads, 0, parameters));
      for (const size_t task : tasks) {
        RETURN_IF_ERROR(CopyOut(stream.get(), task));
      }
      RETURN_IF_ERROR(
          gpu_.Check(gpu_.driver().cuStreamSynchronize(stream.get()),
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

  DriverImpl& gpu_;
  const NarrowWorkload& workload_;
  const NarrowDriverRun run_;
  const std::function<absl::Status()>& may_go_on_;
  NarrowOrder order_;
  std::vector<NarrowTimes> times_;
  std::function<uint64_t()> now_;
  uint64_t launches_ = 0;
  std::map<std::string_view, CUfunction> functions_;
  cuda::DeviceBytes data_, statuses_;
  cuda::PinnedBytes in_, out_;  // where copies count
  std::array<Lane, kStreams> lanes_;
};

absl::StatusOr<NarrowOutcome> DriverImpl::Run(
    const NarrowWorkload& workload, const NarrowDriverRun& run,
    const std::function<absl::Status()>& may_go_on) {
  return DriverRun(*this, workload, run, may_go_on).Execute();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NarrowDriver>> NarrowDriver::Open() {
  // Before cuInit, as gpud does.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  ASSIGN_OR_RETURN(const cuda::Driver driver, cuda::Driver::Load());
  CUdevice device = 0;
  RETURN_IF_ERROR(cuda::ToStatus(driver, driver.cuDeviceGet(&device, 0),
                                 "find the first GPU"));
  auto made = std::make_unique<DriverImpl>(driver, device);
  RETURN_IF_ERROR(made->MakeContext());
  return made;
}

}  // namespace carillon::bench
