#ifndef CARILLON_GPU_DAEMON_EVENT_COPY_CHUNKS_H_
#define CARILLON_GPU_DAEMON_EVENT_COPY_CHUNKS_H_

#include <cstdint>

namespace carillon::gpud {

// Where a copy may be interrupted, in bytes: a smaller chunk lets others go first
// sooner, and costs more. By default what GPES took for its video (V-D).
struct CopyChunks {
  uint64_t in = uint64_t{4} << 20;
  uint64_t out = uint64_t{512} << 10;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_COPY_CHUNKS_H_
