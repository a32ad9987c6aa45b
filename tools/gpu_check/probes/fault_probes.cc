// What a faulting kernel destroys, and what ends a kernel that does not end.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/shared_pages.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::PinnedBytes;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Causes a sticky error in the primary context.
CUresult Fault(Kit& kit) {
  kit.Must(kit.Launch(nullptr, "probe_fault", 1, 1,
                      reinterpret_cast<uint32_t*>(uintptr_t{16})),
           "launch a faulting kernel");
  return kit.driver().cuStreamSynchronize(nullptr);
}

// As gpud does on the driver of its own: Gpu::LoseContext() and MakeContext(). On
// NVIDIA's it ends instead (docs/decisions/032-a-fault-ends-gpud.md), so that a "no"
// to what works behind it is an answer, and no failure.
CUresult Reset(Kit& kit) {
  kit.driver().cuDevicePrimaryCtxReset(kit.device());
  kit.driver().cuDevicePrimaryCtxRelease(kit.device());
  return kit.TryEnter();
}

// Behind a reset: shared memory is registered again, and a kernel
// uses it. `name` begins what is noted.
CUresult GoOn(Kit& kit, SharedPages& pages, const std::string& name) {
  const auto again = [&] {
    return kit.driver().cuMemHostRegister(
        pages.as<void>(), pages.bytes(),
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  };
  CUresult result = again();
  Note(name + "registered_again", ErrorName(kit, result));
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
    result = kit.driver().cuMemHostUnregister(pages.as<void>());
    Note(name + "unregistered", ErrorName(kit, result));
    if (result == CUDA_SUCCESS) result = again();
  }
  if (result != CUDA_SUCCESS) return result;
  auto* const in = pages.as<uint32_t>();
  auto* const out = pages.as<uint32_t>(4096);
  std::atomic_ref(*in).store(41, std::memory_order_release);
  result = kit.Launch(nullptr, "probe_copy", 1, 32,
                      static_cast<const uint32_t*>(in), out, 1u);
  if (result == CUDA_SUCCESS)
    result = kit.driver().cuStreamSynchronize(nullptr);
  if (result != CUDA_SUCCESS) return result;
  return std::atomic_ref(*out).load(std::memory_order_acquire) == 42
             ? CUDA_SUCCESS
             : CUDA_ERROR_UNKNOWN;
}

size_t FreeBytes(const Kit& kit) {
  size_t free = 0;
  size_t total = 0;
  kit.driver().cuMemGetInfo(&free, &total);
  return free;
}

Answer FaultReset(Kit& kit) {
  SharedPages pages(kit, 1 << 20);
  constexpr int kTimes = 20;
  const size_t free = FreeBytes(kit);
  for (int time = 1; time <= kTimes; ++time) {
    // Who has lost the context forgets what it had there.
    pages.registration().Abandon();
    const CUresult fault = Fault(kit);
    const CUresult sticky = kit.driver().cuStreamSynchronize(nullptr);
    const auto start = std::chrono::steady_clock::now();
    CUresult works = Reset(kit);
    if (time == 1) {
      Note("fault", ErrorName(kit, fault));
      Note("sticky", ErrorName(kit, sticky));
      Note("reset", ErrorName(kit, works));
      Note("reset_ms", MicrosSince(start) / 1000);
    }
    if (works == CUDA_SUCCESS) works = GoOn(kit, pages, "");
    if (works != CUDA_SUCCESS) {
      return {.text = fmt::format("no: {} after reset {}",
                                  ErrorName(kit, works), time)};
    }
    Note("resets", time);
    Note("lost_bytes",
         static_cast<int64_t>(free) - static_cast<int64_t>(FreeBytes(kit)));
  }
  return {};
}

// A fault with memory of cuMemCreate at a reserved address.
Answer FaultMemory(Kit& kit) {
  const gpud::cuda::Driver& driver = kit.driver();
  CUmemAllocationProp where = {};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {CU_MEM_LOCATION_TYPE_DEVICE, kit.device()};
  size_t size = 0;
  kit.Must(driver.cuMemGetAllocationGranularity(
               &size, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
           "ask for the granularity");
  CUdeviceptr address = 0;
  kit.Must(driver.cuMemAddressReserve(&address, size, 0, 0, 0),
           "reserve an address");
  CUmemGenericAllocationHandle handle = 0;
  kit.Must(driver.cuMemCreate(&handle, size, &where, 0), "make memory");
  CUmemAccessDesc access = {};
  access.location = where.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  kit.Must(driver.cuMemMap(address, size, 0, handle, 0), "map it");
  kit.Must(driver.cuMemSetAccess(address, size, &access, 1), "allow access");
  const uint32_t kWord = 0xca511107;
  kit.Must(driver.cuMemsetD32(address, kWord, size / 4), "fill it");
  kit.Must(driver.cuStreamSynchronize(nullptr), "fill it");
  Fault(kit);
  if (const CUresult reset = Reset(kit); reset != CUDA_SUCCESS) {
    return {
        .text = fmt::format("no: {} after the reset", ErrorName(kit, reset)),
        .numbers = {{"reset", ErrorName(kit, reset)}, {"kept", false}}};
  }
  // Is the memory still mapped? If it is mapped again, does it have its bytes?
  uint32_t word = 0;
  const CUresult as_is = driver.cuMemcpyDtoH(&word, address, 4);
  const bool kept_mapped = as_is == CUDA_SUCCESS && word == kWord;
  CUresult again = CUDA_SUCCESS;
  bool kept = kept_mapped;
  if (!kept_mapped) {
    driver.cuMemUnmap(address, size);
    again = driver.cuMemMap(address, size, 0, handle, 0);
    if (again == CUDA_SUCCESS) {
      again = driver.cuMemSetAccess(address, size, &access, 1);
    }
    std::vector<uint32_t> words(size / 4);
    if (again == CUDA_SUCCESS) {
      again = driver.cuMemcpyDtoH(words.data(), address, size);
    }
    kept = again == CUDA_SUCCESS;
    for (const uint32_t one : words) kept = kept && one == kWord;
  }
  return {.text = kept_mapped ? "yes, still mapped and with its bytes"
                  : kept      ? "yes, with its bytes once it is mapped again"
                              : fmt::format("no ({})", ErrorName(kit, again)),
          .numbers = {{"as_it_is", ErrorName(kit, as_is)},
                      {"mapped_again", ErrorName(kit, again)},
                      {"kept", kept}}};
}

// A kernel that does not end, on one SM or on all of them, and a trap in another
// stream.
Answer Trap(Kit& kit, uint32_t blocks, uint32_t threads) {
  SharedPages pages(kit, 1 << 20);
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto endless = kit.MakeStream();
  auto other = kit.MakeStream(-5);
  kit.Must(kit.Launch(endless.get(), "probe_spin", blocks, threads,
                      static_cast<const uint32_t*>(words.as<uint32_t>()),
                      words.as<uint32_t>(128)),
           "launch the endless kernel");
  if (!Kit::AwaitWord(words.as<uint32_t>(128), 1, seconds(5))) {
    Kit::Die("the endless kernel does not begin");
  }
  // All of its blocks, too.
  std::this_thread::sleep_for(milliseconds(20));
  const CUresult launched = kit.Launch(other.get(), "probe_trap", 1, 1);
  const auto start = std::chrono::steady_clock::now();
  const CUresult ended = launched == CUDA_SUCCESS
                             ? kit.Await(endless.get(), seconds(5))
                             : CUDA_ERROR_NOT_READY;
  Note("launch", ErrorName(kit, launched));
  Note("ended", ErrorName(kit, ended));
  Note("ms", MicrosSince(start) / 1000);
  // The context's end frees them; freeing them before could wait for the
  // kernel.
  words.Abandon();
  endless.Abandon();
  other.Abandon();
  pages.registration().Abandon();
  if (ended == CUDA_ERROR_NOT_READY) {
    return {.text = "no: it still runs 5 s later"};
  }
  CUresult reset = Reset(kit);
  Note("reset", ErrorName(kit, reset));
  if (reset == CUDA_SUCCESS) reset = GoOn(kit, pages, "");
  Note("works", ErrorName(kit, reset));
  return {};
}

Answer TrapKills(Kit& kit) { return Trap(kit, 1, 32); }

Answer TrapOnFullGpu(Kit& kit) {
  const int sms = kit.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const int threads =
      kit.Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  return Trap(kit, static_cast<uint32_t>(sms * (threads / 1024)), 1024);
}

constexpr Probe kProbes[] = {
    {"fault_reset",
     "Does a reset of the primary context clear a kernel's fault in the same "
     "process, 20 times, and can shared memory be registered again?",
     &FaultReset},
    {"fault_memory", "Does memory of cuMemCreate survive that reset?",
     &FaultMemory},
    {"trap_kills",
     "Does a trap in another stream end a kernel that never ends?", &TrapKills},
    {"trap_full_gpu", "The same, where that kernel fills all SMs.",
     &TrapOnFullGpu},
};

}  // namespace

std::span<const Probe> FaultProbes() { return kProbes; }

}  // namespace carillon::gpu_check
