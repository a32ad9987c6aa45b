#include "gpu_daemon/backends/cuda/driver/modules.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/module_image.h"
#include "gpu_daemon/event/refusal.h"
#include "kernels/simt/event_frame.h"
#include "spdlog/spdlog.h"

namespace carillon::gpud::cuda {

absl::StatusOr<uint32_t> Modules::Load() {
  ASSIGN_OR_RETURN(module_, LoadModule(driver_, image_));
  ASSIGN_OR_RETURN(uint32_t frame, LargestFrame(module_.get()));
  MutexLock lock(mutex_);
  for (auto& user : user_modules_) {
    RETURN_IF_ERROR(LoadAgain(*user));
    frame = std::max(frame, user->frame_bytes);
  }
  return frame;
}

void Modules::Abandon() {
  MutexLock lock(mutex_);
  module_.Abandon();
  functions_.clear();
  for (auto& user : user_modules_) user->module.Abandon();
  user_functions_.clear();
  releases_.Abandon();
  releases_ = {};
}

void Modules::Reset() {
  MutexLock lock(mutex_);
  module_.Reset();
  for (auto& user : user_modules_) user->module.Reset();
  releases_ = {};
}

// --- Users' files.

absl::Status Modules::LoadImage(const ModuleSource& source,
                                UserModule& user) const {
  const auto load = [&](std::string_view text) -> absl::Status {
    const auto bytes = std::as_bytes(std::span(text));
    user.image.assign(bytes.begin(), bytes.end());
    user.image.push_back(std::byte{0});
    ASSIGN_OR_RETURN(user.module, LoadModule(driver_, user.image));
    return absl::OkStatus();
  };
  const std::string_view image(
      reinterpret_cast<const char*>(source.image.data()), source.image.size());
  if (!IsPtx(source.image)) {
    user.none_sliced = {WholeReason::kNoPtx, "its file is machine code"};
    return load(image);
  }
  auto made = MakeSlicedPtx(image.substr(0, image.find('\0')));
  if (!made.ok()) {
    user.none_sliced = {WholeReason::kUnknownPtx,
                        std::string(made.status().message())};
    return load(image);
  }
  const absl::Status loaded = load(made->text);
  if (loaded.ok()) {
    user.whole = std::move(made->whole);
    return loaded;
  }
  // What is wrong with the user's own text is said of that.
  user.none_sliced = {WholeReason::kRefused, std::string(loaded.message())};
  return load(image);
}

// The kernel itself is there: whatever fails here only leaves it whole.
SliceFunction Modules::SlicesOf(const UserModule& user,
                                const UserKernel& kernel) const {
  const auto runs_whole = [&](WholeReason reason, std::string_view what) {
    spdlog::info("kernel '{}' of {} runs whole under policy gpes: {}",
                 kernel.symbol(), kernel.info().file, what);
    return SliceFunction{.why_whole = reason};
  };
  if (user.none_sliced) {
    return runs_whole(user.none_sliced->reason, user.none_sliced->what);
  }
  const auto whole = user.whole.find(kernel.symbol());
  if (whole != user.whole.end()) {
    return runs_whole(whole->second.reason, whole->second.what);
  }
  const auto slice = AskForSlicesOf(user, kernel);
  if (slice.ok()) return *slice;
  return runs_whole(WholeReason::kRefused,
                    std::string(slice.status().message()));
}

absl::StatusOr<SliceFunction> Modules::AskForSlicesOf(
    const UserModule& user, const UserKernel& kernel) const {
  SliceFunction slice;
  ASSIGN_OR_RETURN(
      slice.function,
      FindFunction(driver_, user.module.get(),
                   fmt::format("{}{}", kSlicePrefix, kernel.symbol()).c_str()));
  ASSIGN_OR_RETURN(const auto layout, LayoutOf(slice.function));
  if (layout.parameters.size() != kernel.info().params.size() + 1) {
    return absl::InternalError("its slices have other parameters");
  }
  slice.part_offset = layout.parameters.back().offset;
  slice.most_threads = layout.most_threads;
  slice.registers_per_thread = layout.registers_per_thread;
  slice.static_shared_bytes = layout.static_shared_bytes;
  return slice;
}

absl::StatusOr<std::unique_ptr<Modules::UserModule>> Modules::LoadUsers(
    const ModuleSource& source) {
  auto user = std::make_unique<UserModule>();
  if (const absl::Status loaded = LoadImage(source, *user); !loaded.ok()) {
    return absl::Status(loaded.code(),
                        fmt::format("{}: {}", source.file, loaded.message()));
  }
  ASSIGN_OR_RETURN(user->frame_bytes, LargestFrame(user->module.get()));
  {
    MutexLock lock(mutex_);
    const absl::Status shown = ShowReleases(*user);
    if (!shown.ok()) {
      return absl::Status(shown.code(),
                          fmt::format("{}: {}", source.file, shown.message()));
    }
  }
  for (const KernelDeclaration& declaration : source.kernels) {
    const auto function =
        FindFunction(driver_, user->module.get(), declaration.symbol.c_str());
    if (absl::IsNotFound(function.status())) {
      return absl::NotFoundError(fmt::format(
          "{} has no kernel '{}': is it a __global__, extern \"C\", and not "
          "static?",
          source.file, declaration.symbol));
    }
    if (!function.ok()) return function.status();
    ASSIGN_OR_RETURN(const auto layout, LayoutOf(*function));
    ASSIGN_OR_RETURN(auto kernel,
                     UserKernel::Make(declaration, source.file, layout));
    UserFunctions functions{.whole = *function};
    functions.slice = SlicesOf(*user, *kernel);
    user->kernels.push_back(std::move(kernel));
    user->functions.push_back(functions);
  }
  return user;
}

std::vector<const simt::KernelInfo*> Modules::Keep(
    std::unique_ptr<UserModule> user) {
  std::vector<const simt::KernelInfo*> infos;
  MutexLock lock(mutex_);
  for (size_t i = 0; i < user->kernels.size(); ++i) {
    infos.push_back(&user->kernels[i]->info());
    user_functions_[infos.back()] = user->functions[i];
  }
  user_modules_.push_back(std::move(user));
  return infos;
}

absl::Status Modules::LoadAgain(UserModule& user) {
  ASSIGN_OR_RETURN(user.module, LoadModule(driver_, user.image));
  RETURN_IF_ERROR(ShowReleases(user));
  for (size_t i = 0; i < user.kernels.size(); ++i) {
    ASSIGN_OR_RETURN(user.functions[i].whole,
                     FindFunction(driver_, user.module.get(),
                                  user.kernels[i]->symbol().c_str()));
    user.functions[i].slice = SlicesOf(user, *user.kernels[i]);
    user_functions_[&user.kernels[i]->info()] = user.functions[i];
  }
  return absl::OkStatus();
}

// --- The wait-release barrier.

absl::Status Modules::ShowReleases(UserModule& user) {
  CUdeviceptr variable = 0;
  size_t size = 0;
  const CUresult found = driver_.cuModuleGetGlobal(
      &variable, &size, user.module.get(), kReleasesWord);
  user.waits = found == CUDA_SUCCESS;
  if (found == CUDA_ERROR_NOT_FOUND) return absl::OkStatus();
  const std::string what = fmt::format("find '{}'", kReleasesWord);
  RETURN_IF_ERROR(ToStatus(driver_, found, what));
  if (size != sizeof(uint64_t*)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' has {} bytes; it takes an address, which has {}",
                    kReleasesWord, size, sizeof(uint64_t*)));
  }
  if (releases_.size() == 0) {
    ASSIGN_OR_RETURN(releases_, PinnedBytes::Make(driver_, sizeof(uint64_t)));
    std::atomic_ref(*releases_.as<uint64_t>())
        .store(release_count_, std::memory_order_relaxed);
  }
  const uint64_t* const word = releases_.as<uint64_t>();
  CUresult result = driver_.cuMemcpyHtoD(variable, &word, sizeof(word));
  // See DeviceBytes::Write().
  if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(nullptr);
  return ToStatus(driver_, result, what);
}

absl::Status Modules::Release() {
  MutexLock lock(mutex_);
  if (std::ranges::none_of(user_modules_,
                           [](const auto& user) { return user->waits; })) {
    return absl::UnimplementedError(fmt::format(
        "the cuda back-end has no wait-release barrier but for kernels of a "
        "user's whose file has the variable '{}', and none is loaded: launch "
        "the event with a doorbell instead",
        kReleasesWord));
  }
  // Reader: kernels. Release: they see what the device did before it called.
  std::atomic_ref(*releases_.as<uint64_t>())
      .store(++release_count_, std::memory_order_release);
  return absl::OkStatus();
}

// --- Their kernels.

absl::StatusOr<CUfunction> Modules::Find(const std::string& name) {
  MutexLock lock(mutex_);
  const auto known = functions_.find(name);
  if (known != functions_.end()) return known->second;
  auto function = FindFunction(driver_, module_.get(), name.c_str());
  if (function.ok()) functions_[name] = *function;
  return function;
}

absl::StatusOr<CUfunction> Modules::FindFor(std::string_view prefix,
                                            const KernelMetadata& kmd) {
  RETURN_IF_ERROR(CheckCompletesItself(
      *kmd.kernel, fmt::format("its module has no {}<name>", prefix)));
  auto function = Find(fmt::format("{}{}", prefix, kmd.kernel->name));
  if (!function.ok()) return function;
  RETURN_IF_ERROR(MakeReady(*function, kmd));
  return function;
}

absl::StatusOr<CUfunction> Modules::FindUsers(const KernelMetadata& kmd) {
  CUfunction function = nullptr;
  {
    MutexLock lock(mutex_);
    function = user_functions_.at(kmd.kernel).whole;
  }
  RETURN_IF_ERROR(MakeReady(function, kmd));
  return function;
}

absl::StatusOr<SliceFunction> Modules::FindSlices(const KernelMetadata& kmd) {
  SliceFunction slice;
  {
    MutexLock lock(mutex_);
    slice = user_functions_.at(kmd.kernel).slice;
  }
  if (slice.function == nullptr) return slice;
  // It has a few bytes more of shared memory.
  if (MakeReady(slice.function, kmd).ok()) return slice;
  return SliceFunction{.why_whole = WholeReason::kRefused};
}

absl::Status Modules::MakeReady(CUfunction function,
                                const KernelMetadata& kmd) const {
  // What a launch gets without asking, with what the function's code declares.
  constexpr uint32_t kSharedBytes = 48 * 1024;
  int declared = 0;
  RETURN_IF_ERROR(
      ToStatus(driver_,
               driver_.cuFuncGetAttribute(
                   &declared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
               "ask for a kernel's static shared memory"));
  if (static_cast<uint32_t>(declared) + DynamicShared(kmd) <= kSharedBytes) {
    return absl::OkStatus();
  }
  return OnAnyPath(
      ToStatus(driver_,
               driver_.cuFuncSetAttribute(
                   function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   static_cast<int>(DynamicShared(kmd))),
               fmt::format("give kernel '{}' {} bytes of shared memory",
                           kmd.kernel->name, kmd.total_shared())));
}

absl::StatusOr<KernelLayout> Modules::LayoutOf(CUfunction function) const {
  KernelLayout layout;
  while (true) {
    size_t offset = 0;
    size_t bytes = 0;
    const CUresult result = driver_.cuFuncGetParamInfo(
        function, layout.parameters.size(), &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    RETURN_IF_ERROR(ToStatus(driver_, result, "ask for a parameter's place"));
    layout.parameters.push_back(
        {static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
  }
  const struct {
    CUfunction_attribute attribute;
    uint32_t* value;
  } wanted[] = {
      {CU_FUNC_ATTRIBUTE_NUM_REGS, &layout.registers_per_thread},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &layout.static_shared_bytes},
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &layout.most_threads}};
  for (const auto& [attribute, value] : wanted) {
    int found = 0;
    RETURN_IF_ERROR(ToStatus(
        driver_, driver_.cuFuncGetAttribute(&found, attribute, function),
        "ask what a kernel needs"));
    *value = static_cast<uint32_t>(std::max(found, 0));
  }
  return layout;
}

absl::StatusOr<uint32_t> Modules::LargestFrame(CUmodule module) const {
  unsigned count = 0;
  RETURN_IF_ERROR(ToStatus(driver_,
                           driver_.cuModuleGetFunctionCount(&count, module),
                           "count a module's kernels"));
  std::vector<CUfunction> functions(count);
  RETURN_IF_ERROR(ToStatus(
      driver_,
      driver_.cuModuleEnumerateFunctions(functions.data(), count, module),
      "list a module's kernels"));
  int largest = 0;
  for (const CUfunction function : functions) {
    int bytes = 0;
    RETURN_IF_ERROR(
        ToStatus(driver_,
                 driver_.cuFuncGetAttribute(
                     &bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function),
                 "ask for a kernel's stack"));
    largest = std::max(largest, bytes);
  }
  return static_cast<uint32_t>(largest);
}

absl::StatusOr<uint64_t> Modules::DeviceWord(const std::string& name) const {
  CUdeviceptr address = 0;
  size_t size = 0;
  uint64_t word = 0;
  const std::string what = fmt::format("read '{}'", name);
  auto status = ToStatus(
      driver_,
      driver_.cuModuleGetGlobal(&address, &size, module_.get(), name.c_str()),
      what);
  if (status.ok() && size != sizeof(word)) {
    status = absl::InternalError(fmt::format("'{}' has {} bytes", name, size));
  }
  if (status.ok()) {
    status = ToStatus(driver_,
                      driver_.cuMemcpyDtoH(&word, address, sizeof(word)), what);
  }
  if (!status.ok()) return status;
  return word;
}

}  // namespace carillon::gpud::cuda
