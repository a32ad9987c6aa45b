// Runs every kernel in each of its forms on the GPU, and compares with its CPU
// form.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "kernels/simt/completion_status.h"
#include "kernels/simt/event_frame.h"
#include "shm/layout.h"
#include "tools/bench/report.h"
#include "tools/gpu_check/info.h"
#include "tools/gpu_check/kernel_cases.h"
#include "tools/gpu_check/runner.h"
#include "tools/plots/document.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::Driver;
using gpud::cuda::Gpu;
using gpud::cuda::GridSlice;
using gpud::cuda::NextSlice;
using gpud::cuda::PinnedBytes;
using gpud::cuda::ToStatus;
using simt::EventFrame;
using simt::EventScratch;
using simt::EventTotals;

constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
constexpr uint32_t kMaxArgsBytes = 4096;

// How a kernel is launched, and where its buffers are.
struct Form {
  const char* prefix;      // of its CUDA function
  bool device_memory;      // else registered memory of the host
  bool in_slices = false;  // of unequal sizes, as policy gpes launches
};
// A warp of the resident dispatchers has this form, without a launch.
constexpr const char* kInline = "carillon_inline_";
// Some resident blocks take the others, as under policy ptb, and are stopped now and
// then: at once, or up to kLatestStopUs later, since a stop that comes before the
// first block shows nothing of those that leave in between.
constexpr const char* kPtb = "carillon_ptb_";
constexpr uint32_t kResident = 7;
constexpr int kStops = 3;
constexpr uint64_t kLatestStopUs = 200;
constexpr Form kForms[] = {
    {"carillon_", false},
    {"carillon_call_", false},
    {"carillon_event_", false},
    {"carillon_call_", true},
    {"carillon_call_", false, true},
    {kPtb, false},
    {kInline, false},
};

// Whether the form exists for all launches of a case: EdgePath runs inline only
// what fits into a warp.
bool Applies(const Form& form, const Case& one) {
  if (form.in_slices) {
    return std::ranges::any_of(one.launches, [](const CaseLaunch& launch) {
      return launch.kmd.blocks() > 1;
    });
  }
  return form.prefix != kInline ||
         std::ranges::all_of(one.launches, [](const CaseLaunch& launch) {
           return launch.kmd.single_warp() && launch.kmd.kernel->runs_inline();
         });
}
// Whether the form's status is the kernel's own, not that of a completion.
bool IsPlain(const Form& form) {
  return form.prefix == kInline || std::string_view(form.prefix) == "carillon_";
}

// gpud's own module, read from its file: the test covers what gpud runs, and a
// bundle holds it only once. Errors: NotFound.
class GpudModule {
 public:
  static absl::StatusOr<GpudModule> Find(const std::string& gpud) {
    const UniqueFd file(open(gpud.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about {};
    if (file.get() < 0 || fstat(file.get(), &about) != 0) {
      return absl::NotFoundError(fmt::format("no gpud at '{}'", gpud));
    }
    const auto size = static_cast<size_t>(about.st_size);
    void* const bytes =
        mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (bytes == MAP_FAILED) return absl::NotFoundError("cannot map gpud");
    GpudModule found;
    const std::span<const std::byte> all(static_cast<std::byte*>(bytes), size);
    for (size_t at = 0; at + sizeof(Header) <= size; at += kAlignment) {
      Header header;
      std::memcpy(&header, &all[at], sizeof(header));
      if (header.magic != kMagic || header.version != 1 ||
          header.header_size != sizeof(header) ||
          header.size > size - at - sizeof(header)) {
        continue;
      }
      const auto image = all.subspan(at, sizeof(header) + header.size);
      if (image.size() > found.image_.size()) found.image_ = image;
    }
    if (found.image_.empty()) {
      return absl::NotFoundError(
          fmt::format("{} was built without CUDA: no module in it", gpud));
    }
    return found;
  }
  // Valid for the life of the process.
  std::span<const std::byte> image() const { return image_; }

 private:
  // The header of a fatbin, which bazel/cuda.bzl aligns.
  struct Header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_size;
    uint64_t size;
  };
  static_assert(sizeof(Header) == 16);
  static constexpr uint32_t kMagic = 0xba55ed50;
  static constexpr size_t kAlignment = 64;

  std::span<const std::byte> image_;
};

// Memory of the host, registered as gpud registers a device's.
class HostMemory {
 public:
  HostMemory()
      : data_(static_cast<std::byte*>(
            mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {}
  ~HostMemory() { munmap(data_, kArenaBytes); }
  bool ok() const { return data_ != MAP_FAILED; }
  std::span<std::byte> span() const { return {data_, kArenaBytes}; }

 private:
  std::byte* const data_;
};

// One context for all cases. One thread.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Open(const Driver& driver,
                                                     const GpudModule& module) {
    auto bench = std::make_unique<Bench>();
    if (!bench->expected_.ok() || !bench->shadow_.ok()) {
      return absl::ResourceExhaustedError("no memory for the inputs");
    }
    ASSIGN_OR_RETURN(bench->gpu_, Gpu::Open(driver, {.image = module.image()}));
    bench->memory_ =
        std::make_unique<gpud::cuda::CudaMemory>(bench->gpu_.get());
    ASSIGN_OR_RETURN(bench->mapping_,
                     bench->memory_->MapHost(bench->shadow_.span()));
    const Gpu::ContextLease use = bench->gpu_->Enter();
    if (!use) return bench->gpu_->health();
    auto device = DeviceBytes::Make(driver, kArenaBytes);
    auto words = DeviceBytes::Make(driver, 4096);
    auto pinned = PinnedBytes::Make(driver, 4096 + kMaxArgsBytes);
    for (const absl::Status& status :
         {device.status(), words.status(), pinned.status()}) {
      if (!status.ok()) return status;
    }
    bench->device_ = *std::move(device);
    bench->words_ = *std::move(words);
    bench->pinned_ = *std::move(pinned);
    return bench;
  }
  ~Bench() {
    if (gpu_ == nullptr) return;
    {
      const Gpu::ContextLease use = gpu_->Enter();
      if (!use) {
        device_.Abandon();
        words_.Abandon();
        pinned_.Abandon();
      }
      device_ = {};
      words_ = {};
      pinned_ = {};
    }
    mapping_.reset();
    memory_.reset();
  }

  const std::string& description() const { return gpu_->description(); }

  // How far launches with more blocks than resident ones had come when they left
  // after a stop. Which it is, is the GPU's: none of them is required.
  struct Stops {
    uint64_t before_all = 0;
    uint64_t in_between = 0;
    uint64_t after_all = 0;
  };
  const Stops& stops() const { return stops_; }

  // Runs all launches of a case in one form; the CPU's results are the
  // reference.
  absl::Status Run(const Case& one, const Form& form) {
    if (Arena::BytesFor(one) > kArenaBytes) {
      return absl::InternalError("the case is larger than its memory");
    }
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    const Arena expected(one, expected_.span());
    const Arena found(one, shadow_.span());
    for (const CaseLaunch& launch : one.launches) {
      expected.Feed(launch);
      found.Feed(launch);
      const uint32_t want = RunOnCpu(launch, expected.Args(launch));
      ASSIGN_OR_RETURN(auto have, Launch(one, launch, form, found));
      const uint32_t status =
          IsPlain(form) ? want : simt::CompletionStatus(want);
      if (have != status) {
        return absl::DataLossError(
            fmt::format("status {} on the GPU, {} on the CPU", have, status));
      }
      RETURN_IF_ERROR(CompareArenas(one, expected, found));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<uint32_t> Launch(const Case& one, const CaseLaunch& launch,
                                  const Form& form, const Arena& arena) {
    const Driver& driver = gpu_->driver();
    const uint64_t bytes = Arena::BytesFor(one);
    std::vector<std::byte> args = arena.Args(
        launch, form.device_memory ? device_.as<std::byte>() : nullptr);
    if (args.size() > kMaxArgsBytes) {
      return absl::InternalError("too many arguments");
    }
    if (form.device_memory) {
      RETURN_IF_ERROR(ToStatus(
          driver,
          driver.cuMemcpyHtoD(device_.address(), shadow_.span().data(), bytes),
          "copy the inputs"));
    }
    const bool in_line = form.prefix == kInline;
    uint64_t inlined = 0;
    if (in_line) {
      ASSIGN_OR_RETURN(inlined, gpu_->DeviceWord(fmt::format(
                                    "{}{}", kInline, launch.kmd.kernel->name)));
    }
    ASSIGN_OR_RETURN(auto function,
                     in_line ? gpu_->Function("carillon_run_inline")
                             : gpu_->FunctionFor(form.prefix, launch.kmd));

    const std::string_view prefix = form.prefix;
    auto* const ecq = pinned_.as<shm::EcqEntry>();
    *ecq = {};
    auto* const frame = pinned_.as<simt::EventFrame>(64);
    *frame = {.ecq = ecq,
              .scratch = words_.as<simt::EventScratch>(),
              .totals = words_.as<simt::EventTotals>(64),
              .life = nullptr,
              .sequence = 0,
              .clock_offset_ns = 0,
              .slot_ended = nullptr,
              .launcher_ended = nullptr};
    std::memcpy(frame->args(), args.data(), args.size());
    uint32_t* fail_status = words_.as<uint32_t>(256);
    const simt::EventFrame* address = frame;
    void* plain[] = {args.data(), &fail_status};
    simt::GridPart part{.grid = launch.kmd.grid};
    void* by_value[] = {frame, args.data(), &part};
    void* by_address[] = {&address};
    const bool ptb = form.prefix == kPtb;
    simt::BlockSupply supply{.grid = launch.kmd.grid,
                             .taken = words_.as<simt::BlocksTaken>(512),
                             .stop = pinned_.as<uint32_t>(kStopAt),
                             .ended = pinned_.as<uint64_t>(kStopAt + 64)};
    const std::atomic_ref stop(*pinned_.as<uint32_t>(kStopAt));
    int stops = kStops;
    void* of_ptb[] = {frame, args.data(), &supply};
    std::byte* inline_args = frame->args();
    simt::Dim3 block = launch.kmd.block;
    void* of_inline[] = {&inlined, &inline_args, &block, &fail_status};
    void** const parameters = in_line                       ? of_inline
                              : ptb                         ? of_ptb
                              : prefix == "carillon_"       ? plain
                              : prefix == "carillon_event_" ? by_address
                                                            : by_value;
    const gpud::KernelMetadata& kmd = launch.kmd;
    driver.cuMemsetD8(words_.address() + 256, 0, sizeof(uint32_t));
    const simt::Dim3 threads =
        in_line ? simt::Dim3{simt::kWarpSize, 1, 1} : kmd.block;
    uint32_t first_failure = 0;
    for (uint64_t from = 0; from < kmd.blocks();) {
      const uint64_t most = form.in_slices
                                ? 1 + (from + sequence_) % 7 * kmd.blocks() / 11
                                : kmd.blocks();
      GridSlice slice = NextSlice(kmd.grid, from, most);
      part.first = slice.first;
      supply.first = from;
      from += slice.blocks();
      if (ptb) {
        slice.size = {
            static_cast<uint32_t>(std::min<uint64_t>(kResident, kmd.blocks())),
            1, 1};
        stop = 0;
      }
      frame->sequence = ++sequence_;
      CUresult result = driver.cuLaunchKernel(
          function, slice.size.x, slice.size.y, slice.size.z, threads.x,
          threads.y, threads.z, kmd.total_shared(), nullptr, parameters,
          nullptr);
      const bool is_stopped = ptb && stops-- > 0;
      if (is_stopped) {
        const Nanoseconds at =
            NowNs() + sequence_ * 37 % (kLatestStopUs + 1) * 1'000;
        while (NowNs() < at) {
        }
        stop = 1;
      }
      if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(nullptr);
      if (!gpu_->Check(result)) {
        return ToStatus(driver, result, "run the kernel");
      }
      if (IsPlain(form)) break;
      ASSIGN_OR_RETURN(const uint32_t status, StatusOf(*ecq));
      if (first_failure == 0) first_failure = status;
      if (!ptb) continue;
      from = *supply.ended;
      if (!is_stopped || kmd.blocks() <= kResident) continue;
      ++(from == supply.first   ? stops_.before_all
         : from == kmd.blocks() ? stops_.after_all
                                : stops_.in_between);
    }
    CUresult result = CUDA_SUCCESS;
    if (form.device_memory) {
      result =
          driver.cuMemcpyDtoH(shadow_.span().data(), device_.address(), bytes);
      if (result != CUDA_SUCCESS) {
        return ToStatus(driver, result, "copy the outputs");
      }
    }
    if (IsPlain(form)) {
      uint32_t status = 0;
      result =
          driver.cuMemcpyDtoH(&status, words_.address() + 256, sizeof(status));
      if (result != CUDA_SUCCESS) {
        return ToStatus(driver, result, "read the status");
      }
      return status;
    }
    return first_failure;
  }

  // Of the launch that has ended.
  absl::StatusOr<uint32_t> StatusOf(shm::EcqEntry& ecq) const {
    // The GPU wrote it before the launch ended, which the synchronisation has
    // seen. The acquire pairs with the GPU's release.
    const uint64_t sequence =
        std::atomic_ref(ecq.sequence).load(std::memory_order_acquire);
    if (sequence != sequence_) {
      return absl::DataLossError(fmt::format(
          "the epilogue left sequence {} in place of {}", sequence, sequence_));
    }
    const bool failed = ecq.state == shm::EventState::kFailed;
    if (failed != (ecq.status != 0)) {
      return absl::DataLossError(fmt::format("state {} with status {}",
                                             static_cast<uint32_t>(ecq.state),
                                             ecq.status));
    }
    return ecq.status;
  }

  HostMemory expected_;
  HostMemory shadow_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<gpud::cuda::CudaMemory> memory_;
  std::unique_ptr<gpud::HostMapping> mapping_;
  DeviceBytes device_;
  DeviceBytes words_;
  // The completion; at 64 the frame and its arguments; at kStopAt two words of
  // persistent blocks, 64 bytes each.
  static constexpr uint64_t kStopAt = 3968 + kMaxArgsBytes;
  PinnedBytes pinned_;
  uint64_t sequence_ = 0;
  Stops stops_;
};

int Fail(const absl::Status& status, int code) {
  fmt::print(stderr, "{}\n", status.message());
  return code;
}

int Run(uint64_t seed, uint64_t rounds, const std::string& gpud) {
  const auto driver = OpenGpu();
  if (!driver.ok()) return Fail(driver.status(), ExitCodeOf(driver.status()));
  auto module = GpudModule::Find(gpud);
  if (!module.ok()) {
    // In a bundle this is a script, and the program lies beside its folder.
    auto beside = GpudModule::Find(gpud.substr(0, gpud.rfind('/') + 1) +
                                   "../programs/gpud");
    if (beside.ok()) module = beside;
  }
  if (!module.ok()) return Fail(module.status(), 1);
  auto bench = Bench::Open(*driver, *module);
  if (!bench.ok()) return Fail(bench.status(), 1);
  fmt::print("{}; seed {}\n", (*bench)->description(), seed);
  uint64_t passed = 0;
  uint64_t failed = 0;
  std::set<std::string_view> kernels;
  std::string first;
  for (uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::string> missing;
    const auto cases = MakeCases(seed + round, &missing);
    for (const std::string& kernel : missing) {
      ++failed;
      first = "no case for kernel " + kernel;
    }
    for (const Case& one : cases) {
      for (const Form& form : kForms) {
        if (!Applies(form, one)) continue;
        for (const CaseLaunch& launch : one.launches) {
          kernels.insert(launch.kmd.kernel->name);
        }
        const absl::Status status = (*bench)->Run(one, form);
        if (status.ok()) {
          ++passed;
          continue;
        }
        ++failed;
        const std::string text =
            fmt::format("{}, {}{}, {} memory, seed {}: {}", one.name,
                        form.prefix, form.in_slices ? " in slices" : "",
                        form.device_memory ? "GPU" : "host", seed + round,
                        status.message());
        fmt::print("FAILED {}\n", text);
        if (first.empty()) first = text;
      }
    }
    std::fflush(stdout);
    if (failed > 20) break;
  }
  const Bench::Stops& stops = (*bench)->stops();
  fmt::print(
      "stops of persistent blocks: {} before the first block, {} in between, "
      "{} after the last\n",
      stops.before_all, stops.in_between, stops.after_all);
  fmt::print("finding: {}\n",
             failed == 0 ? fmt::format("{} kernels, {} comparisons, seed {}",
                                       kernels.size(), passed, seed)
                         : fmt::format("{} of {} comparisons differ; {}",
                                       failed, passed + failed, first));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  CLI::App app{
      "Runs every kernel on the GPU and on the CPU, on the same random inputs"};
  uint64_t seed = 1;
  uint64_t rounds = 1;
  std::string gpud = carillon::plots::Runfile("gpu_daemon/gpud");
  app.add_option("--gpud", gpud, "The GPU daemon's program, with the kernels");
  app.add_option("--seed", seed, "Of the first round")->capture_default_str();
  app.add_option("--rounds", rounds, "Each with other inputs")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return carillon::gpu_check::Run(seed, rounds, gpud);
}
