// ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store (PTX ISA 9.7.14).
#include <algorithm>
#include <array>
#include <cstring>

#include "fmt/format.h"
#include "sim/exec/matrix.h"
#include "sim/exec/operations/access.h"
#include "sim/exec/weak_memory.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// A matrix of 8 rows of 8 elements of 16 bits: a lane's register has two of a
// row, one beside the other.
using Matrix = std::array<std::array<uint16_t, 8>, 8>;
constexpr uint32_t kRowBytes = 16;

uint32_t Pair(const Matrix& m, uint32_t lane, bool transposed) {
  const uint32_t row = lane / 4;
  const uint32_t column = lane % 4 * 2;
  const uint32_t first = transposed ? m[column][row] : m[row][column];
  const uint32_t second = transposed ? m[column + 1][row] : m[row][column + 1];
  return first | second << 16;
}
void SetPair(Matrix& m, uint32_t lane, bool transposed, uint32_t pair) {
  const uint32_t row = lane / 4;
  const uint32_t column = lane % 4 * 2;
  (transposed ? m[column][row] : m[row][column]) = static_cast<uint16_t>(pair);
  (transposed ? m[column + 1][row] : m[row][column + 1]) =
      static_cast<uint16_t>(pair >> 16);
}

// Lanes 8 i and up have the addresses of matrix i's rows.
bool ResolveRows(const Op& op, Warp& warp, uint32_t count, bool store) {
  const LaneMask lanes = count == 4 ? kAllLanes : (1u << 8 * count) - 1;
  if (!Resolve(op, warp, lanes, kRowBytes, store, false)) return false;
  if (warp.core().access.space == MemorySpace::kShared) return true;
  warp.Fail(op, lanes, "the rows lie in shared memory");
  return false;
}

void LoadMatrix(const Op& op, Warp& warp, LaneMask /*mask*/) {
  const uint32_t count = op.variant & kMatrixCount;
  const bool transposed = (op.variant & kMatrixTranspose) != 0;
  if (!ResolveRows(op, warp, count, false)) return;
  for (uint32_t i = 0; i < count; ++i) {
    if (op.operands[i].is_constant()) continue;  // "_"
    Matrix matrix;
    for (uint32_t row = 0; row < 8; ++row) {
      std::memcpy(matrix[row].data(), warp.core().At(8 * i + row), kRowBytes);
    }
    uint32_t* const to = warp.To<uint32_t>(op.operands[i]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      to[lane] = Pair(matrix, lane, transposed);
    }
  }
}

void StoreMatrix(const Op& op, Warp& warp, LaneMask /*mask*/) {
  const uint32_t count = op.variant & kMatrixCount;
  const bool transposed = (op.variant & kMatrixTranspose) != 0;
  if (!ResolveRows(op, warp, count, true)) return;
  warp.Wrote();
  for (uint32_t i = 0; i < count; ++i) {
    Matrix matrix;
    const uint32_t* const from = warp.From<uint32_t>(op.operands[i]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      SetPair(matrix, lane, transposed, from[lane]);
    }
    for (uint32_t row = 0; row < 8; ++row) {
      std::memcpy(warp.core().At(8 * i + row), matrix[row].data(), kRowBytes);
    }
  }
}

void Transpose(const Op& op, Warp& warp, LaneMask /*mask*/) {
  Matrix matrix;
  const uint32_t* const from = warp.From<uint32_t>(op.operands[1]);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    SetPair(matrix, lane, false, from[lane]);
  }
  uint32_t* const to = warp.To<uint32_t>(op.operands[0]);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    to[lane] = Pair(matrix, lane, true);
  }
}

// --- wmma.load and wmma.store.

// Where a fragment lies in memory.
struct Layout {
  uint64_t address = 0;
  uint64_t stride = 0;  // bytes from one row, or column, to the next
  uint32_t lines = 0;   // rows, or columns
  uint32_t line_bytes = 0;
};

// Returns false after reporting a fault: PTX leaves undefined what happens where
// lanes disagree, or where addresses are not aligned.
bool FindLayout(const Op& op, Warp& warp, const MatrixOperands& matrices,
                Layout& layout) {
  const Fragment& fragment = matrices.d;
  const auto address_of = [&](uint32_t lane) {
    const Slot slot = op.operands[kAddress];
    const auto offset = static_cast<uint64_t>(op.offset);
    return op.address_bytes == 4
               ? uint64_t{static_cast<uint32_t>(
                     warp.From<uint32_t>(slot)[lane] + offset)}
               : warp.From<uint64_t>(slot)[lane] + offset;
  };
  const uint32_t* const strides = warp.From<uint32_t>(op.operands[0]);
  for (uint32_t lane = 1; lane < kLanes; ++lane) {
    if (address_of(lane) == address_of(0) && strides[lane] == strides[0]) {
      continue;
    }
    warp.Fail(op, LaneMask{1} << lane,
              fmt::format("address {:#x} and stride {}, where lane 0 has {:#x} "
                          "and {}",
                          address_of(lane), strides[lane], address_of(0),
                          strides[0]));
    return false;
  }
  const uint32_t bytes = BitsOf(fragment.type) / 8;
  layout.address = address_of(0);
  layout.stride = uint64_t{strides[0]} * bytes;
  layout.lines = matrices.column_major ? fragment.columns : fragment.rows;
  layout.line_bytes =
      bytes * (matrices.column_major ? fragment.rows : fragment.columns);
  // Less than the PTX ISA and mma.h ask for: tiles of 8 columns of .f16, which
  // GPUs load as well, begin at any multiple of 16 bytes.
  const uint32_t aligned = std::min(fragment.elements() * bytes, 16u);
  if (layout.address % aligned != 0 || layout.stride % aligned != 0) {
    warp.Fail(
        op, kAllLanes,
        fmt::format("address {:#x} and a stride of {} bytes: both must be "
                    "multiples of {}",
                    layout.address, layout.stride, aligned));
    return false;
  }
  return true;
}

// What a model of time sees: pieces of up to 32 bytes, as many as there are
// lanes.
void SetAccess(const Layout& layout, Core& core, bool store) {
  Access& access = core.access;
  const uint32_t bytes = layout.lines * layout.line_bytes / kLanes;
  const uint32_t pieces = layout.line_bytes / bytes;
  access.store = store;
  access.bytes = bytes;
  access.mask = kAllLanes;
  for (uint32_t i = 0; i < kLanes; ++i) {
    access.address[i] =
        (layout.address + i / pieces * layout.stride + i % pieces * bytes) &
        ~uint64_t{bytes - 1};
  }
}

// Calls each(element, place) where element i of all lanes has been found:
// place(lane) is where it lies in the host's memory.
template <class F>
bool ForElements(const Op& op, Warp& warp, const MatrixOperands& matrices,
                 bool store, F each) {
  const Fragment& fragment = matrices.d;
  Layout layout;
  if (!FindLayout(op, warp, matrices, layout)) return false;
  const uint32_t bytes = BitsOf(fragment.type) / 8;
  Core& core = warp.core();
  uint64_t in_space = 0;  // what is added to addresses
  for (uint32_t i = 0; i < fragment.elements(); ++i) {
    std::array<uint64_t, kLanes> addresses;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t place = fragment.places[size_t{i} * kLanes + lane];
      const uint32_t row = place / fragment.columns;
      const uint32_t column = place % fragment.columns;
      addresses[lane] =
          layout.address +
          (matrices.column_major ? column : row) * layout.stride +
          (matrices.column_major ? row : column) * uint64_t{bytes};
    }
    if (!ResolveAt(op, warp, addresses, bytes, store)) return false;
    in_space = core.access.address[0] - addresses[0];
    each(i);
    if (store && core.weak != nullptr) core.weak->PutStaged(bytes, 1);
  }
  layout.address += in_space;
  SetAccess(layout, core, store);
  return true;
}

template <class T>
T Read(const std::byte* from) {
  return __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_RELAXED);
}

// Calls f(T) with the unsigned type of an element's size.
template <class F>
void WithElements(const Fragment& fragment, F f) {
  switch (BitsOf(fragment.type)) {
    case 8:
      return f(uint8_t{});
    case 16:
      return f(uint16_t{});
    case 32:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

void LoadFragment(const Op& op, Warp& warp, LaneMask /*mask*/) {
  const MatrixOperands& matrices = warp.launch().program->matrices[op.target];
  const Fragment& fragment = matrices.d;
  WithElements(fragment, [&]<class T>(T) {
    using Register = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const uint32_t per = fragment.elements_of_register();
    // The address's register may be among the results.
    std::array<std::array<Register, kLanes>, 8> values{};
    const bool done = ForElements(op, warp, matrices, false, [&](uint32_t i) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        values[i / per][lane] |= Register{Read<T>(warp.core().At(lane))}
                                 << 8 * sizeof(T) * (i % per);
      }
    });
    if (!done) return;
    for (uint32_t r = 0; r < fragment.registers; ++r) {
      if (fragment.slots[r].is_constant()) continue;  // "_"
      std::copy_n(values[r].begin(), kLanes,
                  warp.To<Register>(fragment.slots[r]));
    }
  });
}

void StoreFragment(const Op& op, Warp& warp, LaneMask /*mask*/) {
  const MatrixOperands& matrices = warp.launch().program->matrices[op.target];
  const Fragment& fragment = matrices.d;
  warp.Wrote();
  WithElements(fragment, [&]<class T>(T) {
    using Register = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const uint32_t per = fragment.elements_of_register();
    ForElements(op, warp, matrices, true, [&](uint32_t i) {
      const Register* const from = warp.From<Register>(fragment.slots[i / per]);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        __atomic_store_n(
            reinterpret_cast<T*>(warp.core().At(lane)),
            static_cast<T>(from[lane] >> 8 * sizeof(T) * (i % per)),
            __ATOMIC_RELAXED);
      }
    });
  });
}

}  // namespace

Handler FindFragments(const Semantics& s) {
  switch (s.operation) {
    case Operation::kLoadMatrix:
      return &LoadMatrix;
    case Operation::kStoreMatrix:
      return &StoreMatrix;
    case Operation::kTranspose:
      return &Transpose;
    case Operation::kLoadFragment:
      return &LoadFragment;
    case Operation::kStoreFragment:
      return &StoreFragment;
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
