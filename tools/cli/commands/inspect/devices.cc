#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/cli/ui/rate.h"
#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {
namespace {

void Explain(const v1::Device& device, Console& console) {
  console.Print(fmt::format(
      "{} ({}), pid {}, {}{}{}\ngeneration {}, attached for {}, silent for {}\n"
      "apertures {} and {}, GPU memory {}\n",
      console.Bold(device.name()), device.kind(), device.pid(), device.state(),
      device.note().empty() ? "" : ": ", ForTerminal(device.note()),
      device.generation(), FormatAge(device.attached_ns_ago()),
      FormatAge(device.silent_ns()), FormatBytes(device.submission_bytes()),
      FormatBytes(device.completion_bytes()),
      FormatBytes(device.gpu_memory_bytes())));
  if (!device.counters().empty()) {
    Table table({"COUNTER", ">VALUE"});
    for (const v1::Counter& counter : device.counters()) {
      table.AddRow(counter.name(), FormatCount(counter.value()));
    }
    console.Print("\n");
    console.Print(table);
  }
  if (!device.histograms().empty()) {
    Table table(
        {"HISTOGRAM", ">COUNT", ">P50", ">P90", ">P99", ">P99.9", ">MAX"});
    for (const v1::Histogram& histogram : device.histograms()) {
      table.AddRow(PercentileRow({histogram.name()}, ToSnapshot(histogram)));
    }
    console.Print("\n");
    console.Print(table);
  }
}

absl::Status ShowOneDevice(OpenTestbed& open, const std::string& name,
                           Console& console) {
  ASSIGN_OR_RETURN(const auto devices, open.client->ListDevices());
  return ShowOne(devices.devices(), name, "no device {} is attached{}", Explain,
                 console);
}

// The highest peak of the device's rings; nothing for one that has none.
std::optional<uint32_t> PeakOf(const testbed::SnapshotPicture& picture,
                               const std::string& device) {
  std::optional<uint32_t> most;
  for (const auto& [index, event] : picture.event_kernels()) {
    if (event.ring.device() != device) continue;
    most = std::max(most.value_or(0), event.peak);
  }
  return most;
}

absl::Status Show(OpenTestbed& open, const testbed::SnapshotPicture& picture,
                  const testbed::SnapshotRates& rates, Console& console) {
  // For the exact time that each has been silent.
  ASSIGN_OR_RETURN(const auto devices, open.client->ListDevices());
  Json document = ToJson(devices);
  Table table({"DEVICE", "KIND", "STATE", ">PID", ">GEN", ">APERTURES",
               ">GPU MEMORY", ">ATTACHED", ">SILENT", ">PEAK", ">RATE",
               "NOTE"});
  for (int i = 0; i < devices.devices_size(); ++i) {
    const v1::Device& device = devices.devices(i);
    const auto rate = rates.OfDevice(device.name());
    const auto peak = rate ? PeakOf(picture, device.name()) : std::nullopt;
    document["devices"][i]["peak"] = peak ? Json(*peak) : Json();
    document["devices"][i]["events_per_s"] = ToJson(rate);
    table.AddRow(device.name(), device.kind(), device.state(), device.pid(),
                 device.generation(),
                 fmt::format("{} + {}", FormatBytes(device.submission_bytes()),
                             FormatBytes(device.completion_bytes())),
                 FormatBytes(device.gpu_memory_bytes()),
                 FormatAge(device.attached_ns_ago()),
                 FormatAge(device.silent_ns()), peak ? FormatCount(*peak) : "-",
                 FormatRate(rate), ForTerminal(device.note()));
  }
  console.Print(document, table, "no device is attached");
  return absl::OkStatus();
}

}  // namespace

Run MakeDevices(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("device DEVICE", *name,
                 "Show this one, with its own counters");
  auto inspection = std::make_shared<Inspection>("devices", arguments, console);
  return [name, inspection, &console] {
    if (!name->empty()) {
      return inspection->Run([&](OpenTestbed& open) {
        return ShowOneDevice(open, *name, console);
      });
    }
    return inspection->RunOnPictures(
        [&](OpenTestbed& open, const auto& picture, const auto& rates) {
          return Show(open, picture, rates, console);
        });
  };
}

}  // namespace carillon::cli
