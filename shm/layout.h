// The layout of the memory that a device and gpud share.
//
// Concepts
//   aperture    one sealed memfd with one writing process. Every device has
//               two.
//   submission  written by the device, read by gpud: doorbells, ESQs, input
//               buffers.
//   completion  written by gpud and its kernels, read by the device: ECQs,
//               output buffers.
//   ring        one ESQ in the submission aperture and its twin ECQ in the
//               completion aperture; slot i of one belongs to slot i of the
//               other.
//   heap        the tail of an aperture, from which gpud places rings and
//               buffers.
//
// Nothing here is reachable by name, and no field is trusted by the side that
// does not write it: gpud keeps sizes, offsets and masks in private memory and
// range-checks every value that it loads (docs/data_plane.md draws all of
// this).
#ifndef CARILLON_SHM_LAYOUT_H_
#define CARILLON_SHM_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace carillon::shm {

// "CARILLON", little endian.
inline constexpr uint64_t kMagic = 0x4e4f4c4c49524143;
inline constexpr uint32_t kLayoutVersion = 2;

inline constexpr uint64_t kPageSize = 4096;
inline constexpr uint64_t kCacheLine = 64;
// One GPU read over PCIe polls one line of doorbells (32 rings a read).
inline constexpr uint32_t kDoorbellsPerLine = 32;
// Also the largest EKT (32 as in EDGE Fig. 6 by default).
inline constexpr uint32_t kMaxDoorbells = 1024;
inline constexpr uint32_t kMaxRingEntries = 65536;
// The limit of CUDA kernel arguments.
inline constexpr uint32_t kMaxParameterBytes = 4096;

inline constexpr uint32_t kMaxTelemetryCounters = 64;
inline constexpr uint32_t kMaxTelemetryHistograms = 4;

enum class RegionKind : uint32_t { kSubmission = 1, kCompletion = 2 };

//   0        8         12     16     24           28          32
//   +--------+---------+------+------+------------+-----------+
//   | magic  | version | kind | size | generation | device id |
//   +--------+---------+------+------+------------+-----------+
//   32            40          48               52         56     128
//   +-------------+-----------+----------------+----------+------+
//   | heap offset | heap size | doorbell count | gpud pid | 0... |
//   +-------------+-----------+----------------+----------+------+
// Written once by gpud before the other side can see it; the magic last.
struct RegionHeader {
  uint64_t magic;
  uint32_t layout_version;
  RegionKind kind;
  uint64_t size;  // of the whole aperture, bytes
  uint32_t generation;
  uint32_t device_id;
  uint64_t heap_offset;
  uint64_t heap_size;
  uint32_t doorbell_count;  // a multiple of kDoorbellsPerLine
  uint32_t gpud_pid;
  uint8_t reserved[72];
};
static_assert(sizeof(RegionHeader) == 128);
static_assert(offsetof(RegionHeader, size) == 16);
static_assert(offsetof(RegionHeader, heap_offset) == 32);

// Page 1 of the submission aperture. Writer: the device. Reader: gpud.
struct SubmissionControl {
  // Futex word on which a sleeping gpud waits; bumped by a ring that finds gpud
  // armed.
  alignas(128) uint32_t summary;
  // How the device waits for completions: kArmedFutexMask counts threads in a
  // futex, kArmedCompletionEvent says that the CompletionEvent (wakeups.h) must
  // be written.
  alignas(128) uint32_t completion_armed;
  // When the device last said that it is alive; `carillon devices` tells.
  alignas(128) uint64_t heartbeat_ns;
};
static_assert(sizeof(SubmissionControl) == 384);

inline constexpr uint32_t kArmedFutexMask = 0xffff;
inline constexpr uint32_t kArmedCompletionEvent = 1u << 31;

// Page 1 of the completion aperture. Writer: gpud. Reader: the device.
struct CompletionControl {
  // Futex word on which the device waits; bumped by a completion that finds it
  // armed.
  alignas(128) uint32_t summary;
  // How many of gpud's threads are about to sleep, or asleep, until a doorbell
  // of this device rings.
  alignas(128) uint32_t gpud_armed;
  // Why the aperture is closed (CloseReason); 0 while it is open. Never
  // reopened.
  alignas(128) uint32_t closed;
  uint32_t tracing;  // 1: both sides stamp the life of every event
  // When gpud last said that it is alive.
  alignas(128) uint64_t heartbeat_ns;
};
static_assert(sizeof(CompletionControl) == 512);

enum class CloseReason : uint32_t {
  kOpen = 0,
  kDetached = 1,  // the device asked for it
  kEvicted = 2,   // the device broke the protocol
  kShutdown = 3,  // gpud goes down in an orderly way
  kPeerDied = 4,  // the other process is gone
  kSilent = 5,    // the device gave no sign of life for as long as its lease
  // gpud goes down for another one that takes its place: what has not ended is
  // not aborted, for the device to go on with it there.
  kRestarting = 6,
  kLinkLost = 7,  // the link to the other host was lost (docs/mesh.md)
};

// Log-linear latency histogram: see histogram.h.
inline constexpr uint32_t kHistogramSubBuckets = 32;
inline constexpr uint32_t kHistogramBuckets = 40 * kHistogramSubBuckets;
struct HistogramCells {
  uint64_t buckets[kHistogramBuckets];
  uint64_t sum_ns;  // of all values, modulo 2^64
};

// A device's own figures, from page 2 of the submission aperture on: reading
// them costs the device nothing. Names are given at Attach.
struct Telemetry {
  uint64_t counters[kMaxTelemetryCounters];
  HistogramCells histograms[kMaxTelemetryHistograms];
};

inline constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

inline constexpr uint64_t kControlOffset = kPageSize;
inline constexpr uint64_t kTelemetryOffset = 2 * kPageSize;
// Doorbell counters (u32 each), then per-ring consumed sequences (u64 each).
inline constexpr uint64_t kDoorbellOffset =
    kTelemetryOffset + AlignUp(sizeof(Telemetry), kPageSize);
inline constexpr uint64_t kConsumedOffset =
    kDoorbellOffset + kMaxDoorbells * sizeof(uint32_t);
inline constexpr uint64_t kSubmissionHeapOffset =
    AlignUp(kConsumedOffset + kMaxDoorbells * sizeof(uint64_t), kPageSize);
inline constexpr uint64_t kCompletionHeapOffset =
    AlignUp(kControlOffset + sizeof(CompletionControl), kPageSize);

// As drawn in docs/data_plane.md.
static_assert(kDoorbellOffset == 0xd000);
static_assert(kConsumedOffset == 0xe000);
static_assert(kSubmissionHeapOffset == 0x10000);
static_assert(kCompletionHeapOffset == 0x2000);

// ESQ entry: this header, then a KmdOverride if the event kernel is modifyable,
// then the parameters packed as registered; 64-byte stride.
//
//   0          8            12      16        24         32    32 or 64
//   +----------+------------+-------+---------+----------+-----+------------+
//   | sequence | generation | flags | rung_ns | reserved | KMD | parameters |
//   +----------+------------+-------+---------+----------+-----+------------+
struct EsqEntryHeader {
  uint64_t sequence;    // which ring of the doorbell this entry is for
  uint32_t generation;  // of the ring
  uint32_t flags;       // kEsqKmdOverride
  uint64_t rung_ns;     // when tracing; 0 otherwise
  uint64_t reserved;
};
static_assert(sizeof(EsqEntryHeader) == 32);
// What ends before this in an entry leaves room for the sequence, once more, as
// the last word of the entry's first 64 bytes: a GPU reads these together with
// the doorbell, the entry and its halves in any order, and takes what says the
// right sequence in both halves. Writer: the device, release, behind all else.
inline constexpr uint32_t kEntryStampOffset = 56;
inline constexpr uint32_t kEsqKmdOverride = 1;

// One launch's own kernel metadata (thesis 5.4.1: modifyable event kernels).
struct KmdOverride {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t reserved;
};
static_assert(sizeof(KmdOverride) == 32);

// A writable buffer parameter in an ESQ entry: bytes [offset, offset + length)
// of the registered buffer.
struct BufferRef {
  uint64_t offset;
  uint64_t length;
};
static_assert(sizeof(BufferRef) == 16);

enum class EventState : uint32_t {
  kNone = 0,
  kDone = 1,
  kFailed = 2,
  kAborted = 3
};

// ECQ entry. `sequence` is stored last (release), so a reader that finds the
// sequence it waits for finds state and status too; on a GPU all 16 bytes are
// one store.
struct EcqEntry {
  EventState state;
  // EventStatus, or the kernel's own code from kKernelStatusBase on.
  uint32_t status;
  uint64_t sequence;
};
static_assert(sizeof(EcqEntry) == 16);

// When each stage of an event's life happened; one per ECQ slot, after the ECQ,
// written before the completion while tracing is on.
struct EventLife {
  uint64_t rung_ns;
  uint64_t seen_ns;        // the front-end found the doorbell
  uint64_t queued_ns;      // entry checked, handed to the KMU or the short path
  uint64_t dispatched_ns;  // first thread block given to a worker
  uint64_t finished_ns;    // last thread block done
  uint64_t reserved[3];
};
static_assert(sizeof(EventLife) == 64);

// Why an event failed or was aborted.
enum class EventStatus : uint32_t {
  kOk = 0,
  kStaleGeneration = 1,  // the entry's generation is not the ring's
  kBadSequence = 2,   // the entry was not written for this ring of the doorbell
  kBadBufferRef = 3,  // a buffer reference leaves its buffer
  kBadKmd = 4,  // the override's dimensions or shared memory are out of range
  // Unknown flag, or an override for a kernel that is not modifyable.
  kBadFlags = 5,
  kBadParameter = 6,  // the kernel's own check refused the arguments
  kUnregistered = 7,  // aborted: the event kernel went away first
  kDeviceGone = 8,    // aborted: the device died or detached
  kShutdown = 9,      // aborted: gpud went down
  kBarrierDivergence =
      10,  // the kernel's threads did not reach a barrier together
  kWarpDivergence = 11,    // lanes did not reach a warp operation together
  kSharedOutOfRange = 12,  // the kernel left its shared memory
  kBadLaunch = 13,         // dimensions that no launch may have: gpud's mistake
  kNoMemory = 14,          // no memory for the state of the block's threads
  kKernelFault = 15,       // the GPU stopped the kernel: a bad address, a trap
  kTimedOut = 16,          // the kernel ran for longer than gpud lets any run
  kNotLaunched = 17,       // the GPU's driver refused the launch
  kNotTaken = 18,          // done, but no event of the next device took it on
  kLinkLost = 19,          // aborted: the link to the other host was lost
  kKernelStatusBase = 1000,
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_LAYOUT_H_
