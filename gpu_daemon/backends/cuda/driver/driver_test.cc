#include "gpu_daemon/backends/cuda/driver/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::HasSubstr;

// Beside this test (its data).
constexpr char kDirectory[] = "gpu_daemon/backends/cuda/fake/";

std::string FakeLibrary() { return std::string(kDirectory) + "libcuda.so.1"; }

// The library of the fake driver reads it once it is loaded, and each test is a
// process of its own (death tests), since a library is loaded once a process.
void LoadAndPrint(const char* settings) {
  setenv("CARILLON_FAKE_CUDA", settings, 1);
  const absl::StatusOr<Driver> driver = Driver::Load(FakeLibrary());
  const absl::Status status = driver.status();
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::_Exit(0);
}

// fail_if with `code`, as the library has it: its status, or the error.
std::string RunFailIf(const Driver& driver, uint32_t code) {
  CUcontext context = nullptr;
  CUresult result = driver.cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return ErrorText(driver, result);
  const absl::StatusOr<Module> module = LoadModule(driver, CudaModule());
  if (!module.ok()) return module.status().ToString();
  const absl::StatusOr<CUfunction> function =
      FindFunction(driver, module->get(), "carillon_fail_if");
  if (!function.ok()) return function.status().ToString();
  const absl::StatusOr<DeviceBytes> memory = DeviceBytes::Make(driver, 64);
  if (!memory.ok()) return memory.status().ToString();
  auto* fail_status = memory->as<uint32_t>();
  void* params[] = {&code, &fail_status};
  result = driver.cuLaunchKernel(*function, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                 params, nullptr);
  uint32_t status = 0;
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemcpyDtoH(&status, memory->address(), sizeof(status));
  }
  return result == CUDA_SUCCESS ? std::to_string(status)
                                : ErrorText(driver, result);
}

void LoadAndRun(const char* settings) {
  setenv("CARILLON_FAKE_CUDA", settings, 1);
  const absl::StatusOr<Driver> driver = Driver::Load(FakeLibrary());
  if (!driver.ok()) std::_Exit(1);
  for (const uint32_t code : {5u, 77u}) {
    std::fprintf(stderr, "%u gives %s\n", code,
                 RunFailIf(*driver, code).c_str());
  }
  std::_Exit(0);
}

TEST(Driver, SaysThatThereIsNone) {
  const absl::StatusOr<Driver> driver =
      Driver::Load("libcuda-that-nobody-has.so.1");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("no NVIDIA driver here: libcuda-that-nobody-has.so.1"));
}

TEST(Driver, RefusesALibraryThatIsNotOne) {
  const absl::StatusOr<Driver> driver = Driver::Load("libm.so.6");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("libm.so.6 is not an NVIDIA driver"));
}

TEST(Driver, NamesTheFunctionThatALibraryLacks) {
  const absl::StatusOr<Driver> driver =
      Driver::Load(std::string(kDirectory) + "libcuda_incomplete.so");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("it has no cuInit"));
}

TEST(DriverDeathTest, LoadsALibraryWithAllFunctions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoadAndPrint(""), testing::ExitedWithCode(0), "^OK");
}

TEST(DriverDeathTest, ALoadedLibraryRunsKernelsAndFaultsAsItsSettingsSay) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoadAndRun("fault=fail_if:=77"), testing::ExitedWithCode(0),
              "5 gives 5\n77 gives CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(DriverDeathTest, SaysWhichDriverIsTooOld) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoadAndPrint("version=11.8"), testing::ExitedWithCode(0),
              "FAILED_PRECONDITION: driver 11.8 is too old: needs " +
                  VersionName(kOldestDriver) + " or newer");
}

TEST(DriverDeathTest, SaysThatThereIsNoGpu) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoadAndPrint("devices=0"), testing::ExitedWithCode(0),
              "UNAVAILABLE: an NVIDIA driver, but no GPU here");
}

TEST(DriverDeathTest, TheFakeRefusesSettingsThatItCannotRead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoadAndPrint("devices=1,colour=red"),
              testing::KilledBySignal(SIGABRT), "cannot read \"colour=red\"");
}

// Error names come from the driver: a table with as much of one as is needed.
Driver NamingDriver() {
  Driver driver;
  driver.cuGetErrorName = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_UNKNOWN ? nullptr : "CUDA_ERROR_SOME";
    return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  };
  driver.cuGetErrorString = [](CUresult, const char** sentence) {
    *sentence = "some sentence";
    return CUDA_SUCCESS;
  };
  return driver;
}

TEST(ToStatus, GivesTheCodeThatCallersActOn) {
  const Driver driver = NamingDriver();
  const auto code = [&](CUresult result) {
    return ToStatus(driver, result, "what").code();
  };
  EXPECT_EQ(code(CUDA_SUCCESS), absl::StatusCode::kOk);
  EXPECT_EQ(code(CUDA_ERROR_OUT_OF_MEMORY),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(CUDA_ERROR_NOT_SUPPORTED), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(CUDA_ERROR_INVALID_PTX), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(CUDA_ERROR_NOT_FOUND), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(CUDA_ERROR_CONTEXT_IS_DESTROYED),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(CUDA_ERROR_NO_DEVICE), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(CUDA_ERROR_ILLEGAL_ADDRESS), absl::StatusCode::kInternal);
  EXPECT_EQ(
      std::string(ToStatus(driver, CUDA_ERROR_NOT_FOUND, "find it").message()),
      "find it: CUDA_ERROR_SOME (some sentence)");
  EXPECT_EQ(
      std::string(ToStatus(driver, CUDA_ERROR_UNKNOWN, "find it").message()),
      "find it: CUDA error 999");
}

TEST(ToStatus, TellsAFaultFromARefusedCall) {
  for (const CUresult fault :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_ASSERT}) {
    EXPECT_TRUE(IsContextFault(fault)) << fault;
  }
  for (const CUresult refusal :
       {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_READY, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES}) {
    EXPECT_FALSE(IsContextFault(refusal)) << refusal;
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
