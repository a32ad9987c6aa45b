// What a faulting kernel destroys, and what ends a kernel that does not end.
#include <vector>

#include "fmt/format.h"
#include "tools/gpu_check/probes/probe.h"

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

// Resets the context as gpud does: Gpu::LoseContext() and MakeContext().
CUresult Reset(Kit& kit) {
  kit.driver().cuDevicePrimaryCtxReset(kit.device());
  kit.driver().cuDevicePrimaryCtxRelease(kit.device());
  return kit.TryEnter();
}

Answer FaultReset(Kit& kit) {
  const CUresult fault = Fault(kit);
  const CUresult sticky = kit.driver().cuStreamSynchronize(nullptr);
  const auto start = std::chrono::steady_clock::now();
  CUresult reset = Reset(kit);
  const double ms = MicrosSince(start) / 1000;
  CUresult works = reset;
  if (reset == CUDA_SUCCESS) {
    works = kit.Launch(nullptr, "probe_empty", 1, 1, 0u);
    if (works == CUDA_SUCCESS) {
      works = kit.driver().cuStreamSynchronize(nullptr);
    }
  }
  return {.text = works == CUDA_SUCCESS ? fmt::format("yes, in {:.1f} ms", ms)
                                        : fmt::format("NO: {} after the reset",
                                                      ErrorName(kit, works)),
          .numbers = {{"fault", ErrorName(kit, fault)},
                      {"sticky", ErrorName(kit, sticky)},
                      {"reset_ms", ms},
                      {"works", works == CUDA_SUCCESS}},
          .bad = works != CUDA_SUCCESS};
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
  const CUresult reset = Reset(kit);
  kit.Must(reset, "make a context again");
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

Answer TrapKills(Kit& kit) {
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto endless = kit.MakeStream();
  auto other = kit.MakeStream(-5);
  kit.Must(kit.Launch(endless.get(), "probe_spin", 1, 32,
                      static_cast<const uint32_t*>(words.as<uint32_t>()),
                      words.as<uint32_t>(128)),
           "launch the endless kernel");
  if (!Kit::AwaitWord(words.as<uint32_t>(128), 1, seconds(5))) {
    Kit::Die("the endless kernel does not begin");
  }
  kit.Must(kit.Launch(other.get(), "probe_trap", 1, 1), "launch the trap");
  const auto start = std::chrono::steady_clock::now();
  const CUresult ended = kit.Await(endless.get(), seconds(5));
  const double ms = MicrosSince(start) / 1000;
  // The context's end frees them; freeing them before could wait for the
  // kernel.
  words.Abandon();
  endless.Abandon();
  other.Abandon();
  if (ended == CUDA_ERROR_NOT_READY) {
    return {.text = "NO: it still runs 5 s later", .bad = true};
  }
  const CUresult reset = Reset(kit);
  return {
      .text = fmt::format("yes, after {:.1f} ms ({}); a new context {}", ms,
                          ErrorName(kit, ended),
                          reset == CUDA_SUCCESS ? "works" : "does NOT work"),
      .numbers = {{"ms", ms},
                  {"error", ErrorName(kit, ended)},
                  {"reset", ErrorName(kit, reset)}},
      .bad = reset != CUDA_SUCCESS};
}

constexpr Probe kProbes[] = {
    {"fault_reset",
     "Does a reset of the primary context clear a kernel's fault in the same "
     "process?",
     &FaultReset},
    {"fault_memory", "Does memory of cuMemCreate survive that reset?",
     &FaultMemory},
    {"trap_kills",
     "Does a trap in another stream end a kernel that never ends?", &TrapKills},
};

}  // namespace

std::span<const Probe> FaultProbes() { return kProbes; }

}  // namespace carillon::gpu_check
