#include "sim/experiments/workloads/background.h"

#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/experiments/workloads/backgrounds.h"

namespace carillon::sim::figures {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Background> (*make)(Size size, Kernels* kernels);
};

constexpr Entry kEntries[] = {
    // In the order of EDGE's Fig. 11.
    {"BP", &MakeBp},
    {"BFS", &MakeBfs},
    {"KMN", &MakeKmn},
    {"LUD", &MakeLud},
    {"SRAD", &MakeSrad},
    {"SC", &MakeSc},
    {"MM", &MakeMm},
    {"CONV1", &MakeConv1},
    {"CONV2", &MakeConv2},
    {"HRTWL", &MakeHrtwl},
    {"HOTSP", &MakeHotsp},
    // In the order of PEP's Table 1 (pep_kernels.h).
    {"CP", &MakeCp},
    {"LBM", &MakeLbm},
    {"MRI", &MakeMri},
    {"ST", &MakeStencil},
    {"GM", &MakeGemm},
    {"BS", &MakeBs},
    {"KS", &MakeKmnInvert},
    {"PF", &MakePathfinder},
    {"SRAD1", &MakeSradExtract},
    {"SRAD2", &MakeSradV2},
    {"SRAD3", &MakeSradV1},
    {"LUD_INTERNAL", &MakeLudInternal},
    {"BP_FORWARD", &MakeBpForward},
    {"BP_ADJUST", &MakeBpAdjust},
};

}  // namespace

void FillWhole(std::span<float> values, int least, int most,
               std::mt19937& random) {
  const auto count = static_cast<uint32_t>(most - least + 1);
  for (float& value : values) {
    value = static_cast<float>(least + static_cast<int>(random() % count));
  }
}

Background::Background(std::string_view name, std::string size,
                       Kernels* kernels)
    : name_(name),
      size_(std::move(size)),
      kernels_(kernels),
      failure_(kernels->Allocate<uint32_t>(1, "status of a kernel")) {}

void Background::Start(uint32_t seed) {
  std::mt19937 random(seed);
  step_ = 0;
  failure_.values[0] = 0;
  Fill(random);
}

absl::Status Background::Check() const {
  if (failure_.values[0] != 0) {
    return absl::InternalError(
        fmt::format("{}: a kernel failed with {}", name_, failure_.values[0]));
  }
  return CheckOutput();
}

std::vector<std::string_view> BackgroundNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Background>> MakeBackground(
    std::string_view name, Size size, Kernels* kernels) {
  for (const Entry& entry : kEntries) {
    if (entry.name != name) continue;
    auto background = entry.make(size, kernels);
    if (!kernels->status().ok()) return kernels->status();
    return background;
  }
  return absl::NotFoundError(
      fmt::format("no background kernel '{}'; there are {}", name,
                  fmt::join(BackgroundNames(), ", ")));
}

}  // namespace carillon::sim::figures
