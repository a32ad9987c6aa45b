// What one instruction does, as data. It is the key under which the
// instruction's code is found.
#ifndef CARILLON_SIM_EXEC_SEMANTICS_H_
#define CARILLON_SIM_EXEC_SEMANTICS_H_

#include <cstdint>

#include "sim/ptx/module.h"

namespace carillon::sim {

// The operations of PTX ISA 9.7, one for each thing that an instruction can do
// to values.
enum class Operation : uint8_t {
  // Any type.
  kMove,
  kSelect,        // selp
  kSelectBySign,  // slct
  kSetPredicate,  // setp
  kSet,           // set
  kConvert,       // cvt
  kPack,          // mov {a, b}: the first is the least significant
  kUnpack,
  kReadSpecial,  // mov from %tid and its like; variant: Special
  kIsInSpace,    // isspacep; variant: MemorySpace
  // Numbers.
  kAdd,
  kSub,
  kMul,  // floats only
  kMulLow,
  kMulHigh,
  kMulWide,
  kMadLow,
  kMadHigh,
  kMadWide,
  kMul24Low,
  kMul24High,
  kMad24Low,
  kMad24High,
  kAddCarry,  // add.cc, addc, ...; variant: CarryUse
  kSubCarry,
  kMadLowCarry,
  kMadHighCarry,
  kSumOfDifferences,  // sad
  kDotProduct4,       // dp4a; variant: DotProductParts
  kDotProduct2,       // dp2a
  kDiv,
  kRem,
  kAbs,
  kNeg,
  kMin,
  kMax,
  // Bits.
  kAnd,
  kOr,
  kXor,
  kNot,
  kLogicalNot,  // cnot
  kShiftLeft,
  kShiftRight,
  kFunnelLeft,  // shf; variant: 1 wraps, 0 clamps
  kFunnelRight,
  kPermute,       // prmt; variant: PermuteMode
  kLogic3,        // lop3; variant: its truth table
  kExtractField,  // bfe
  kInsertField,   // bfi
  kReverseBits,
  kCountBits,
  kCountLeadingZeros,
  kFindLeadingBit,  // bfind; variant: 1 gives the shift amount
  kFindNthBit,      // fns
  kMakeMask,        // bmsk; variant: 1 wraps, 0 clamps
  kExtendBits,      // szext; variant: 1 wraps, 0 clamps
  // Floats.
  kFma,
  kDivApprox,
  kRcp,
  kSqrt,
  kRsqrt,
  kSin,
  kCos,
  kLog2,
  kExp2,
  kTanh,
  kCopySign,
  kTestProperty,  // testp; variant: FloatProperty
  // SIMD video instructions; variant: VideoBits, elements: the parts.
  kVideoAdd,
  kVideoSub,
  kVideoAverage,
  kVideoDifference,
  kVideoMin,
  kVideoMax,
  kVideoSet,
  // Memory.
  kLoad,
  kStore,
  kAtomic,  // variant: AtomicOperation
  kFence,
  kCopyAsync,   // cp.async; variant: bytes
  kCopyBulk,    // cp.async.bulk
  kCopyCommit,  // cp.async.commit_group
  kCopyWait,    // variant: groups that it does not wait for, or kCopyWaitAll
  kCopyArrive,  // cp.async.mbarrier.arrive; variant: 1 is .noinc
  kMbarrier,    // variant: MbarrierBits
  // Lanes of a warp among each other.
  kShuffle,  // variant: ShuffleMode
  kVote,     // variant: VoteMode
  kMatchAny,
  kMatchAll,
  kReduce,  // redux; variant: AtomicOperation
  kActiveMask,
  // Matrices in the registers of a warp.
  kLoadMatrix,     // ldmatrix; variant: MatrixBits
  kStoreMatrix,    // stmatrix; the same
  kTranspose,      // movmatrix
  kLoadFragment,   // wmma.load
  kStoreFragment,  // wmma.store
  kToTf32,         // cvt to tf32; variant: ToTf32, and kReluBit
  kMultiply,       // mma, wmma.mma; type: of A's elements
  // Control.
  kBranch,
  kCall,
  kReturn,
  kExit,
  kTrap,
  kBarrier,      // variant: BarrierMode
  kWarpBarrier,  // bar.warp.sync
  kSleep,
  kStack,    // variant: StackChange
  kNothing,  // a hint
};

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

// For floats, the ordered comparisons are false where there is a NaN.
enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNumbers,  // neither is a NaN
  kNan,
};
enum class Combine : uint8_t { kNone, kAnd, kOr, kXor };

enum CarryUse : uint8_t { kCarryIn = 1, kCarryOut = 2 };
// Which parts have signs, and whether dp2a takes the upper two bytes of b.
enum DotProductParts : uint8_t { kSignedA = 1, kSignedB = 2, kUpperB = 4 };
// Which types have signs, a's, b's and the result's; and .sat and .add.
enum VideoBits : uint8_t {
  kVideoSignedA = 1,
  kVideoSignedB = 2,
  kVideoSigned = 4,
  kVideoSaturate = 8,
  kVideoSum = 16
};
enum class PermuteMode : uint8_t {
  kSelector,
  kF4e,
  kB4e,
  kRc8,
  kEcl,
  kEcr,
  kRc16
};
enum class FloatProperty : uint8_t {
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal
};
enum class AtomicOperation : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareAndSwap,
  kIncrement,
  kDecrement
};
inline constexpr uint8_t kCopyWaitAll = 255;
// What an mbarrier instruction does, and how.
enum MbarrierBits : uint8_t {
  kMbarrierInit = 0,
  kMbarrierInvalidate = 1,
  kMbarrierExpect = 2,    // expect_tx
  kMbarrierComplete = 3,  // complete_tx
  kMbarrierArrive = 4,
  kMbarrierTest = 5,  // test_wait, try_wait
  kMbarrierPendingCount = 6,
  kMbarrierOperation = 7,  // the bits that say which
  kMbarrierDrop = 8,
  kMbarrierNoComplete = 16,
  kMbarrierParity = 32
};
enum class ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };
// How many matrices, and whether they are transposed on the way.
enum MatrixBits : uint8_t { kMatrixCount = 7, kMatrixTranspose = 8 };
enum class ToTf32 : uint8_t { kAway, kNearest, kZero };  // away: of ties
enum class VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
enum class StackChange : uint8_t { kAllocate, kSave, kRestore };
enum class BarrierMode : uint8_t { kSync, kArrive, kCount, kAnd, kOr };
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kGridId,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClock,
  kClockHi,
  kClock64,
  kGraphExec,
  kGlobalTimer,
  kGlobalTimerLo,
  kGlobalTimerHi,
  kDynamicSharedBytes,
  kTotalSharedBytes,
  kGridWorkspaceLow,  // Launch::grid_workspace
  kGridWorkspaceHigh,
  // The address of a local variable of the running function: Op::offset from
  // the start of its frame.
  kFrameAddress,
};

enum class MemorySpace : uint8_t {
  kGeneric,
  kGlobal,
  kConst,
  kShared,
  kLocal,
  kKernelParam
};
enum class MemoryOrder : uint8_t {
  kWeak,
  kRelaxed,
  kAcquire,
  kRelease,
  kAcquireRelease,
  kSequential
};
// The threads among which a memory operation orders others. A cluster is one
// block here. No instruction names a warp.
enum class MemoryScope : uint8_t { kWarp, kBlock, kGpu, kSystem };

struct Semantics {
  Operation operation = Operation::kNothing;
  ptx::Type type = ptx::Type::kB32;
  ptx::Type from = ptx::Type::kB32;  // cvt, set: of the source
  Rounding rounding = Rounding::kNearest;
  Compare compare = Compare::kEq;
  Combine combine = Combine::kNone;
  bool flush = false;     // .ftz
  bool saturate = false;  // .sat
  bool integral =
      false;  // cvt to a float of integral value (.rni and the like)
  bool keep_nan = false;  // min.NaN
  bool xor_sign = false;  // min.xorsign.abs
  bool relu = false;      // .relu
  uint8_t variant = 0;
  // The size of the registers that hold the result and, for cvt, the source.
  // They may be wider than the types.
  uint8_t register_bytes = 4;
  uint8_t from_bytes = 4;
  MemorySpace space = MemorySpace::kGeneric;
  MemoryOrder order = MemoryOrder::kWeak;
  uint8_t elements = 1;  // elements of a vector: 1, 2, 4
};

// Op::variant of cvt, of arithmetic that is not rounded to nearest, and of that
// on f16 and bf16 is its Rounding and these bits.
enum ModifierBits : uint8_t {
  kRoundingBits = 3,
  kFlushBit = 4,
  kSaturateBit = 8,
  kIntegralBit = 16,
  kReluBit = 32,
  kKeepNanBit = 64,
  kXorSignBit = 128,
};
uint8_t ModifierVariant(const Semantics& s);

// A whole number's type, and the register that holds it. A wider register
// repeats the sign in all upper bits.
struct WholeNumber {
  uint8_t bits = 0;
  bool is_signed = false;
  uint8_t register_bytes = 0;
};
// A cvt's result and source. `bits` is 0 if it is no whole number or does not
// fit into its register.
WholeNumber ConvertTo(const Semantics& s);
WholeNumber ConvertFrom(const Semantics& s);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_SEMANTICS_H_
