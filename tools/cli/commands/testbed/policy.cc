#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/option_table.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string policy;
  std::string device;
  std::string weight;
  std::string max_priority;
};

// Nothing, if no share is to be set.
absl::StatusOr<std::optional<v1::DeviceShare>> ShareOf(const Options& options) {
  const bool any = !options.weight.empty() || !options.max_priority.empty();
  if (any == options.device.empty()) {
    return absl::InvalidArgumentError(
        "--device goes with --weight or --max-priority, and they with it");
  }
  if (!any) return std::nullopt;
  v1::DeviceShare share;
  share.set_device(options.device);
  if (!options.weight.empty()) {
    ASSIGN_OR_RETURN(const auto weight,
                     ReadInteger(options.weight, testbed::WeightKey().min,
                                 testbed::WeightKey().max));
    share.set_weight(static_cast<uint32_t>(weight));
  }
  if (!options.max_priority.empty()) {
    ASSIGN_OR_RETURN(
        const auto priority,
        ReadInteger(options.max_priority, testbed::MaxPriorityKey().min,
                    testbed::MaxPriorityKey().max));
    share.set_max_priority(static_cast<uint32_t>(priority));
  }
  return share;
}

// A policy decides about what a CPU thread launches.
bool IsPolicysPath(const std::string& backend, const std::string& path) {
  if (path == "baseline" || path == "baseline_flag" || path == "graph") {
    return true;
  }
  return path == "edge" && backend != "cuda";
}

absl::Status SayWhatNoPolicySees(OpenTestbed& open, const std::string& backend,
                                 Console& console) {
  ASSIGN_OR_RETURN(const auto ekt, open.client->ListEkt());
  std::set<std::string> paths;
  uint64_t count = 0;
  for (const v1::EktEntry& entry : ekt.entries()) {
    if (IsPolicysPath(backend, entry.launch_path())) continue;
    paths.insert(entry.launch_path());
    ++count;
  }
  if (count == 0) return absl::OkStatus();
  console.Say(fmt::format("no policy decides about {} on {}",
                          FormatPlural(count, "event kernel"),
                          fmt::join(paths, ", ")));
  return absl::OkStatus();
}

absl::Status SetShare(OpenTestbed& open, const v1::DeviceShare& share,
                      const std::string& backend, Console& console) {
  RETURN_IF_ERROR(open.client->SetShare(share));
  if (console.json()) return absl::OkStatus();
  console.Say(fmt::format("the share of {} is set", share.device()));
  ASSIGN_OR_RETURN(const auto devices, open.client->ListDevices());
  const bool attached =
      std::ranges::any_of(devices.devices(), [&](const v1::Device& device) {
        return device.name() == share.device();
      });
  if (!attached) {
    console.Say(
        "no device of this name is attached; it counts from when one is");
  }
  if (share.has_max_priority()) {
    console.Say(
        "background kernels that it launches at a higher priority are refused");
    ASSIGN_OR_RETURN(const auto ekt, open.client->ListEkt());
    const auto lowered =
        std::ranges::count_if(ekt.entries(), [&](const v1::EktEntry& entry) {
          return entry.device() == share.device() &&
                 entry.priority() > share.max_priority();
        });
    if (lowered > 0) {
      console.Say(fmt::format(
          "{} that it has registered at a higher one: of priority {} from now "
          "on{}",
          FormatPlural(lowered, "event kernel"), share.max_priority(),
          backend == "cuda" ? ", but for CUDA's own priorities" : ""));
    }
  }
  return absl::OkStatus();
}

Table TableOf(const v1::GetStatusResponse& status) {
  Table table({"POLICY", "WHO IS NEXT", "WHO MAY WAIT FOR EVER"});
  for (const v1::Policy& policy : status.policies()) {
    const bool current = policy.name() == status.policy();
    table.AddRow(fmt::format("{} {}", current ? "*" : " ", policy.name()),
                 policy.summary(),
                 policy.starves().empty() ? "nobody" : policy.starves());
  }
  return table;
}

absl::Status Show(OpenTestbed& open, const Options& options, Console& console) {
  // Before anything is changed.
  ASSIGN_OR_RETURN(const auto share, ShareOf(options));
  ASSIGN_OR_RETURN(const auto status, open.client->GetStatus());
  std::string previous = status.policy();
  if (!options.policy.empty()) {
    ASSIGN_OR_RETURN(previous, open.client->SetPolicy(options.policy));
  }
  if (share) {
    RETURN_IF_ERROR(SetShare(open, *share, status.backend(), console));
  }
  const std::string current =
      options.policy.empty() ? previous : options.policy;
  if (console.json()) {
    Json document = {{"policy", current}, {"previous", previous}};
    document["policies"] = ToJson(status)["policies"];
    console.PrintDocument(document);
  } else if (!options.policy.empty()) {
    console.Say(fmt::format("policy {} instead of {}", current, previous));
    RETURN_IF_ERROR(SayWhatNoPolicySees(open, status.backend(), console));
  } else if (options.device.empty()) {
    console.Print(TableOf(status));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakePolicy(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("policy POLICY", options->policy,
                 "Set this one, whatever runs; without it, show those that "
                 "there are");
  arguments.Text("--device DEVICE", options->device,
                 "Set what the operator lets this device have");
  arguments.Text("--weight WEIGHT", options->weight,
                 "Its share of the turns under the policy exclusive, 1 to 100");
  arguments.Text("--max-priority PRIORITY", options->max_priority,
                 "The highest priority that it may ask for, 0 to 7");
  return MakeInspection(arguments, console,
                        [options](OpenTestbed& open, Console& console) {
                          return Show(open, *options, console);
                        });
}

}  // namespace carillon::cli
