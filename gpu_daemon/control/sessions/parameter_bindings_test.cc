#include "gpu_daemon/control/sessions/parameter_bindings.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

constexpr std::array<ParamInfo, 8> kParams = {{
    {"in", ParamKind::kReadBuffer, 0, 4, 4, ""},
    {"out", ParamKind::kWriteBuffer, 16, 4, 4, ""},
    {"u32", ParamKind::kU32, 32, 4, 4, ""},
    {"i32", ParamKind::kI32, 36, 4, 4, ""},
    {"u64", ParamKind::kU64, 40, 8, 8, ""},
    {"i64", ParamKind::kI64, 48, 8, 8, ""},
    {"f32", ParamKind::kF32, 56, 4, 4, ""},
    {"f64", ParamKind::kF64, 64, 8, 8, ""},
}};

const simt::KernelInfo& Kernel() {
  static const simt::KernelInfo kernel = [] {
    simt::KernelInfo info{};
    info.name = "all_kinds";
    info.params = kParams;
    info.args_size = 72;
    info.args_align = 8;
    return info;
  }();
  return kernel;
}

class ParameterBindingsTest : public ::testing::Test {
 protected:
  ParameterBindingsTest() {
    auto space = DeviceSpace::Create({.name = "nic0",
                                      .device_id = 1,
                                      .generation = shm::Generation(1),
                                      .submission_bytes = 4096,
                                      .completion_bytes = 4096},
                                     &budget_, &memory_);
    EXPECT_TRUE(space.ok()) << space.status();
    space_ = *std::move(space);
    uint32_t id = 1;
    for (const auto place : {v1::INPUT, v1::OUTPUT, v1::GPU_MEMORY}) {
      buffers_[id++] = *space_->AllocateBuffer(place, 1024);
    }
    // A request that binds everything; the tests change one thing each.
    Add("in")->set_buffer_id(1);
    Add("out")->set_buffer_id(2);
    Add("u32")->set_unsigned_value(1);
    Add("i32")->set_signed_value(-1);
    Add("u64")->set_unsigned_value(~uint64_t{0});
    Add("i64")->set_signed_value(std::numeric_limits<int64_t>::min());
    Add("f32")->set_float_value(1.5);
    Add("f64")->set_float_value(-2.25);
  }

  v1::ParameterBinding* Add(const std::string& name) {
    v1::ParameterBinding* binding = request_.Add();
    binding->set_name(name);
    return binding;
  }
  v1::ParameterBinding& At(const std::string& name) {
    for (auto& binding : request_) {
      if (binding.name() == name) return binding;
    }
    return *Add(name);
  }
  absl::StatusOr<BoundParameters> Bind(uint32_t entries = 4) {
    return BindParameters(Kernel(), request_, entries, [this](uint32_t id) {
      const auto found = buffers_.find(id);
      return found == buffers_.end() ? nullptr : found->second;
    });
  }
  // Binds after one change, and takes the change back.
  absl::StatusOr<BoundParameters> BindWith(
      const std::string& name,
      const std::function<void(v1::ParameterBinding&)>& change,
      uint32_t entries = 4) {
    const v1::ParameterBinding saved = At(name);
    change(At(name));
    auto bound = Bind(entries);
    At(name) = saved;
    return bound;
  }
  void ExpectBad(const std::string& name,
                 const std::function<void(v1::ParameterBinding&)>& change) {
    const auto bound = BindWith(name, change);
    EXPECT_EQ(bound.status().code(), absl::StatusCode::kInvalidArgument)
        << name;
    EXPECT_EQ(DetailOf(bound.status()).subject(), name) << bound.status();
  }

  CpuMemory memory_;
  MemoryBudget budget_{1 << 20};
  std::shared_ptr<DeviceSpace> space_;
  std::map<uint32_t, std::shared_ptr<Buffer>> buffers_;
  google::protobuf::RepeatedPtrField<v1::ParameterBinding> request_;
};

TEST_F(ParameterBindingsTest, ComeInTheKernelsOrderWhateverTheRequests) {
  const auto forward = Bind();
  ASSERT_TRUE(forward.ok()) << forward.status();
  std::reverse(request_.begin(), request_.end());
  const auto backward = Bind();
  ASSERT_TRUE(backward.ok()) << backward.status();
  for (const auto* bound : {&*forward, &*backward}) {
    ASSERT_EQ(bound->bindings.size(), kParams.size());
    EXPECT_EQ(bound->bindings[0].buffer.data, buffers_[1]->data());
    EXPECT_EQ(bound->bindings[0].buffer.bytes, 1024u);
    EXPECT_EQ(bound->bindings[1].buffer.data, buffers_[2]->data());
    EXPECT_EQ(bound->bindings[2].constant_bits, 1u);
    EXPECT_EQ(static_cast<int32_t>(bound->bindings[3].constant_bits), -1);
    EXPECT_EQ(bound->bindings[4].constant_bits, ~uint64_t{0});
    EXPECT_EQ(static_cast<int64_t>(bound->bindings[5].constant_bits),
              std::numeric_limits<int64_t>::min());
    EXPECT_EQ(std::bit_cast<float>(
                  static_cast<uint32_t>(bound->bindings[6].constant_bits)),
              1.5f);
    EXPECT_EQ(std::bit_cast<double>(bound->bindings[7].constant_bits), -2.25);
    EXPECT_EQ(bound->buffers.size(), 2u);
  }
}

TEST_F(ParameterBindingsTest, IntegersMustFit) {
  const auto set_unsigned = [](uint64_t value) {
    return [value](auto& b) { b.set_unsigned_value(value); };
  };
  const auto set_signed = [](int64_t value) {
    return [value](auto& b) { b.set_signed_value(value); };
  };
  EXPECT_TRUE(BindWith("u32", set_unsigned(0xffffffff)).ok());
  EXPECT_TRUE(BindWith("u32", set_signed(5)).ok());
  EXPECT_TRUE(BindWith("i32", set_signed(INT32_MIN)).ok());
  EXPECT_TRUE(BindWith("i32", set_unsigned(INT32_MAX)).ok());
  EXPECT_TRUE(BindWith("i64", set_unsigned(INT64_MAX)).ok());
  ExpectBad("u32", set_unsigned(uint64_t{1} << 32));
  ExpectBad("u32", set_signed(-1));
  ExpectBad("u64", set_signed(-1));
  ExpectBad("i32", set_unsigned(uint64_t{1} << 31));
  ExpectBad("i32", set_signed(int64_t{INT32_MIN} - 1));
  ExpectBad("i64", set_unsigned(uint64_t{1} << 63));
}

TEST_F(ParameterBindingsTest, ValuesMustBeOfTheirKind) {
  ExpectBad("u32", [](auto& b) { b.set_float_value(1); });
  ExpectBad("f32", [](auto& b) { b.set_unsigned_value(1); });
  ExpectBad("f32", [](auto& b) { b.set_float_value(1e300); });
  EXPECT_TRUE(BindWith("f64", [](auto& b) { b.set_float_value(1e300); }).ok());
  EXPECT_TRUE(BindWith("f32", [](auto& b) {
                b.set_float_value(std::numeric_limits<double>::infinity());
              }).ok());
  ExpectBad("u32", [](auto& b) { b.clear_value(); });
  ExpectBad("u32", [](auto& b) { b.set_buffer_id(1); });
  ExpectBad("in", [](auto& b) { b.set_unsigned_value(1); });
}

TEST_F(ParameterBindingsTest, WritableOnesBringNoValue) {
  ExpectBad("u32", [](auto& b) { b.set_writable(true); });
  const auto value = BindWith("u32", [](auto& b) {
    b.clear_value();
    b.set_writable(true);
  });
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_TRUE(value->bindings[2].writable);
  const auto buffer = BindWith("in", [](auto& b) {
    b.set_writable(true);
    b.set_offset(512);
  });
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_TRUE(buffer->bindings[0].writable);
  EXPECT_EQ(buffer->bindings[0].buffer.bytes, 512u);
  ExpectBad("in", [](auto& b) {
    b.set_writable(true);
    b.set_slot_stride(64);
  });
}

TEST_F(ParameterBindingsTest, KernelsReadAnywhereAndWriteWhereTheDeviceCannot) {
  for (const uint32_t readable : {1, 2, 3}) {
    EXPECT_TRUE(
        BindWith("in", [&](auto& b) { b.set_buffer_id(readable); }).ok())
        << readable;
  }
  EXPECT_TRUE(BindWith("out", [](auto& b) { b.set_buffer_id(3); }).ok());
  ExpectBad("out", [](auto& b) { b.set_buffer_id(1); });
  const auto unknown = BindWith("in", [](auto& b) { b.set_buffer_id(9); });
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DetailOf(unknown.status()).reason(), reason::kUnknownBuffer);
}

TEST_F(ParameterBindingsTest, EverySlotsPartLiesInItsBuffer) {
  struct Case {
    uint64_t offset;
    uint64_t length;
    uint64_t stride;
    uint32_t entries;
    bool good;
  };
  constexpr uint64_t kHuge = ~uint64_t{0} - 3;
  for (const Case& c : {
           Case{0, 1024, 0, 64, true},
           Case{0, 1025, 0, 1, false},
           Case{1020, 0, 0, 1, true},
           Case{1024, 0, 0, 1, false},
           Case{0, 256, 256, 4, true},
           Case{0, 0, 256, 4, true},
           Case{0, 256, 256, 5, false},
           Case{4, 256, 256, 4, false},
           Case{0, 4, 340, 4, true},
           Case{0, 8, 340, 4, false},
           Case{512, kHuge, 0, 1, false},
           Case{kHuge, 8, 0, 1, false},
           Case{0, 8, kHuge, 2, false},
           Case{0, 8, uint64_t{1} << 48, 65536, false},
           Case{0, 8, kHuge, 1, true},
       }) {
    const auto bound = BindWith(
        "in",
        [&](auto& b) {
          b.set_offset(c.offset);
          b.set_length(c.length);
          b.set_slot_stride(c.stride);
        },
        c.entries);
    EXPECT_EQ(bound.ok(), c.good)
        << c.offset << " " << c.length << " " << c.stride << " " << c.entries
        << " " << bound.status();
  }
}

TEST_F(ParameterBindingsTest, NamesMustBeTheKernelsOnceEach) {
  Add("u23")->set_unsigned_value(1);
  const auto unknown = Bind();
  EXPECT_NE(std::string(unknown.status().message()).find("did you mean 'u32'"),
            std::string::npos)
      << unknown.status();
  request_.RemoveLast();
  Add("u32")->set_unsigned_value(2);
  EXPECT_NE(std::string(Bind().status().message()).find("bound twice"),
            std::string::npos);
  request_.RemoveLast();
  request_.RemoveLast();
  EXPECT_NE(std::string(Bind().status().message()).find("'f64' of kernel"),
            std::string::npos)
      << Bind().status();
}

}  // namespace
}  // namespace carillon::gpud
