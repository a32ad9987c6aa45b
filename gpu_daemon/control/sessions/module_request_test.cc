// What a client may ask for when it brings kernels of its own.
#include "gpu_daemon/control/sessions/module_request.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

v1::RegisterModuleRequest Request() {
  v1::RegisterModuleRequest request;
  request.set_image("some bytes");
  request.set_file("lab.ptx");
  v1::KernelDeclaration* kernel = request.add_kernels();
  kernel->set_symbol("_Z5saxpyPKfPff");
  kernel->set_name("saxpy");
  kernel->set_summary("y += a x");
  v1::KernelParameter* x = kernel->add_parameters();
  x->set_name("x");
  x->set_kind(v1::READ_BUFFER);
  x->set_element_bytes(4);
  v1::KernelParameter* a = kernel->add_parameters();
  a->set_name("a");
  a->set_kind(v1::F32);
  return request;
}

TEST(ModuleRequest, SaysWhatIsToBeLoaded) {
  const v1::RegisterModuleRequest request = Request();
  const auto source = ReadModuleRequest(request);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->image.size(), 10u);
  EXPECT_EQ(source->file, "lab.ptx");
  ASSERT_EQ(source->kernels.size(), 1u);
  const KernelDeclaration& kernel = source->kernels[0];
  EXPECT_EQ(kernel.symbol, "_Z5saxpyPKfPff");
  EXPECT_EQ(kernel.name, "saxpy");
  EXPECT_EQ(kernel.summary, "y += a x");
  ASSERT_EQ(kernel.parameters.size(), 2u);
  EXPECT_EQ(kernel.parameters[0].kind, simt::ParamKind::kReadBuffer);
  EXPECT_EQ(kernel.parameters[0].element_bytes, 4u);
  EXPECT_EQ(kernel.parameters[1].kind, simt::ParamKind::kF32);
}

TEST(ModuleRequest, AKernelWithoutANameHasItsSymbols) {
  v1::RegisterModuleRequest request = Request();
  request.mutable_kernels(0)->clear_name();
  const auto source = ReadModuleRequest(request);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->kernels[0].name, "_Z5saxpyPKfPff");
}

struct BadRequest {
  const char* name;
  std::function<void(v1::RegisterModuleRequest&, v1::KernelDeclaration&)> spoil;
  const char* reason;
  const char* sentence;
};
void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.name; }

class BadRequestTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsRefusedWithItsReason) {
  v1::RegisterModuleRequest request = Request();
  GetParam().spoil(request, *request.mutable_kernels(0));
  const auto source = ReadModuleRequest(request);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(source.status()).reason(), GetParam().reason);
  EXPECT_NE(std::string(source.status().message()).find(GetParam().sentence),
            std::string::npos)
      << source.status();
}

using Req = v1::RegisterModuleRequest;
using Ker = v1::KernelDeclaration;

INSTANTIATE_TEST_SUITE_P(
    All, BadRequestTest,
    ::testing::Values(
        BadRequest{"LargeImage",
                   [](Req& r, Ker&) {
                     r.set_image(std::string(kMaxImageBytes + 1, 'x'));
                   },
                   reason::kBadSize,
                   "lab.ptx has 33554433 bytes: the limit is 33554432"},
        BadRequest{"NoKernels", [](Req& r, Ker&) { r.clear_kernels(); },
                   reason::kBadCount, "0 kernels were declared"},
        BadRequest{"TooManyKernels",
                   [](Req& r, Ker&) {
                     while (r.kernels_size() <= kMaxKernelsOfAFile) {
                       *r.add_kernels() = r.kernels(0);
                     }
                   },
                   reason::kBadCount, "257 kernels were declared"},
        BadRequest{"NoSymbol", [](Req&, Ker& k) { k.clear_symbol(); },
                   reason::kBadName, "symbol ''"},
        BadRequest{"SymbolWithABlank",
                   [](Req&, Ker& k) { k.set_symbol("a b"); }, reason::kBadName,
                   "symbol 'a b'"},
        BadRequest{"NameWithADigitFirst",
                   [](Req&, Ker& k) { k.set_name("2fast"); }, reason::kBadName,
                   "kernel name '2fast'"},
        BadRequest{"LongName",
                   [](Req&, Ker& k) { k.set_name(std::string(65, 'k')); },
                   reason::kBadName, "must be 1 to 64 letters"},
        BadRequest{"SummaryOfTwoLines",
                   [](Req&, Ker& k) { k.set_summary("a\nb"); },
                   reason::kBadName, "summary"},
        BadRequest{"ParameterWithoutAName",
                   [](Req&, Ker& k) { k.mutable_parameters(0)->clear_name(); },
                   reason::kBadName, "kernel 'saxpy': parameter ''"},
        BadRequest{"SameNameTwice",
                   [](Req&, Ker& k) { k.mutable_parameters(1)->set_name("x"); },
                   reason::kBadName, "two parameters are called 'x'"},
        BadRequest{"NoKind",
                   [](Req&, Ker& k) { k.mutable_parameters(1)->clear_kind(); },
                   reason::kBadImage, "parameter 'a' has no kind"},
        BadRequest{"BufferOfNothing",
                   [](Req&, Ker& k) {
                     k.mutable_parameters(0)->clear_element_bytes();
                   },
                   reason::kBadSize, "'x' has elements of 0 bytes"},
        BadRequest{
            "ValueOfAnotherSize",
            [](Req&, Ker& k) { k.mutable_parameters(1)->set_element_bytes(8); },
            reason::kBadSize, "'a' is a F32 of 8 bytes"},
        BadRequest{"TooManyParameters",
                   [](Req&, Ker& k) {
                     while (k.parameters_size() <= 1024) {
                       k.add_parameters();
                     }
                   },
                   reason::kBadCount, "1025 parameters"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace carillon::gpud
