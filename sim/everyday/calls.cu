// Calls by address, for calls_test.cc.
#include <cstdint>

// --- Classes with virtual functions; each lane has an object of its own.

struct Shape {
  __device__ virtual int Area() const = 0;
  __device__ virtual int Edges() const { return 0; }
  __device__ int Both() const { return Area() * 100 + Edges(); }
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int s) : side(s) {}
  __device__ int Area() const override { return side * side; }
  __device__ int Edges() const override { return 4; }
};
struct Triangle : Shape {
  int base, height;
  __device__ Triangle(int b, int h) : base(b), height(h) {}
  __device__ int Area() const override { return base * height / 2; }
  __device__ int Edges() const override { return 3; }
};
struct Disk : Shape {
  int radius;
  __device__ explicit Disk(int r) : radius(r) {}
  __device__ int Area() const override { return 3 * radius * radius; }
};
union AnyShape {
  Square square;
  Triangle triangle;
  Disk disk;
  __device__ AnyShape() {}
};

extern "C" __global__ void shapes(int* out) {
  __shared__ unsigned char places[64 * sizeof(AnyShape)] alignas(16);
  const int i = threadIdx.x;
  void* const place = places + i * sizeof(AnyShape);
  const Shape* mine = nullptr;
  switch (i % 3) {
    case 0:
      mine = new (place) Square(i);
      break;
    case 1:
      mine = new (place) Triangle(i, i + 1);
      break;
    default:
      mine = new (place) Disk(i);
  }
  __syncthreads();
  // Another thread's object.
  const auto* other =
      reinterpret_cast<const Shape*>(places + (i ^ 5) * sizeof(AnyShape));
  out[i] = mine->Both() + other->Area() * 100000;
}

// --- Tables of functions.

using Binary = int (*)(int, int);
__device__ int Add(int a, int b) { return a + b; }
__device__ int Sub(int a, int b) { return a - b; }
__device__ int Mul(int a, int b) { return a * b; }
__device__ int Most(int a, int b) { return a > b ? a : b; }
__constant__ Binary constant_table[4] = {Add, Sub, Mul, Most};
__device__ Binary device_table[4] = {Most, Mul, Sub, Add};

// Lanes call different functions, meet, and sum what they got.
extern "C" __global__ void tables(const int* in, int* out) {
  const int i = threadIdx.x;
  int value = 0;
  for (int k = 0; k < 5; ++k) {
    value += constant_table[in[i + k] & 3](in[i], k);
    value ^= device_table[in[i + k] >> 2 & 3](value, in[k]);
  }
  for (int step = 16; step != 0; step /= 2) {
    value += __shfl_xor_sync(~0u, value, step);
  }
  out[i] = value;
}

// The host brings an address from one launch to another.
extern "C" __global__ void address_of(int which, Binary* out) {
  *out = constant_table[which];
}
extern "C" __global__ void call_address(Binary function, int* out) {
  const int i = threadIdx.x;
  if (i >= 7) out[i] = function(i, 3);
}

// --- Recursion by pointers, to a depth of each lane's own.

struct Walk {
  int (*step)(const Walk&, int);
  int (*turn)(const Walk&, int);
};
__device__ __noinline__ int Step(const Walk& walk, int n) {
  return n <= 0 ? 1 : 1 + walk.turn(walk, n - 1);
}
__device__ __noinline__ int Turn(const Walk& walk, int n) {
  return n <= 0 ? 1000 : 2 * walk.step(walk, n - 2) % 10007;
}
__device__ Walk walks[2] = {{Step, Turn}, {Turn, Step}};

extern "C" __global__ void recursion(int* out) {
  const int i = threadIdx.x;
  out[i] = walks[i & 1].step(walks[i & 1], i);
}

// Quicksort whose order is a function.
using Before = bool (*)(int, int);
__device__ bool Less(int a, int b) { return a < b; }
__device__ bool More(int a, int b) { return a > b; }
__device__ bool LastDigit(int a, int b) {
  return a % 10 != b % 10 ? a % 10 < b % 10 : a < b;
}
__device__ Before orders[3] = {Less, More, LastDigit};
__device__ __noinline__ void Sort(int* begin, int* end, Before before) {
  if (end - begin < 2) return;
  const int pivot = begin[(end - begin) / 2];
  int* left = begin;
  int* right = end - 1;
  while (left <= right) {
    while (before(*left, pivot)) ++left;
    while (before(pivot, *right)) --right;
    if (left > right) break;
    const int other = *left;
    *left++ = *right;
    *right-- = other;
  }
  Sort(begin, right + 1, before);
  Sort(left, end, before);
}
extern "C" __global__ void sorts(int* values, int count) {
  Sort(values + threadIdx.x * count, values + (threadIdx.x + 1) * count,
       orders[threadIdx.x % 3]);
}

// --- Mistakes.

struct Pair {
  int a, b;
};
__device__ int Swapped(Pair pair) { return pair.b * 1000 + pair.a; }
__device__ int (*swapped)(Pair) = Swapped;
extern "C" __global__ void wrong_prototype(int* out) {
  *out = reinterpret_cast<Binary>(swapped)(1, 2);
}
