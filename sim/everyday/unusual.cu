// Kernels as a stranger may write them, for unusual_test.cc.
#include <cooperative_groups.h>

#include <cstdint>
#include <cstdio>
namespace cg = cooperative_groups;

// visitor with virtual destructors
struct Visitor;
struct Expr {
  __device__ virtual ~Expr() {}
  __device__ virtual void Accept(Visitor& v) const = 0;
};
struct Const;
struct Add;
struct Mul;
struct Visitor {
  __device__ virtual ~Visitor() {}
  __device__ virtual void Visit(const Const&) = 0;
  __device__ virtual void Visit(const Add&) = 0;
  __device__ virtual void Visit(const Mul&) = 0;
};
struct Const : Expr {
  int v;
  __device__ Const(int x) : v(x) {}
  __device__ void Accept(Visitor& t) const override { t.Visit(*this); }
};
struct Add : Expr {
  Expr *a, *b;
  __device__ Add(Expr* x, Expr* y) : a(x), b(y) {}
  __device__ ~Add() override {
    delete a;
    delete b;
  }
  __device__ void Accept(Visitor& t) const override { t.Visit(*this); }
};
struct Mul : Expr {
  Expr *a, *b;
  __device__ Mul(Expr* x, Expr* y) : a(x), b(y) {}
  __device__ ~Mul() override {
    delete a;
    delete b;
  }
  __device__ void Accept(Visitor& t) const override { t.Visit(*this); }
};
struct Eval : Visitor {
  int r = 0;
  __device__ void Visit(const Const& c) override { r = c.v; }
  __device__ void Visit(const Add& x) override {
    x.a->Accept(*this);
    int l = r;
    x.b->Accept(*this);
    r += l;
  }
  __device__ void Visit(const Mul& x) override {
    x.a->Accept(*this);
    int l = r;
    x.b->Accept(*this);
    r *= l;
  }
};
struct Depth : Visitor {
  int d = 0, m = 0;
  __device__ void Visit(const Const&) override { m = max(m, d); }
  __device__ void Visit(const Add& x) override {
    ++d;
    x.a->Accept(*this);
    x.b->Accept(*this);
    --d;
  }
  __device__ void Visit(const Mul& x) override {
    ++d;
    x.a->Accept(*this);
    x.b->Accept(*this);
    --d;
  }
};
__device__ Expr* build(int n, int s) {
  if (n == 0) return new Const(s % 5 + 1);
  return (s + n) & 1
             ? (Expr*)new Add(build(n - 1, s * 3 + 1),
                              build((n - 1) / 2, s + 7))
             : (Expr*)new Mul(build((n - 1) / 2, s + 2), build(n - 1, s * 2));
}
extern "C" __global__ void visitors(unsigned* out) {
  int i = threadIdx.x;
  Expr* e = build(i % 7, i);
  Eval ev;
  e->Accept(ev);
  Depth d;
  e->Accept(d);
  out[i] = ev.r * 100 + d.m;
  delete e;
}

// lock-free stack (Treiber) with 64-bit tagged head
struct N2 {
  int next;
  int value;
};
extern "C" __global__ void lock_free_stack(unsigned* out, N2* pool,
                                           unsigned long long* head) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  pool[i].value = i * 3 + 1;
  unsigned long long old = *(volatile unsigned long long*)head, want;
  do {
    pool[i].next = (int)(old & 0xffffffff);
    __threadfence();
    want = ((old >> 32) + 1) << 32 | (unsigned)(i + 1);
    unsigned long long seen = atomicCAS(head, old, want);
    if (seen == old) break;
    old = seen;
  } while (true);
  // pop one
  old = *(volatile unsigned long long*)head;
  int got = 0;
  for (;;) {
    got = (int)(old & 0xffffffff);
    int next = ((volatile N2*)pool)[got - 1].next;
    want = ((old >> 32) + 1) << 32 | (unsigned)next;
    unsigned long long seen = atomicCAS(head, old, want);
    if (seen == old) break;
    old = seen;
  }
  atomicAdd(&out[0], (unsigned)pool[got - 1].value);
  atomicAdd(&out[1], 1u);
}
// hash map with per-bucket lock and malloc'ed chains
struct N3 {
  int key, count;
  N3* next;
};
extern "C" __global__ void hash_map(N3** table, int* locks) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int key = (i * 37) % 50;
  int b = key % 8;
  bool done = false;
  while (!done) {
    if (atomicCAS(&locks[b], 0, 1) == 0) {
      __threadfence();
      N3* n = ((N3* volatile*)table)[b];
      while (n && n->key != key) n = n->next;
      if (n)
        n->count++;
      else {
        n = (N3*)malloc(sizeof(N3));
        n->key = key;
        n->count = 1;
        n->next = ((N3* volatile*)table)[b];
        ((N3* volatile*)table)[b] = n;
      }
      __threadfence();
      done = true;
      atomicExch(&locks[b], 0);
    }
  }
}
extern "C" __global__ void read_map(unsigned* out, N3** table) {
  for (int b = 0; b < 8; ++b)
    for (N3* n = table[b]; n;) {
      out[n->key] = n->count;
      N3* x = n->next;
      free(n);
      n = x;
    }
}
// dining philosophers w/ ordered locks within warp
extern "C" __global__ void philosophers(unsigned* out, int* forks) {
  int i = threadIdx.x, n = blockDim.x;
  int a = i, b = (i + 1) % n;
  int lo = min(a, b), hi = max(a, b);
  for (int r = 0; r < 3; ++r) {
    while (atomicExch(&forks[lo], 1))
      ;
    while (atomicExch(&forks[hi], 1)) __nanosleep(10);
    __threadfence();
    volatile unsigned* const eaten = out;
    eaten[a] = eaten[a] + 1;
    eaten[b] = eaten[b] + 1;
    __threadfence();
    atomicExch(&forks[hi], 0);
    atomicExch(&forks[lo], 0);
  }
}
// last-block reduction + decoupled lookback scan
extern "C" __global__ void look_back(unsigned* out, unsigned* flags,
                                     unsigned* agg, unsigned* incl) {
  __shared__ unsigned s[64];
  __shared__ unsigned prev;
  int t = threadIdx.x, b = blockIdx.x;
  unsigned v = (b * 64 + t) % 7;
  s[t] = v;
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    unsigned x = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += x;
    __syncthreads();
  }
  if (t == 0) {
    ((volatile unsigned*)agg)[b] = s[63];
    __threadfence();
    ((volatile unsigned*)flags)[b] = 1;
    unsigned p = 0;
    for (int q = b - 1; q >= 0; --q) {
      unsigned f;
      while ((f = ((volatile unsigned*)flags)[q]) == 0)
        ;
      __threadfence();
      if (f == 2) {
        p += ((volatile unsigned*)incl)[q];
        break;
      }
      p += ((volatile unsigned*)agg)[q];
    }
    ((volatile unsigned*)incl)[b] = p + s[63];
    __threadfence();
    ((volatile unsigned*)flags)[b] = 2;
    prev = p;
  }
  __syncthreads();
  out[b * 64 + t] = prev + s[t];
}
// reverse look-back: waits on later blocks
extern "C" __global__ void look_ahead(unsigned* out, unsigned* flags) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    if (b + 1 < gridDim.x)
      while (((volatile unsigned*)flags)[b + 1] == 0)
        ;
    __threadfence();
    out[b] = (b + 1 < gridDim.x ? ((volatile unsigned*)out)[b + 1] : 0) + b;
    __threadfence();
    ((volatile unsigned*)flags)[b] = 1;
  }
}
// grid-wide with two grid.sync and warp-divergent work
extern "C" __global__ void divided_grid(unsigned* out, unsigned* tmp) {
  auto g = cg::this_grid();
  unsigned i = g.thread_rank();
  unsigned x = i;
  if (i % 3)
    for (unsigned k = 0; k < i % 17; ++k) x = x * 5 + k;
  tmp[i] = x;
  g.sync();
  unsigned y = tmp[(i * 7 + 1) % g.size()];
  g.sync();
  tmp[i] = y ^ 5;
  g.sync();
  out[i] = tmp[g.size() - 1 - i];
}
// function pointer state machine in shared memory
typedef int (*State)(int&);
__device__ int sA(int& x);
__device__ int sB(int& x);
__device__ int sC(int& x);
__device__ State states[3] = {sA, sB, sC};
__device__ int sA(int& x) {
  x += 3;
  return x % 2 ? 1 : 2;
}
__device__ int sB(int& x) {
  x *= 2;
  return x > 300 ? -1 : 0;
}
__device__ int sC(int& x) {
  x -= 1;
  return x > 300 ? -1 : (x % 3 ? 0 : 1);
}
extern "C" __global__ void state_machine(unsigned* out) {
  __shared__ State sh[3];
  if (threadIdx.x < 3) sh[threadIdx.x] = states[threadIdx.x];
  __syncthreads();
  int x = threadIdx.x, s = threadIdx.x % 3, n = 0;
  while (s >= 0 && n < 200) {
    s = sh[s](x);
    ++n;
  }
  out[threadIdx.x] = x * 1000 + n;
}
// lambda via function object & recursion Y-comb; std::function-like
extern "C" __global__ void fibonacci(unsigned* out) {
  auto fib = [](auto& self, int n) -> int {
    return n < 2 ? n : self(self, n - 1) + self(self, n - 2);
  };
  out[threadIdx.x] = fib(fib, threadIdx.x % 12);
}
// multiple inheritance & dynamic thunk
struct P {
  int p;
  __device__ virtual int f() { return p; }
  __device__ virtual ~P() {}
};
struct Q {
  int q;
  __device__ virtual int g() { return q * 10; }
  __device__ virtual ~Q() {}
};
struct PQ : P, Q {
  __device__ int f() override { return p + q; }
  __device__ int g() override { return p * q; }
};
extern "C" __global__ void two_bases(unsigned* out) {
  int i = threadIdx.x;
  Q* q;
  P* p;
  if (i & 1) {
    PQ* x = new PQ;
    x->p = i;
    x->q = i + 1;
    q = x;
    p = x;
  } else {
    q = new Q;
    q->q = i;
    p = new P;
    p->p = i * 2;
  }
  out[i] = q->g() * 1000 + p->f();
  if (i & 1)
    delete q;
  else {
    delete q;
    delete p;
  }
}
// queue with per-warp aggregated atomics (coalesced_threads)
extern "C" __global__ void group_queue(unsigned* out, unsigned* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 5 == 2 || i % 7 == 1) {
    auto g = cg::coalesced_threads();
    unsigned base;
    if (g.thread_rank() == 0) base = atomicAdd(count, g.size());
    base = g.shfl(base, 0);
    out[base + g.thread_rank()] = i;
  }
}
// merge sort with alloca buffers, recursive
__device__ __noinline__ void msort(unsigned* a, int n) {
  if (n < 2) return;
  int h = n / 2;
  msort(a, h);
  msort(a + h, n - h);
  unsigned* t = (unsigned*)alloca(n * 4);
  int i = 0, j = h, k = 0;
  while (i < h && j < n) t[k++] = a[i] <= a[j] ? a[i++] : a[j++];
  while (i < h) t[k++] = a[i++];
  while (j < n) t[k++] = a[j++];
  for (k = 0; k < n; ++k) a[k] = t[k];
}
extern "C" __global__ void merge_sort(unsigned* out) {
  unsigned* a = out + threadIdx.x * 50;
  for (int i = 0; i < 50; ++i)
    a[i] = (i * 7919u + threadIdx.x * 104729u) % 1000;
  msort(a, 30 + threadIdx.x % 21);
}
// reader-writer lock
extern "C" __global__ void readers(unsigned* out, int* rw,
                                   volatile unsigned* data) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i % 9 == 0) {
    while (atomicCAS(rw, 0, -1) != 0)
      ;
    __threadfence();
    unsigned v = data[0];
    data[0] = v + 1;
    data[1] = (v + 1) * 2;
    __threadfence();
    atomicExch(rw, 0);
  } else {
    for (;;) {
      int r = *(volatile int*)rw;
      if (r >= 0 && atomicCAS(rw, r, r + 1) == r) break;
    }
    __threadfence();
    unsigned a = data[0], b = data[1];
    if (b != 2 * a) atomicAdd(out, 1u);
    atomicSub(rw, 1);
    atomicAdd(out + 1, 1u);
  }
}
// barrier implemented by hand with sense reversal across blocks (atomics), cooperative not used
extern "C" __global__ void own_barrier(unsigned* out, unsigned* bar) {
  for (int r = 0; r < 3; ++r) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      unsigned sense = ((volatile unsigned*)bar)[1];
      if (atomicAdd(bar, 1) == gridDim.x - 1) {
        bar[0] = 0;
        __threadfence();
        atomicAdd(bar + 1, 1);
      } else
        while (((volatile unsigned*)bar)[1] == sense)
          ;
      __threadfence();
    }
    __syncthreads();
    unsigned x =
        ((volatile unsigned*)
             out)[((blockIdx.x + r + 1) % gridDim.x) * 32 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      unsigned sense = ((volatile unsigned*)bar)[1];
      if (atomicAdd(bar, 1) == gridDim.x - 1) {
        bar[0] = 0;
        __threadfence();
        atomicAdd(bar + 1, 1);
      } else
        while (((volatile unsigned*)bar)[1] == sense)
          ;
    }
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] += x + 1;
  }
}
// weak-load spin w/ threadfence
extern "C" __global__ void plain_spin(unsigned* out, unsigned* flag) {
  if (threadIdx.x == 5) {
    for (int i = 0; i < 100; ++i) out[i] = i;
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) __threadfence();
    atomicAdd(out + 100, out[threadIdx.x]);
  }
}
// printf in diverged + malloc string
extern "C" __global__ void prints(unsigned* out) {
  if (threadIdx.x % 11 == 3) {
    char* s = (char*)malloc(8);
    s[0] = 'a' + threadIdx.x % 26;
    s[1] = 'z';
    s[2] = 0;
    printf("%s %d\n", s, threadIdx.x);
    free(s);
    out[0] = 1;
  }
}
// tail-recursive shuffles
__device__ __noinline__ int tr(int n, int v) {
  if (n <= 0) return v;
  v += __shfl_xor_sync(~0u, v, n & 31);
  return tr(n - 1, v);
}
extern "C" __global__ void tail_shuffles(unsigned* out) {
  out[threadIdx.x] = tr(9, threadIdx.x);
}
// divergent loop trip count with syncwarp each iteration on shrinking mask
extern "C" __global__ void shrinking_mask(unsigned* out) {
  __shared__ volatile unsigned s[32];
  int i = threadIdx.x;
  s[i] = i;
  __syncwarp();
  unsigned m = ~0u;
  for (int k = 0; k <= i; ++k) {
    unsigned v = s[(i + 1) % 32 >= k ? (i + 1) % 32 : i];
    __syncwarp(m);
    s[i] = s[i] + v;
    m = __ballot_sync(m, k < i);
  }
  out[i] = s[i];
}
