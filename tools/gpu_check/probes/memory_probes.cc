// Probes of memory that a GPU and CPUs share.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/shared_pages.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::Stream;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Answer RegisteredMemory(Kit& kit) {
  const auto start = Clock::now();
  SharedPages pages(kit, 1 << 20);
  const double ms = MicrosSince(start) / 1000;
  constexpr uint32_t kWords = 1024;
  auto* const in = pages.as<uint32_t>();
  auto* const out = pages.as<uint32_t>(512 * 1024);
  for (uint32_t i = 0; i < kWords; ++i) in[i] = i * 3;
  kit.Must(kit.Launch(nullptr, "probe_copy", 1, 256,
                      static_cast<const uint32_t*>(in), out, kWords),
           "launch");
  kit.Must(kit.driver().cuStreamSynchronize(nullptr), "run");
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kWords; ++i) wrong += out[i] != i * 3 + 1;
  return {.text = wrong == 0
                      ? "a kernel reads and writes it at the host's "
                        "addresses"
                      : fmt::format("{} of {} words are wrong", wrong, kWords),
          .numbers = {{"register_1_mib_ms", ms}, {"wrong_words", wrong}},
          .bad = wrong != 0};
}

Answer WholeStore(Kit& kit) {
  SharedPages pages(kit, 4096);
  auto* const cell = pages.as<uint64_t>();
  constexpr uint64_t kStores = 3'000'000;
  const auto stream = kit.MakeStream();
  kit.Must(kit.Launch(stream.get(), "probe_store16", 1, 1, cell, kStores),
           "launch");
  uint64_t looks = 0;
  uint64_t changes = 0;
  uint64_t torn = 0;
  uint64_t early = 0;
  uint64_t last = 0;
  // Reads the sequence first, then the other half, as a device reads a
  // completion. The half may be of a later store, but not of an earlier one.
  while (last < kStores) {
    const uint64_t first =
        std::atomic_ref(cell[0]).load(std::memory_order_acquire);
    const uint64_t second =
        ~std::atomic_ref(cell[1]).load(std::memory_order_acquire);
    if (first == 0) continue;
    ++looks;
    if (first != last) ++changes;
    last = first;
    if (second < first) ++torn;
    if (second > first) ++early;
    if ((looks & 0xfffff) == 0 &&
        kit.driver().cuStreamQuery(stream.get()) != CUDA_ERROR_NOT_READY &&
        std::atomic_ref(cell[0]).load(std::memory_order_acquire) == last) {
      break;
    }
  }
  kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "run");
  return {.text = torn == 0
                      ? "yes: no half of an older store beside a newer sequence"
                      : fmt::format("NO: {} of {} looks saw a torn store", torn,
                                    looks),
          .numbers = {{"stores", kStores},
                      {"looks", looks},
                      {"changes_seen", changes},
                      {"torn", torn},
                      {"second_half_newer", early}},
          .bad = torn != 0};
}

Answer PollRoundTrip(Kit& kit) {
  SharedPages pages(kit, 1 << 16);
  nlohmann::json numbers;
  std::string text;
  const auto stream = kit.MakeStream();
  auto ns = kit.Must(DeviceBytes::Make(kit.driver(), 64));
  for (const uint32_t pollers : {1u, 2u, 4u}) {
    constexpr uint32_t kReads = 20'000;
    const uint32_t* const line = pages.as<uint32_t>(4096);
    kit.Must(kit.Launch(stream.get(), "probe_poll", 1, pollers * 32, line,
                        kReads, ns.as<uint64_t>()),
             "launch");
    kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "run");
    uint64_t took[4] = {};
    kit.Must(kit.driver().cuMemcpyDtoH(took, ns.address(),
                                       pollers * sizeof(uint64_t)),
             "read the times");
    const double read_ns =
        static_cast<double>(*std::max_element(took, took + pollers)) / kReads;

    auto* const ping = pages.as<uint32_t>();
    auto* const pong = pages.as<uint32_t>(8192);
    *ping = *pong = 0;
    constexpr uint32_t kPings = 20'000;
    kit.Must(kit.Launch(stream.get(), "probe_pong", 1, pollers * 32,
                        static_cast<const uint32_t*>(ping), pong, kPings),
             "launch");
    std::vector<uint32_t> samples;
    for (uint32_t i = 1; i <= kPings; ++i) {
      const auto start = Clock::now();
      std::atomic_ref(*ping).store(i, std::memory_order_release);
      if (!Kit::AwaitWord(pong, i, milliseconds(2000))) {
        Kit::Die(fmt::format("no answer to ping {} of {}", i, kPings));
      }
      samples.push_back(static_cast<uint32_t>(
          std::chrono::nanoseconds(Clock::now() - start).count()));
    }
    kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "run");
    std::ranges::sort(samples);
    const uint32_t p50 = samples[samples.size() / 2];
    const uint32_t p99 = samples[samples.size() * 99 / 100];
    numbers[fmt::format("{}_pollers", pollers)] = {
        {"read_ns", read_ns}, {"ping_p50_ns", p50}, {"ping_p99_ns", p99}};
    text += fmt::format("{}{} pollers: read {:.0f} ns, ping-pong p50 {} ns",
                        text.empty() ? "" : "; ", pollers, read_ns, p50);
  }
  return {.text = text, .numbers = std::move(numbers)};
}

Answer MemoryOperations(Kit& kit) {
  SharedPages pages(kit, 4096);
  auto* const word = pages.as<uint32_t>();
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  const auto stream = kit.MakeStream();
  const CUresult waits = kit.driver().cuStreamWaitValue32(
      stream.get(), address, 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (waits != CUDA_SUCCESS) {
    return {.text = "no: cuStreamWaitValue32 gives " + ErrorName(kit, waits)};
  }
  const CUresult writes = kit.driver().cuStreamWriteValue32(
      stream.get(), address + 64, 7, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (writes != CUDA_SUCCESS) {
    return {.text = "no: cuStreamWriteValue32 gives " + ErrorName(kit, writes)};
  }
  const bool waited =
      kit.Await(stream.get(), milliseconds(20)) == CUDA_ERROR_NOT_READY;
  std::atomic_ref(*word).store(1, std::memory_order_release);
  const bool written = Kit::AwaitWord(word + 16, 7, milliseconds(2000));
  Note("waited", waited);
  Note("went_on", written);
  if (!waited || !written) {
    return {.text = "no: the stream does not wait, or does not go on",
            .bad = waited && !written};
  }
  // From the store to the stream's own store, with so many streams that wait.
  constexpr uint32_t kSamples = 1000;
  constexpr uint32_t kMost = 28;
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < kMost; ++i) streams.push_back(kit.MakeStream());
  SharedPages words(kit, 2 * kMost * 64);
  for (const uint32_t count : {1u, 8u, kMost}) {
    std::vector<uint32_t> turns(count, 0);
    const auto bell = [&](uint32_t i) { return words.as<uint32_t>(i * 128); };
    const auto done = [&](uint32_t i) {
      return words.as<uint32_t>(i * 128 + 64);
    };
    const auto arm = [&](uint32_t i) {
      kit.Must(kit.driver().cuStreamWaitValue32(
                   streams[i].get(), reinterpret_cast<CUdeviceptr>(bell(i)),
                   turns[i] + 1, CU_STREAM_WAIT_VALUE_GEQ),
               "wait");
      kit.Must(kit.driver().cuStreamWriteValue32(
                   streams[i].get(), reinterpret_cast<CUdeviceptr>(done(i)),
                   turns[i] + 1, CU_STREAM_WRITE_VALUE_DEFAULT),
               "write");
    };
    // From zero again, while no stream waits.
    for (uint32_t i = 0; i < count; ++i) {
      std::atomic_ref(*bell(i)).store(0, std::memory_order_release);
      std::atomic_ref(*done(i)).store(0, std::memory_order_release);
      arm(i);
    }
    std::vector<double> us;
    const auto end = Clock::now() + std::chrono::seconds(2);
    for (uint32_t sample = 0; sample < kSamples && Clock::now() < end;
         ++sample) {
      const uint32_t i = sample % count;
      const auto start = Clock::now();
      std::atomic_ref(*bell(i)).store(++turns[i], std::memory_order_release);
      if (!Kit::AwaitWord(done(i), turns[i], milliseconds(2000))) {
        Kit::Die(fmt::format("one of {} streams does not go on", count));
      }
      us.push_back(MicrosSince(start));
      arm(i);
    }
    for (uint32_t i = 0; i < count; ++i) {
      std::atomic_ref(*bell(i)).store(turns[i] + 1, std::memory_order_release);
      kit.Must(kit.Await(streams[i].get(), milliseconds(2000)), "end");
    }
    std::ranges::sort(us);
    Noted()[fmt::format("samples_of_{}", count)] = us.size();
    Note(fmt::format("wake_p50_us_of_{}", count), us[us.size() / 2]);
    Note(fmt::format("wake_p99_us_of_{}", count), us[us.size() * 99 / 100]);
  }
  return {};
}

Answer RegisterTime(Kit& kit) {
  for (const uint64_t mib : {1u, 16u, 256u}) {
    SharedPages pages(kit, mib << 20);
    Note(fmt::format("register_{}_mib_ms", mib), pages.register_ms());
    const auto start = Clock::now();
    pages.registration() = {};
    Note(fmt::format("unregister_{}_mib_ms", mib), MicrosSince(start) / 1000);
  }
  return {};
}

// A device may take pages out of the file that it shares.
Answer Punch(Kit& kit) {
  SharedPages pages(kit, 1 << 20);
  auto* const in = pages.as<uint32_t>();
  auto* const out = pages.as<uint32_t>(512 << 10);
  const auto gpu_reads = [&] {
    kit.Must(kit.Launch(nullptr, "probe_copy", 1, 1,
                        static_cast<const uint32_t*>(in), out, 1u),
             "launch");
    kit.Must(kit.driver().cuStreamSynchronize(nullptr), "run");
    return std::atomic_ref(*out).load(std::memory_order_acquire) - 1;
  };
  std::atomic_ref(*in).store(7, std::memory_order_release);
  Note("gpu_before", gpu_reads());
  if (fallocate(pages.file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                4096) != 0) {
    Kit::Die("cannot punch a hole");
  }
  Note("cpu_after", std::atomic_ref(*in).load(std::memory_order_acquire));
  Note("gpu_after", gpu_reads());
  std::atomic_ref(*in).store(9, std::memory_order_release);
  Note("cpu_after_store", std::atomic_ref(*in).load(std::memory_order_acquire));
  const uint32_t seen = gpu_reads();
  Note("gpu_after_store", seen);
  return {.text = seen == 9 ? "the GPU reads the new page"
                            : fmt::format("the GPU goes on with the old page "
                                          "({} where the CPU has 9)",
                                          seen)};
}

// A kernel never ends by itself while another thread unregisters memory.
Answer UnregisterResident(Kit& kit) {
  SharedPages words(kit, 4096);
  auto* const stop = words.as<uint32_t>();
  auto* const running = words.as<uint32_t>(128);
  // Not freed, because a thread may be stuck in it.
  auto* const other = new SharedPages(kit, 1 << 20);
  const auto stream = kit.MakeStream();
  kit.Must(kit.Launch(stream.get(), "probe_spin", 1, 32,
                      static_cast<const uint32_t*>(stop), running),
           "launch");
  if (!Kit::AwaitWord(running, 1, milliseconds(5000))) {
    Kit::Die("the resident kernel does not begin");
  }
  CUcontext context = nullptr;
  kit.driver().cuCtxGetCurrent(&context);
  std::promise<double> done;
  std::future<double> time = done.get_future();
  std::thread unregister([&, other] {
    kit.driver().cuCtxSetCurrent(context);
    const auto start = Clock::now();
    other->registration() = {};
    done.set_value(MicrosSince(start) / 1000);
  });
  const bool returned =
      time.wait_for(std::chrono::seconds(3)) == std::future_status::ready;
  std::atomic_ref(*stop).store(1, std::memory_order_release);
  unregister.join();
  kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "end the kernel");
  const double ms = time.get();
  return {.text = returned ? fmt::format("yes, after {:.2f} ms", ms)
                           : "no: only after the kernel has ended",
          .numbers = {{"returned", returned}, {"ms", ms}}};
}

constexpr Probe kProbes[] = {
    {"registered_memory",
     "Does a kernel use registered shared memory at the host's addresses?",
     &RegisteredMemory},
    {"whole_store", "Does the CPU see a 16-byte store of the GPU whole?",
     &WholeStore},
    {"poll_rtt",
     "How long is a read of host memory, and a ping-pong, with 1, 2 and 4 "
     "polling warps?",
     &PollRoundTrip},
    {"memory_operations",
     "Do a stream's wait and write operations work on registered memory?",
     &MemoryOperations},
    {"register_time",
     "How long does it take to register 1, 16 and 256 MiB of shared memory?",
     &RegisterTime},
    {"punch", "What does the GPU read where a page of shared memory was freed?",
     &Punch},
    {"unregister_resident",
     "Does cuMemHostUnregister return while a kernel is resident?",
     &UnregisterResident},
};

}  // namespace

std::span<const Probe> MemoryProbes() { return kProbes; }

}  // namespace carillon::gpu_check
