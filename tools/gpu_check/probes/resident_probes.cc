// Probes of what a kernel that does not end keeps others from, and of what gets a
// place before others.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/subprocess.h"
#include "fmt/format.h"
#include "tools/gpu_check/info.h"
#include "tools/gpu_check/probes/green.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/probe_module.h"
#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::Driver;
using gpud::cuda::PinnedBytes;
using gpud::cuda::Stream;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// A kernel that spins until it is told to stop.
class Resident {
 public:
  Resident(const Kit& kit, CUstream stream)
      : words_(kit.Must(PinnedBytes::Make(kit.driver(), 4096))) {
    kit.Must(kit.Launch(stream, "probe_spin", 1, 32,
                        static_cast<const uint32_t*>(words_.as<uint32_t>()),
                        words_.as<uint32_t>(128)),
             "launch the resident kernel");
    if (!Kit::AwaitWord(words_.as<uint32_t>(128), 1, seconds(5))) {
      Kit::Die("the resident kernel does not begin");
    }
  }
  // The kernel reads it.
  void Stop() {
    std::atomic_ref(*words_.as<uint32_t>()).store(1, std::memory_order_release);
  }

 private:
  PinnedBytes words_;
};

// A call of the driver, and what must be made for it before the kernel is there.
struct Call {
  const char* name;
  std::function<std::function<CUresult()>(Kit&)> prepare;
};

// Pages of the host's that are not registered yet.
void* HostPages(uint64_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) Kit::Die("no memory");
  return pages;
}

// Memory of cuMemCreate, mapped and to be used.
struct Mapping {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
};

CUresult MapMemory(const Kit& kit, Mapping* mapping) {
  const Driver& driver = kit.driver();
  CUmemAllocationProp where = {};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {CU_MEM_LOCATION_TYPE_DEVICE, kit.device()};
  CUmemAccessDesc access = {};
  access.location = where.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult result = driver.cuMemGetAllocationGranularity(
      &mapping->bytes, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result == CUDA_SUCCESS) {
    result =
        driver.cuMemAddressReserve(&mapping->address, mapping->bytes, 0, 0, 0);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemCreate(&mapping->handle, mapping->bytes, &where, 0);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemMap(mapping->address, mapping->bytes, 0,
                             mapping->handle, 0);
  }
  if (result == CUDA_SUCCESS) {
    result =
        driver.cuMemSetAccess(mapping->address, mapping->bytes, &access, 1);
  }
  return result;
}

// Each is made in a process of its own, which ends without freeing.
std::vector<Call> Calls() {
  const auto simple = [](auto call) {
    return [call](Kit& kit) -> std::function<CUresult()> {
      return [call, &kit] { return call(kit, kit.driver()); };
    };
  };
  const auto copy = [](size_t bytes, bool to_device) {
    return [=](Kit& kit) -> std::function<CUresult()> {
      const auto* memory =
          new DeviceBytes(kit.Must(DeviceBytes::Make(kit.driver(), bytes)));
      auto* host = new std::vector<std::byte>(bytes);
      return [=, &kit] {
        return to_device ? kit.driver().cuMemcpyHtoD(memory->address(),
                                                     host->data(), bytes)
                         : kit.driver().cuMemcpyDtoH(host->data(),
                                                     memory->address(), bytes);
      };
    };
  };
  return {
      // What is known not to block shows that the measurement works.
      {"launch",
       [](Kit& kit) -> std::function<CUresult()> {
         const auto* stream = new Stream(kit.MakeStream());
         return [&kit, stream] {
           const CUresult result =
               kit.Launch(stream->get(), "probe_empty", 1, 1, 0u);
           return result == CUDA_SUCCESS
                      ? kit.driver().cuStreamSynchronize(stream->get())
                      : result;
         };
       }},
      {"stream_create", simple([](Kit&, const Driver& driver) {
         CUstream stream = nullptr;
         return driver.cuStreamCreateWithPriority(&stream,
                                                  CU_STREAM_NON_BLOCKING, 0);
       })},
      {"stream_destroy",
       [](Kit& kit) -> std::function<CUresult()> {
         CUstream stream = nullptr;
         kit.Must(kit.driver().cuStreamCreateWithPriority(
                      &stream, CU_STREAM_NON_BLOCKING, 0),
                  "make a stream");
         return [&kit, stream] { return kit.driver().cuStreamDestroy(stream); };
       }},
      {"green_stream_create",
       [](Kit& kit) -> std::function<CUresult()> {
         const Split split = SplitSms(kit, AllSms(kit), 0, 8);
         kit.Must(split.result, "split the SMs");
         const CUgreenCtx green = MakeGreen(kit, split.resources[0]);
         return [&kit, green] {
           CUstream stream = nullptr;
           return kit.driver().cuGreenCtxStreamCreate(
               &stream, green, CU_STREAM_NON_BLOCKING, 0);
         };
       }},
      {"event_create", simple([](Kit&, const Driver& driver) {
         CUevent event = nullptr;
         return driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
       })},
      {"event_destroy",
       [](Kit& kit) -> std::function<CUresult()> {
         CUevent event = nullptr;
         kit.Must(kit.driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
                  "make an event");
         return [&kit, event] { return kit.driver().cuEventDestroy(event); };
       }},
      {"mem_alloc", simple([](Kit&, const Driver& driver) {
         CUdeviceptr memory = 0;
         return driver.cuMemAlloc(&memory, 32 << 20);
       })},
      {"mem_free",
       [](Kit& kit) -> std::function<CUresult()> {
         CUdeviceptr memory = 0;
         kit.Must(kit.driver().cuMemAlloc(&memory, 32 << 20), "make memory");
         return [&kit, memory] { return kit.driver().cuMemFree(memory); };
       }},
      {"host_alloc", simple([](Kit&, const Driver& driver) {
         void* memory = nullptr;
         return driver.cuMemHostAlloc(&memory, 1 << 20,
                                      CU_MEMHOSTALLOC_PORTABLE);
       })},
      {"host_free",
       [](Kit& kit) -> std::function<CUresult()> {
         void* memory = nullptr;
         kit.Must(kit.driver().cuMemHostAlloc(&memory, 1 << 20,
                                              CU_MEMHOSTALLOC_PORTABLE),
                  "make memory");
         return [&kit, memory] { return kit.driver().cuMemFreeHost(memory); };
       }},
      {"host_register",
       [](Kit& kit) -> std::function<CUresult()> {
         void* const pages = HostPages(1 << 20);
         return [&kit, pages] {
           return kit.driver().cuMemHostRegister(pages, 1 << 20,
                                                 CU_MEMHOSTREGISTER_PORTABLE);
         };
       }},
      {"host_unregister",
       [](Kit& kit) -> std::function<CUresult()> {
         void* const pages = HostPages(1 << 20);
         kit.Must(kit.driver().cuMemHostRegister(pages, 1 << 20,
                                                 CU_MEMHOSTREGISTER_PORTABLE),
                  "register memory");
         return
             [&kit, pages] { return kit.driver().cuMemHostUnregister(pages); };
       }},
      {"mem_create_and_map", simple([](Kit& kit, const Driver&) {
         Mapping mapping;
         return MapMemory(kit, &mapping);
       })},
      {"mem_unmap_and_release",
       [](Kit& kit) -> std::function<CUresult()> {
         Mapping mapping;
         kit.Must(MapMemory(kit, &mapping), "map memory");
         return [&kit, mapping] {
           const CUresult result =
               kit.driver().cuMemUnmap(mapping.address, mapping.bytes);
           return result == CUDA_SUCCESS
                      ? kit.driver().cuMemRelease(mapping.handle)
                      : result;
         };
       }},
      {"module_load", simple([](Kit&, const Driver& driver) {
         CUmodule module = nullptr;
         return driver.cuModuleLoadData(&module, ProbeModule().data());
       })},
      {"module_get_function", simple([](Kit& kit, const Driver&) {
         return kit.Function("probe_stamp") != nullptr ? CUDA_SUCCESS
                                                       : CUDA_ERROR_NOT_FOUND;
       })},
      {"func_set_attribute",
       [](Kit& kit) -> std::function<CUresult()> {
         const CUfunction function = kit.Function("probe_empty");
         return [&kit, function] {
           return kit.driver().cuFuncSetAttribute(
               function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               100 << 10);
         };
       }},
      {"graph_instantiate_and_upload",
       [](Kit& kit) -> std::function<CUresult()> {
         const auto* stream = new Stream(kit.MakeStream());
         return [&kit, stream] {
           auto graph = kit.DeviceGraph(stream->get(), "probe_empty", 1, 0u);
           if (!graph.ok()) return CUDA_ERROR_UNKNOWN;
           graph->Abandon();
           return kit.driver().cuStreamSynchronize(stream->get());
         };
       }},
      {"graph_exec_destroy",
       [](Kit& kit) -> std::function<CUresult()> {
         const auto* stream = new Stream(kit.MakeStream());
         auto graph =
             kit.Must(kit.DeviceGraph(stream->get(), "probe_empty", 1, 0u));
         const CUgraphExec exec = graph.get();
         graph.Abandon();
         return [&kit, exec] { return kit.driver().cuGraphExecDestroy(exec); };
       }},
      {"copy_640_to_gpu", copy(640, true)},
      {"copy_64k_to_gpu", copy(64 << 10, true)},
      {"copy_64k_from_gpu", copy(64 << 10, false)},
      {"memset",
       [](Kit& kit) -> std::function<CUresult()> {
         const auto* memory =
             new DeviceBytes(kit.Must(DeviceBytes::Make(kit.driver(), 4096)));
         return [&kit, memory] {
           return kit.driver().cuMemsetD8(memory->address(), 1, 4096);
         };
       }},
      {"launch_with_larger_stack",
       [](Kit& kit) -> std::function<CUresult()> {
         const auto* memory =
             new DeviceBytes(kit.Must(DeviceBytes::Make(kit.driver(), 64)));
         const auto* stream = new Stream(kit.MakeStream());
         return [&kit, memory, stream] {
           const CUresult result = kit.Launch(stream->get(), "probe_deep", 1, 1,
                                              7u, memory->as<uint32_t>());
           return result == CUDA_SUCCESS
                      ? kit.driver().cuStreamSynchronize(stream->get())
                      : result;
         };
       }},
      {"set_stack_limit", simple([](Kit&, const Driver& driver) {
         return driver.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16 << 10);
       })},
      {"mem_get_info", simple([](Kit&, const Driver& driver) {
         size_t free = 0;
         size_t total = 0;
         return driver.cuMemGetInfo(&free, &total);
       })},
  };
}

// What the child reports: first that it is about to call, then how it went.
struct Report {
  double ms = 0;
  int result = 0;
};

[[noreturn]] void CallBesideResident(const Call& call, int report) {
  const auto driver = OpenGpu();
  if (!driver.ok()) Kit::Die(std::string(driver.status().message()));
  Kit& kit = *new Kit(*driver);
  const std::function<CUresult()> prepared = call.prepare(kit);
  const Stream& stream = *new Stream(kit.MakeStream());
  // A launch is asynchronous, but a module may be loaded at the first one.
  kit.Must(kit.Launch(stream.get(), "probe_empty", 1, 1, 0u), "launch");
  kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "run");
  new Resident(kit, stream.get());
  Report told;
  (void)!write(report, &told, sizeof(told));
  const auto start = Clock::now();
  told.result = prepared();
  told.ms = MicrosSince(start) / 1000;
  (void)!write(report, &told, sizeof(told));
  _exit(0);
}

bool ReadReport(int from, milliseconds limit, Report* report) {
  pollfd readable{from, POLLIN, 0};
  return poll(&readable, 1, static_cast<int>(limit.count())) > 0 &&
         read(from, report, sizeof(*report)) == sizeof(*report);
}

// Ends the child, which may be stuck in the driver: false, if it stays.
bool EndChild(pid_t child) {
  kill(child, SIGKILL);
  const auto deadline = Clock::now() + seconds(5);
  while (waitpid(child, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

Answer BesideResident() {
  std::string blocked;
  size_t asked = 0;
  for (const Call& call : Calls()) {
    auto pipe = MakePipe();
    if (!pipe.ok()) Kit::Die(std::string(pipe.status().message()));
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) Kit::Die("cannot fork");
    if (child == 0) CallBesideResident(call, pipe->writer.get());
    pipe->writer.reset();
    Report report;
    if (!ReadReport(pipe->reader.get(), seconds(10), &report)) {
      Note(call.name, "could not be asked");
    } else if (!ReadReport(pipe->reader.get(), seconds(1), &report)) {
      Note(call.name, "BLOCKS");
      blocked += (blocked.empty() ? "" : ", ") + std::string(call.name);
    } else if (report.result != CUDA_SUCCESS) {
      Note(call.name,
           fmt::format("error {} after {:.3f} ms", report.result, report.ms));
    } else {
      Note(call.name, report.ms);
    }
    ++asked;
    if (!EndChild(child)) {
      Note(std::string(call.name) + "_child", "does not end");
      break;
    }
  }
  return {.text = fmt::format("of {} calls, these block: {}", asked,
                              blocked.empty() ? "none" : blocked)};
}

// Work in many streams beside one that does not go on: whatever shares its
// hardware queue waits for it.
Answer Aliasing(Kit& kit) {
  int least = 0;
  int greatest = 0;
  kit.driver().cuCtxGetStreamPriorityRange(&least, &greatest);
  constexpr size_t kMost = 256;
  const Stream endless = kit.MakeStream(greatest);
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  std::vector<Stream> streams;
  for (size_t i = 0; i < kMost; ++i) {
    streams.push_back(kit.MakeStream(
        least -
        static_cast<int>(i % static_cast<size_t>(least - greatest + 1))));
  }
  uint32_t round = 0;
  for (const char* const kind : {"kernel", "wait"}) {
    for (const size_t count : {size_t{24}, size_t{64}, size_t{128}, kMost}) {
      // A kernel that spins, or a stream that waits for a word.
      std::optional<Resident> resident;
      ++round;
      auto* const gate = words.as<uint32_t>();
      if (kind[0] == 'k') {
        resident.emplace(kit, endless.get());
      } else {
        const CUresult waits = kit.driver().cuStreamWaitValue32(
            endless.get(), reinterpret_cast<CUdeviceptr>(gate), round,
            CU_STREAM_WAIT_VALUE_GEQ);
        if (waits != CUDA_SUCCESS) {
          Note("wait", ErrorName(kit, waits));
          return {};
        }
      }
      for (size_t i = 0; i < count; ++i) {
        for (int launch = 0; launch < 2; ++launch) {
          kit.Must(kit.Launch(streams[i].get(), "probe_empty", 1, 1, 0u),
                   "launch");
        }
      }
      const auto deadline = Clock::now() + milliseconds(200);
      size_t ended = 0;
      do {
        ended = static_cast<size_t>(std::ranges::count_if(
            streams.begin(), streams.begin() + count,
            [&](const Stream& stream) {
              return kit.driver().cuStreamQuery(stream.get()) == CUDA_SUCCESS;
            }));
      } while (ended != count && Clock::now() < deadline);
      Note(fmt::format("beside_{}_of_{}", kind, count), ended);
      if (resident) resident->Stop();
      std::atomic_ref(*gate).store(round, std::memory_order_release);
      kit.Must(kit.Await(endless.get(), seconds(2)), "end the resident");
      for (size_t i = 0; i < count; ++i) {
        kit.Must(kit.Await(streams[i].get(), seconds(2)), "go on behind it");
      }
    }
  }
  return {};
}

// The time until a graph that a kernel launches begins on a GPU full of blocks
// with a backlog of the lowest priority.
Answer GraphPriority(Kit& kit) {
  int least = 0;
  int greatest = 0;
  kit.driver().cuCtxGetStreamPriorityRange(&least, &greatest);
  const int sms = kit.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const int threads =
      kit.Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  const auto at_once = static_cast<uint32_t>(sms * (threads / 1024));
  constexpr uint64_t kBlockNs = 1'000'000;
  constexpr uint32_t kWaves = 20;
  const Stream launcher = kit.MakeStream(greatest);
  const Stream background = kit.MakeStream(least);
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto times = kit.Must(DeviceBytes::Make(kit.driver(), 64));
  uint32_t round = 0;
  struct Way {
    const char* name;
    GraphOptions options;
  };
  const Way ways[] = {{"plain", {}},
                      {"node_priority", {.priority = greatest}},
                      {"node_priority_and_flag",
                       {.priority = greatest, .use_node_priority = true}}};
  for (const Way& way : ways) {
    auto target = kit.DeviceGraph(launcher.get(), way.options, "probe_stamp",
                                  times.as<uint64_t>(8));
    if (!target.ok()) {
      Note(way.name, std::string(target.status().message()));
      continue;
    }
    const uint64_t offset = 64 * (++round);
    auto* const go = words.as<uint32_t>(offset);
    auto* const running = words.as<uint32_t>(offset + 1024);
    auto parent = kit.Must(kit.DeviceGraph(
        launcher.get(), "probe_fire_at", 1, static_cast<const uint32_t*>(go),
        running, reinterpret_cast<uint64_t>(target->get()),
        times.as<uint64_t>(0), times.as<uint32_t>(16)));
    kit.Must(kit.driver().cuStreamSynchronize(launcher.get()), "upload");
    kit.Must(kit.driver().cuGraphLaunch(parent.get(), launcher.get()),
             "launch");
    if (!Kit::AwaitWord(running, 1, seconds(5))) {
      Kit::Die("the launching graph does not begin");
    }
    kit.Must(kit.Launch(background.get(), "probe_hold", at_once * kWaves, 1024,
                        kBlockNs),
             "fill the GPU");
    std::this_thread::sleep_for(milliseconds(3));
    std::atomic_ref(*go).store(1, std::memory_order_release);
    kit.Must(kit.Await(launcher.get(), seconds(5)), "run the launched graph");
    kit.Must(kit.Await(background.get(), seconds(5)), "run the backlog");
    const auto launched = ReadBack<uint64_t>(kit, times, 0);
    const auto began = ReadBack<uint64_t>(kit, times, 1);
    const auto error = ReadBack<uint32_t>(kit, times, 4);
    if (error != 0) {
      Note(std::string(way.name) + "_error", ErrorName(kit, error));
      continue;
    }
    Note(std::string(way.name) + "_us",
         static_cast<double>(began - launched) / 1000);
  }
  return {};
}

// On which SMs the kernels of graphs run that are made for a part of them.
Answer ReservedWhere(Kit& kit) {
  const Driver& driver = kit.driver();
  const Split split = SplitSms(kit, AllSms(kit), 0, 8);
  kit.Must(split.result, "split the SMs");
  Note("part", split.part);
  const CUgreenCtx green = MakeGreen(kit, split.resources[0]);
  CUcontext context = nullptr;
  kit.Must(driver.cuCtxFromGreenCtx(&context, green), "enter it");
  CUcontext primary = nullptr;
  driver.cuCtxGetCurrent(&primary);
  CUstream stream = nullptr;
  kit.Must(
      driver.cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
      "make its stream");
  constexpr uint32_t kMostSms = 1024;
  auto sms = kit.Must(DeviceBytes::Make(driver, kMostSms * sizeof(uint32_t)));
  const auto blocks = static_cast<uint32_t>(
      4 * kit.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  constexpr uint64_t kBlockNs = 50'000;
  const auto used = [&](const char* name) {
    kit.Must(kit.Await(stream, seconds(5)), name);
    std::vector<uint32_t> marks(kMostSms);
    kit.Must(driver.cuMemcpyDtoH(marks.data(), sms.address(),
                                 marks.size() * sizeof(uint32_t)),
             "read the SMs");
    Note(name, std::ranges::count(marks, 1u));
    kit.Must(
        driver.cuMemsetD8(sms.address(), 0, marks.size() * sizeof(uint32_t)),
        "clear the SMs");
    kit.Must(driver.cuStreamSynchronize(nullptr), "clear the SMs");
    return std::ranges::count(marks, 1u);
  };
  kit.Must(kit.Launch(stream, "probe_where", blocks, 1024, sms.as<uint32_t>(),
                      kBlockNs),
           "launch in its stream");
  used("by_stream");
  // A node that names a function of the primary context's module, while the
  // part's context is the current one.
  driver.cuCtxSetCurrent(context);
  auto named = kit.DeviceGraph(stream, {.blocks = blocks, .threads = 1024},
                               "probe_where", sms.as<uint32_t>(), kBlockNs);
  driver.cuCtxSetCurrent(primary);
  if (!named.ok()) {
    Note("by_node", std::string(named.status().message()));
  } else {
    kit.Must(driver.cuGraphLaunch(named->get(), stream), "launch");
    used("by_node");
  }
  // What gpud does: a graph that is captured in a stream of the part.
  kit.Must(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
           "capture");
  kit.Must(kit.Launch(stream, "probe_where", blocks, 1024, sms.as<uint32_t>(),
                      kBlockNs),
           "capture a launch");
  CUgraph graph = nullptr;
  kit.Must(driver.cuStreamEndCapture(stream, &graph), "capture");
  auto captured = kit.Must(
      gpud::cuda::Instantiate(driver, graph,
                              CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                              stream));
  kit.Must(driver.cuGraphLaunch(captured.get(), stream), "launch");
  const auto by_capture = used("by_capture");
  // The same, launched by a kernel of that part.
  auto count = kit.Must(DeviceBytes::Make(driver, 64));
  auto handle = kit.Must(DeviceBytes::Make(driver, sizeof(uint64_t)));
  const auto exec = reinterpret_cast<uint64_t>(captured.get());
  kit.Must(handle.Write(driver, &exec, sizeof(exec)), "write the handle");
  auto parent = kit.Must(
      kit.DeviceGraph(stream, "probe_fire", 1,
                      static_cast<const uint64_t*>(handle.as<uint64_t>()), 1u,
                      0u, reinterpret_cast<FireResult*>(count.address())));
  kit.Must(driver.cuGraphLaunch(parent.get(), stream), "launch");
  const auto by_kernel = used("by_a_kernel_s_launch");
  return {.bad = by_capture > static_cast<int64_t>(split.part) ||
                 by_kernel > static_cast<int64_t>(split.part)};
}

constexpr Probe kProbes[] = {
    {"beside_resident",
     "Which calls of the driver wait for a kernel that does not end?", nullptr,
     &BesideResident},
    {"aliasing", "Of many streams, how many go on beside one that does not?",
     &Aliasing},
    {"graph_priority",
     "How soon does a graph begin that a kernel launches on a full GPU, by its "
     "node's priority?",
     &GraphPriority},
    {"reserved_where",
     "On how many SMs do the kernels of a green context's graphs run?",
     &ReservedWhere},
};

}  // namespace

std::span<const Probe> ResidentProbes() { return kProbes; }

}  // namespace carillon::gpu_check
