// malloc() and free() of kernels, for heap_test.cc.
#include <cstdint>

struct Node {
  Node* next;
  int value;
};

// Each thread builds a list, turns it round, sums it and frees it.
extern "C" __global__ void lists(int* out, long long keep) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  Node* list = nullptr;
  for (int k = 0; k < i % 7; ++k) {
    auto* const node = static_cast<Node*>(malloc(sizeof(Node)));
    node->value = i * 10 + k;
    node->next = list;
    list = node;
  }
  Node* turned = nullptr;
  while (list != nullptr) {
    Node* const next = list->next;
    list->next = turned;
    turned = list;
    list = next;
  }
  int sum = 0;
  for (const Node* node = turned; node != nullptr; node = node->next) {
    sum = sum * 3 + node->value;
  }
  out[i] = sum;
  while (turned != nullptr && keep == 0) {
    Node* const next = turned->next;
    free(turned);
    turned = next;
  }
}

// A tree of objects with virtual destructors.
struct Value {
  __device__ virtual ~Value() {}
  __device__ virtual int Get() const = 0;
};
struct Number : Value {
  int value;
  __device__ explicit Number(int v) : value(v) {}
  __device__ int Get() const override { return value; }
};
struct Sum : Value {
  const Value *a, *b;
  int* ends;
  __device__ Sum(const Value* x, const Value* y, int* e)
      : a(x), b(y), ends(e) {}
  __device__ ~Sum() override {
    delete a;
    delete b;
    atomicAdd(ends, 1);
  }
  __device__ int Get() const override { return a->Get() + b->Get(); }
};
__device__ __noinline__ const Value* Tree(int depth, int seed, int* ends) {
  if (depth == 0) return new Number(seed);
  return new Sum(Tree(depth - 1, seed * 2, ends),
                 Tree(depth - 1, seed * 2 + 1, ends), ends);
}
extern "C" __global__ void trees(int* out, int* ends) {
  const Value* const tree = Tree(threadIdx.x % 5, threadIdx.x, ends);
  out[threadIdx.x] = tree->Get();
  delete tree;
}

// What one launch allocates, another one reads, and a third one frees.
extern "C" __global__ void give(int** where) {
  where[threadIdx.x] = new int[threadIdx.x + 1];
  for (int k = 0; k <= threadIdx.x; ++k) where[threadIdx.x][k] = k * k;
}
extern "C" __global__ void read(int** where, int* out) {
  int sum = 0;
  for (int k = 0; k <= threadIdx.x; ++k) sum += where[threadIdx.x][k];
  out[threadIdx.x] = sum;
}
extern "C" __global__ void take(int** where) { delete[] where[threadIdx.x]; }

// How many blocks the heap has room for.
extern "C" __global__ void fill(long long bytes, int* out, char** last) {
  int count = 0;
  while (char* const block = static_cast<char*>(malloc(bytes))) {
    block[bytes - 1] = 1;
    *last = block;
    ++count;
  }
  *out = count;
}

extern "C" __global__ void aligned(uint64_t* out) {
  const uint64_t align = uint64_t{16} << threadIdx.x % 6;
  void* const place = __nv_aligned_device_malloc(24, align);
  out[threadIdx.x] = reinterpret_cast<uint64_t>(place) % align;
  *static_cast<volatile int*>(place) = 1;
  free(place);
}

// --- Mistakes: one lane makes each.

extern "C" __global__ void mistakes(long long which, char* other, int* out) {
  auto* const place = static_cast<char*>(malloc(40));
  place[3] = 3;
  if (threadIdx.x != 9) return;
  char* volatile at = place;
  switch (which) {
    case 0:
      free(at);
      free(at);
      break;
    case 1:
      free(at + 16);
      break;
    case 2:
      free(other);
      break;
    case 3:
      free(at);
      *out = at[3];
      break;
    case 4:
      *out = at[40];
      break;
    case 5:
      at[48 * 64] = 1;
      break;
    case 6:
      at = static_cast<char*>(malloc(1ll << 40));
      at[2] = 1;
      break;
    default:
      free(nullptr);
      *out = 77;
  }
}

// --- alloca.

extern "C" __global__ void stacks(const int* in, int* out) {
  const int i = threadIdx.x;
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    const int count = in[i + round] % 20 + 1;
    auto* const values = static_cast<int*>(alloca(count * sizeof(int)));
    for (int k = 0; k < count; ++k) values[k] = k * i + round;
    for (int k = 0; k < count; ++k) sum = sum * 5 + values[count - 1 - k];
  }
  out[i] = sum;
}

__device__ __noinline__ int Below(int depth, volatile int* above) {
  if (depth == 0) return above[0];
  auto* const mine = static_cast<volatile int*>(alloca((depth % 4 + 1) * sizeof(int)));
  for (int k = 0; k <= depth % 4; ++k) mine[k] = above[0] + k + depth;
  const int got = Below(depth - 1, mine);
  // What this call has on its stack is as it was.
  int sum = got;
  for (int k = 0; k <= depth % 4; ++k) sum += mine[k] - above[0] - k - depth;
  return sum;
}
extern "C" __global__ void stacks_of_calls(int* out) {
  int mine[1] = {static_cast<int>(threadIdx.x)};
  int sum = 0;
  for (int k = 0; k < 3; ++k) sum = sum * 2 + Below(threadIdx.x % 11 + k, mine);
  out[threadIdx.x] = sum;
}

extern "C" __global__ void large_stack(int lane, long long bytes, int* out) {
  const long long mine = threadIdx.x == lane ? bytes : 64;
  auto* const place = static_cast<volatile int*>(alloca(mine));
  place[mine / 4 - 1] = 5;
  out[threadIdx.x] = place[mine / 4 - 1];
}
