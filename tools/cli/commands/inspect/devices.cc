#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

void Explain(const v1::Device& device, Console& console) {
  console.Print(fmt::format(
      "{} ({}), pid {}, {}{}{}\ngeneration {}, attached for {}, silent for {}\n"
      "apertures {} and {}, GPU memory {}\n",
      console.Bold(device.name()), device.kind(), device.pid(), device.state(),
      device.note().empty() ? "" : ": ", device.note(), device.generation(),
      FormatAge(device.attached_ns_ago()), FormatAge(device.silent_ns()),
      FormatBytes(device.submission_bytes()),
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

absl::Status Show(OpenTestbed& open, const std::string& name,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto devices, open.client->ListDevices());
  if (!name.empty()) {
    return ShowOne(devices.devices(), name, "no device {} is attached{}",
                   Explain, console);
  }
  Table table({"DEVICE", "KIND", "STATE", ">PID", ">GEN", ">APERTURES",
               ">GPU MEMORY", ">ATTACHED", ">SILENT", "NOTE"});
  for (const v1::Device& device : devices.devices()) {
    table.AddRow(device.name(), device.kind(), device.state(), device.pid(),
                 device.generation(),
                 fmt::format("{} + {}", FormatBytes(device.submission_bytes()),
                             FormatBytes(device.completion_bytes())),
                 FormatBytes(device.gpu_memory_bytes()),
                 FormatAge(device.attached_ns_ago()),
                 FormatAge(device.silent_ns()), device.note());
  }
  console.Print(ToJson(devices), table, "no device is attached");
  return absl::OkStatus();
}

}  // namespace

Run MakeDevices(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("device DEVICE", *name,
                 "Show this one, with its own counters");
  return MakeInspection(arguments, console,
                        [name](OpenTestbed& open, Console& console) {
                          return Show(open, *name, console);
                        });
}

}  // namespace carillon::cli
