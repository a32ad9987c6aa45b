// Threads that wait for each other by spinning, for spinning_test.cc.
#include <cuda/atomic>

// --- Locks. Each thread adds to a counter in two steps.

// In two steps, so that a lock is needed. Returns what was there.
__device__ int Increment(volatile int* counter) {
  const int before = *counter;
  *counter = before + 1;
  return before;
}

extern "C" __global__ void global_lock(int* lock, int* counter, int rounds) {
  for (int k = 0; k < rounds; ++k) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    Increment(counter);
    __threadfence();
    atomicExch(lock, 0);
  }
}

extern "C" __global__ void shared_lock(int* out) {
  __shared__ int lock;
  __shared__ volatile int counter;
  if (threadIdx.x == 0) {
    lock = 0;
    counter = 0;
  }
  __syncthreads();
  while (atomicExch(&lock, 1) != 0) {
  }
  counter = counter + static_cast<int>(threadIdx.x);
  __threadfence_block();
  atomicExch(&lock, 0);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = counter;
}

extern "C" __global__ void ticket_lock(unsigned* tickets, int* counter,
                                       int* order) {
  const unsigned mine = atomicAdd(&tickets[0], 1);
  while (*reinterpret_cast<volatile unsigned*>(&tickets[1]) != mine) {
  }
  __threadfence();
  order[mine] = Increment(counter);
  __threadfence();
  *reinterpret_cast<volatile unsigned*>(&tickets[1]) = mine + 1;
}

// It looks at the lock without taking it first, and counts its attempts.
extern "C" __global__ void try_lock(int* lock, int* counter, int* attempts) {
  int tried = 0;
  for (;;) {
    ++tried;
    if (*reinterpret_cast<volatile int*>(lock) != 0) continue;
    if (atomicCAS(lock, 0, 1) == 0) break;
  }
  __threadfence();
  Increment(counter);
  __threadfence();
  *reinterpret_cast<volatile int*>(lock) = 0;
  atomicAdd(attempts, tried);
}

extern "C" __global__ void cxx_lock(int* word, int* counter) {
  cuda::atomic_ref<int, cuda::thread_scope_device> lock(*word);
  while (lock.exchange(1, cuda::std::memory_order_acquire) != 0) {
    while (lock.load(cuda::std::memory_order_relaxed) != 0) {
    }
  }
  *counter += 3;
  lock.store(0, cuda::std::memory_order_release);
}

// Two locks, the second one within the first one.
extern "C" __global__ void nested_locks(int* locks, int* counters) {
  const int outer = threadIdx.x % 3;
  const int inner = 3 + (threadIdx.x / 3) % 2;
  while (atomicCAS(&locks[outer], 0, 1) != 0) {
  }
  while (atomicCAS(&locks[inner], 0, 1) != 0) {
  }
  __threadfence();
  Increment(&counters[outer]);
  Increment(&counters[inner]);
  __threadfence();
  atomicExch(&locks[inner], 0);
  atomicExch(&locks[outer], 0);
}

// --- Pairs.

// The first warp gives the second one values through one place.
extern "C" __global__ void producer_consumer(const int* in, int* out,
                                             int count) {
  __shared__ volatile int place;
  __shared__ volatile int full;
  if (threadIdx.x == 0) full = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 0; k < count; ++k) {
      while (full != 0) {
      }
      place = in[k];
      __threadfence_block();
      full = 1;
    }
  } else if (threadIdx.x == 32) {
    for (int k = 0; k < count; ++k) {
      while (full == 0) {
      }
      __threadfence_block();
      out[k] = place * 2;
      full = 0;
    }
  }
}

// The same within one warp: lane 1 waits for lane 0, and so on.
extern "C" __global__ void relay(volatile int* places) {
  const int i = threadIdx.x;
  if (i != 0) {
    while (places[i - 1] == 0) {
    }
    __threadfence();
  }
  places[i] = i == 0 ? 1 : places[i - 1] + i;
}
// And against the order of the lanes, with a pause.
extern "C" __global__ void relay_back(volatile int* places) {
  const int i = threadIdx.x;
  if (i + 1 != blockDim.x) {
    while (places[i + 1] == 0) __nanosleep(20);
  }
  places[i] = i + 1 == blockDim.x ? 1 : places[i + 1] + i;
}

// One lane holds a lock for its warp, over __syncwarp().
extern "C" __global__ void warp_lock(int* lock, volatile int* counter,
                                     int* sums) {
  const int lane = threadIdx.x % 32;
  if (lane == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
  }
  __syncwarp();
  const int before = *counter;
  __syncwarp();
  if (lane == 31) *counter = before + 32;
  const unsigned all = __ballot_sync(~0u, before % 32 == 0);
  if (lane == 5) sums[threadIdx.x / 32] = __popc(all);
  __syncwarp();
  if (lane == 0) {
    __threadfence();
    atomicExch(lock, 0);
  }
}

// Block 0 waits for all others, which come later.
extern "C" __global__ void last_blocks(volatile int* done, int* out) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      while (*done != gridDim.x - 1) {
      }
      *out = *done * 3;
    }
  } else if (threadIdx.x == 0) {
    atomicAdd(const_cast<int*>(done), 1);
  }
}

// --- What never ends.

extern "C" __global__ void lost_lock(int* lock) {
  if (threadIdx.x == 40) atomicExch(lock, 1);
  __syncthreads();
  while (atomicCAS(lock, 0, 1) != 0) {
  }
}
extern "C" __global__ void same_again(int* word) {
  while (atomicExch(word, 7) != 9) {
  }
}
extern "C" __global__ void lost_flag(const volatile int* flag, int* out) {
  int looked = 0;
  while (*flag == 0) ++looked;
  *out = looked;
}
// It gives up by itself, much later than others are given up.
extern "C" __global__ void with_a_timeout(const volatile int* flag,
                                          long long cycles, int* out) {
  const long long begin = clock64();
  while (*flag == 0 && clock64() - begin < cycles) {
  }
  *out = *flag == 0 ? 5 : 6;
}
