#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "gpu_daemon/backends/cuda/driver/sliced_ptx_test_util.h"
#include "kernels/simt/event_frame.h"
#include "sim/exec/functional.h"
#include "sim/lower/lower.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string GridsPtx() {
  auto text = ReadFile("gpu_daemon/backends/cuda/driver/testdata/grids.ptx",
                       "the test's kernels");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// What nvcc made of grids.cu, whole and in slices, on the simulated GPU.
class GridsTest : public testing::Test {
 protected:
  static constexpr uint32_t kThreads = 32;
  static constexpr uint32_t kWords = 4096;

  void SetUp() override {
    const auto made = MakeSlicedPtx(GridsPtx());
    ASSERT_TRUE(made.ok()) << made.status();
    auto module = sim::ptx::ParseModule(made->text, "grids.ptx");
    ASSERT_TRUE(module.ok()) << module.status();
    auto program = sim::Lower(
        std::make_shared<const sim::ptx::Module>(*std::move(module)), &memory_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
    out_ = *memory_.Allocate(kWords * sizeof(uint32_t), "out");
  }
  // Adds to what is there.
  void Run(const std::string& kernel, const simt::Dim3& grid,
           const simt::GridPart* part) {
    sim::Launch launch{.program = program_.get(),
                       .kernel = program_->FindEntry(kernel),
                       .grid = {grid.x, grid.y, grid.z},
                       .block = {kThreads, 1, 1},
                       .dynamic_shared_bytes = kThreads * sizeof(uint32_t)};
    ASSERT_NE(launch.kernel, nullptr) << kernel;
    const sim::ptx::Function& source = *launch.kernel->source;
    launch.parameters.resize(source.ParameterBytes());
    std::memcpy(launch.parameters.data(), &out_, sizeof(out_));
    const size_t own = source.parameters.size() - (part != nullptr ? 1 : 0);
    if (own == 2) {
      std::memcpy(launch.parameters.data() + source.ParameterOffset(1), &kWords,
                  sizeof(kWords));
    }
    if (part != nullptr) {
      std::memcpy(launch.parameters.data() + source.ParameterOffset(own), part,
                  sizeof(*part));
    }
    sim::FunctionalGpu gpu(&memory_, {});
    const auto result = gpu.Run(launch);
    ASSERT_TRUE(result.ok()) << result.status();
  }
  std::vector<uint32_t> TakeOut() {
    std::vector<uint32_t> words(kWords);
    const auto bytes = *memory_.At(out_, kWords * sizeof(uint32_t));
    std::memcpy(words.data(), bytes.data(), bytes.size());
    std::memset(bytes.data(), 0, bytes.size());
    return words;
  }

  sim::Memory memory_;
  std::shared_ptr<const sim::Program> program_;
  sim::DeviceAddress out_ = 0;
};

TEST_F(GridsTest, InSlicesComputeWhatWholeOnesDo) {
  const simt::Dim3 grids[] = {{1, 1, 1}, {37, 1, 1}, {5, 7, 1},
                              {3, 4, 5}, {1, 1, 9},  {1, 6, 2}};
  for (const char* kernel : {"strides", "turned", "cells", "calls", "by_call",
                             "last_one", "counts"}) {
    for (const simt::Dim3& grid : grids) {
      TakeOut();
      ASSERT_NO_FATAL_FAILURE(Run(kernel, grid, nullptr));
      const std::vector<uint32_t> whole = TakeOut();
      EXPECT_NE(whole, std::vector<uint32_t>(kWords)) << kernel;
      for (const uint64_t most : {1, 3, 16}) {
        for (uint64_t next = 0; next < grid.count();) {
          const GridSlice slice = NextSlice(grid, next, most);
          const simt::GridPart part{slice.first, grid};
          ASSERT_NO_FATAL_FAILURE(
              Run(std::string(kSlicePrefix) + kernel, slice.size, &part));
          next += slice.blocks();
        }
        EXPECT_EQ(TakeOut(), whole)
            << kernel << ", " << grid.x << "x" << grid.y << "x" << grid.z
            << " in slices of " << most;
      }
    }
  }
}

TEST(SlicedPtxTest, WhatIsRewrittenHasTheSameInstructionsButForItsReads) {
  const std::string ptx = GridsPtx();
  const auto made = MakeSlicedPtx(ptx);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(SlicedPtxCheck::WhatIsWrong(ptx, *made), "");
  EXPECT_TRUE(made->text.starts_with(ptx)) << "the user's own text stays";
  ASSERT_EQ(made->whole.size(), 2u);
  EXPECT_EQ(made->whole.at("stateful").what, "it may change 'total'");
  EXPECT_EQ(made->whole.at("asserts").what, "it calls __assertfail");
}

std::string Module(const std::string& text) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + text;
}
std::string Entry(const std::string& body, const std::string& list = "()") {
  return Module(".visible .entry k" + list +
                "\n{\n.reg .b32 %r<9>;\n"
                ".reg .b16 %h;\n.reg .b64 %l;\n.reg .pred %p;\n" +
                body + "\nret;\n}\n");
}
SlicedPtx Made(const std::string& ptx) {
  auto made = MakeSlicedPtx(ptx);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  EXPECT_EQ(SlicedPtxCheck::WhatIsWrong(ptx, *made), "");
  return *std::move(made);
}
// What follows the original.
std::string Version(const std::string& ptx) {
  return Made(ptx).text.substr(ptx.size());
}

TEST(SlicedPtxTest, ReadsInCommentsAndStringsAreNone) {
  const std::string version = Version(Entry(
      "// mov.u32 %r1, %ctaid.x;\n/* %nctaid.y { */ .pragma \"%ctaid.z }\";\n"
      "mov.u32 %r1, /* %ctaid.x */ %ctaid.y; // %ctaid.y"));
  EXPECT_THAT(version, HasSubstr("// mov.u32 %r1, %ctaid.x;\n"));
  EXPECT_THAT(version, HasSubstr(".pragma \"%ctaid.z }\";"));
  EXPECT_THAT(version,
              HasSubstr("/* %ctaid.x */ %carillon_slice_1; // %ctaid.y"));
  EXPECT_THAT(version, Not(HasSubstr("%carillon_slice_0")));
}

TEST(SlicedPtxTest, AVectorOfTheGridIsMovedInParts) {
  const std::string version =
      Version(Entry("setp.eq.u32 %p, %r0, 0;\n"
                    "@!%p mov.v4.u32 {%r1, _, %r3, %r4}, %ctaid;\n"
                    "mov.v4.b32 {%r5, %r6, %r7, _}, %nctaid;"));
  EXPECT_THAT(version, HasSubstr("@!%p mov.u32 %r1, %carillon_slice_0;\n"
                                 "\t@!%p mov.u32 %r3, %carillon_slice_2;\n"
                                 "\t@!%p mov.u32 %r4, 0;"));
  EXPECT_THAT(version, HasSubstr("mov.b32 %r7, %carillon_slice_5;"));
}

TEST(SlicedPtxTest, TheParameterIsTheLastWhateverTheListIs) {
  for (const auto& [list, becomes] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "k(.param .align 8 .b8 carillon_part_args[24])"},
           {"()", "k(.param .align 8 .b8 carillon_part_args[24])"},
           {"(.param .u32 a)",
            "k(.param .u32 a, .param .align 8 .b8 carillon_part_args[24])"}}) {
    EXPECT_THAT(Version(Entry("", list)), HasSubstr(becomes)) << list;
  }
}

// Bodies of k, and why it has no version.
TEST(SlicedPtxTest, WhatCannotBeRewrittenIsLeftWithTheReason) {
  const struct {
    std::string body;
    WholeReason reason;
    std::string what;
  } cases[] = {
      {"mov.u32 %r1, %clusterid.x;", WholeReason::kGridWide,
       "it reads %clusterid.x"},
      {"mov.u32 %r1, %cluster_ctarank;", WholeReason::kGridWide,
       "it reads %cluster_ctarank"},
      {"mov.u64 %l, %gridid;", WholeReason::kGridWide, "it reads %gridid"},
      {"mov.b32 %r1, %envreg2;", WholeReason::kGridWide, "it reads %envreg2"},
      {"mov.u32 %r1, %new_in_some_ptx;", WholeReason::kUnknownPtx,
       "it reads %new_in_some_ptx"},
      {"mov.u32 %r1, %ctaid.w;", WholeReason::kUnknownPtx, "it reads %ctaid.w"},
      {"clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %l;",
       WholeReason::kGridWide,
       "it has clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"},
      {"tex.2d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%l, {%ctaid.x, %r1}];",
       WholeReason::kUnknownPtx, "it reads %ctaid.x by tex.2d.v4.f32.s32"},
      {"tex.2d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%l, {%new.x, %r1}];",
       WholeReason::kUnknownPtx, "it reads %new.x by tex.2d.v4.f32.s32"},
      {"mov.u16 %h, %ctaid.x;", WholeReason::kUnknownPtx,
       "it reads %ctaid.x by mov.u16"},
      {"add.u32 %r1, %ctaid.x, %r2;", WholeReason::kUnknownPtx,
       "it reads %ctaid.x by add.u32"},
      {"mov.u32 %r1, %ctaid;", WholeReason::kUnknownPtx,
       "it reads %ctaid by mov.u32"},
      {".global .b32 once;", WholeReason::kUnknownPtx,
       "the variable 'once' is in its body"},
  };
  for (const auto& [body, reason, what] : cases) {
    const SlicedPtx made = Made(Entry(body));
    ASSERT_TRUE(made.whole.contains("k")) << body;
    EXPECT_EQ(made.whole.at("k").reason, reason) << body;
    EXPECT_EQ(made.whole.at("k").what, what);
  }
  EXPECT_TRUE(Made(Entry("cvt.u64.u32 %l, %ctaid.x;\nmov.u32 %r1, %tid.x;\n"
                         "mov.u32 %r2, %smid;\n"
                         "tex.2d.v4.f32.s32 {%r1, %r2, %r3, %r4}, "
                         "[%l, {%tid.x, %r8}];"))
                  .whole.empty());
}

TEST(SlicedPtxTest, CallsDecideByWhatTheyMayReach) {
  const std::string head =
      ".extern .func vprintf(.param .b64 a, .param .b64 b);\n"
      ".extern .func other();\n"
      ".func reads() { .reg .b32 %r; mov.u32 %r, %ctaid.x; ret; }\n"
      ".func deeper() { call reads, (); ret; }\n"
      ".func syncs() { .reg .b32 %r; mov.b32 %r, %envreg1; ret; }\n";
  const std::string by_address =
      ".reg .b64 %f;\nproto: .callprototype _ ();\ncall %f, (), proto;\n";
  const auto entry = [](const std::string& name, const std::string& body) {
    return ".visible .entry " + name + "()\n{\n" + body + "ret;\n}\n";
  };
  const SlicedPtx made = Made(Module(
      head + entry("calls", "call deeper, ();\n") +
      entry("foreign", "call other, ();\n") +
      entry("by_sync", "call syncs, ();\n") + entry("by_address", by_address)));
  EXPECT_EQ(made.whole.at("foreign").what, "it calls other");
  EXPECT_EQ(made.whole.at("by_sync").what, "it reads %envreg1");
  EXPECT_EQ(made.whole.at("by_address").what, "it calls by address");
  EXPECT_EQ(made.whole.size(), 3u);
  EXPECT_THAT(made.text, HasSubstr("call carillon_slice_deeper, ();"));
  EXPECT_THAT(made.text, HasSubstr("call carillon_slice_reads, ();"));
  EXPECT_THAT(made.text, Not(HasSubstr("carillon_slice_syncs")));
}

std::string EntryNamed(const std::string& name, const std::string& body) {
  return ".visible .entry " + name + "()\n{\n" + body + "ret;\n}\n";
}
constexpr char kReads[] =
    ".func reads() { .reg .b32 %r; mov.u32 %r, %ctaid.x; ret; }\n";

TEST(SlicedPtxTest, AKernelThatIsCalledIsNotUnderstood) {
  const SlicedPtx made =
      Made(Module(EntryNamed("k", "") + EntryNamed("other", "call k, ();\n")));
  ASSERT_EQ(made.whole.size(), 1u);
  EXPECT_EQ(made.whole.at("other").what, "it calls the kernel k");
}

// Of functions that read the grid, both are in shared memory.
TEST(SlicedPtxTest, FullSharedMemoryHasNoRoomForTheGridOfCalls) {
  const auto body = [](int bytes, const char* call) {
    return ".shared .align 16 .b8 mine[" + std::to_string(bytes) + "];\n" +
           call;
  };
  const auto with = [&](const std::string& shared) {
    return Made(Module(shared + kReads +
                       EntryNamed("full", body(49'152, "call reads, ();\n")) +
                       EntryNamed("fits", body(49'120, "call reads, ();\n")) +
                       EntryNamed("alone", body(49'152, ""))))
        .whole;
  };
  const auto whole = with("");
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole.at("full").reason, WholeReason::kRefused);
  EXPECT_EQ(whole.at("full").what,
            "49152 bytes of shared memory leave no room in 49152");
  EXPECT_TRUE(with(".shared .align 4 .b8 files[4096];\n").contains("fits"));
}

// Of a text of 4 MB, where each kernel reaches each function: it takes as long
// as it has calls, not hours.
TEST(SlicedPtxTest, ManyKernelsMayReachManyFunctions) {
  constexpr int kMany = 20'000;
  std::string text = kReads;
  std::string last = "reads";
  for (int i = 0; i < kMany; ++i) {
    const std::string name = "f" + std::to_string(i);
    text += ".func " + name + "() { call " + last + ", (); ret; }\n";
    last = name;
  }
  for (int i = 0; i < kMany; ++i) {
    text += EntryNamed("k" + std::to_string(i), "call " + last + ", ();\n");
  }
  const auto made = MakeSlicedPtx(Module(text));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->whole.empty());
  EXPECT_THAT(made->text, HasSubstr("call carillon_slice_f0, ();"));
  EXPECT_THAT(made->text, HasSubstr("call carillon_slice_f19999, ();"));
}

// One that was cancelled between slices would have changed a part of it.
TEST(SlicedPtxTest, WhatMayChangeAVariableOfItsFileRunsWhole) {
  const auto with = [](const std::string& body) {
    std::string ptx = Entry(body);
    return Made(ptx.insert(ptx.find(".visible"),
                           ".global .align 4 .u32 total;\n"
                           ".global .align 1 .b8 $str[2] = {65, 0};\n"))
        .whole;
  };
  for (const char* body :
       {"red.global.add.u32 [total], 1;", "st.global.u32 [total], %r1;",
        "atom.global.inc.u32 %r1, [total], %r2;", "mov.u64 %l, total;"}) {
    const auto whole = with(body);
    ASSERT_TRUE(whole.contains("k")) << body;
    EXPECT_EQ(whole.at("k").reason, WholeReason::kModuleState);
  }
  EXPECT_TRUE(with("ld.global.u32 %r1, [total];\nmov.u64 %l, $str;").empty());
}

TEST(SlicedPtxTest, AFullListOfParametersHasNoRoomForOneMore) {
  const auto with = [](size_t bytes, const std::string& version) {
    std::string ptx =
        Entry("", "(.param .b8 a[" + std::to_string(bytes) + "])");
    return Made(ptx.replace(ptx.find("8.0"), 3, version)).whole;
  };
  EXPECT_TRUE(with(4352 - 24, "8.0").empty());
  EXPECT_EQ(with(4352 - 23, "8.0").at("k").reason, WholeReason::kParameters);
  EXPECT_TRUE(with(4352, "8.1").empty());
  EXPECT_EQ(with(32'764 - 23, "8.1").at("k").reason, WholeReason::kParameters);
}

TEST(SlicedPtxTest, WhateverIsUnderstoodIsRewrittenSo) {
  int understood = 0;
  for (const auto& file :
       std::filesystem::directory_iterator("sim/ptx_corpus")) {
    const auto ptx = ReadFile(file.path().string(), "a seed");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    const auto made = MakeSlicedPtx(*ptx);
    if (!made.ok()) continue;
    ++understood;
    EXPECT_EQ(SlicedPtxCheck::WhatIsWrong(*ptx, *made), "") << file.path();
  }
  EXPECT_GT(understood, 40);
}

TEST(SlicedPtxTest, WhatIsNoPtxOrHasGpudsNamesIsRefused) {
  EXPECT_THAT(std::string(MakeSlicedPtx("none").status().message()),
              HasSubstr("ptx:1:1:"));
  EXPECT_THAT(
      std::string(
          MakeSlicedPtx(Entry("// carillon_slice_")).status().message()),
      HasSubstr("gpud's own"));
}

}  // namespace
}  // namespace carillon::gpud::cuda
