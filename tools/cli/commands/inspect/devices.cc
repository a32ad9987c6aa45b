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
    Table table({{"COUNTER"}, {"VALUE", Align::kRight}});
    for (const v1::Counter& counter : device.counters()) {
      table.AddRow({counter.name(), FormatCount(counter.value())});
    }
    console.Print("\n");
    console.Print(table);
  }
  if (!device.histograms().empty()) {
    Table table({{"HISTOGRAM"},
                 {"COUNT", Align::kRight},
                 {"P50", Align::kRight},
                 {"P90", Align::kRight},
                 {"P99", Align::kRight},
                 {"P99.9", Align::kRight},
                 {"MAX", Align::kRight}});
    for (const v1::Histogram& histogram : device.histograms()) {
      std::vector<std::string> row = {histogram.name()};
      for (std::string& cell : PercentileCells(ToSnapshot(histogram))) {
        row.push_back(std::move(cell));
      }
      table.AddRow(std::move(row));
    }
    console.Print("\n");
    console.Print(table);
  }
}

absl::Status ShowOne(const v1::ListDevicesResponse& devices,
                     const std::string& name, Console& console) {
  std::vector<std::string_view> names;
  for (const v1::Device& device : devices.devices()) {
    names.push_back(device.name());
    if (device.name() != name) continue;
    if (console.json()) {
      console.PrintDocument(ToJson(device));
    } else {
      Explain(device, console);
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(fmt::format("no device {} is attached{}",
                                         Quote(name), DidYouMean(name, names)));
}

absl::Status Show(OpenTestbed& open, const std::string& name,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto devices, open.client->ListDevices());
  if (!name.empty()) return ShowOne(devices, name, console);
  if (console.json()) {
    console.PrintDocument(ToJson(devices));
    return absl::OkStatus();
  }
  Table table({{"DEVICE"},
               {"KIND"},
               {"STATE"},
               {"PID", Align::kRight},
               {"GEN", Align::kRight},
               {"APERTURES", Align::kRight},
               {"GPU MEMORY", Align::kRight},
               {"ATTACHED", Align::kRight},
               {"SILENT", Align::kRight},
               {"NOTE"}});
  for (const v1::Device& device : devices.devices()) {
    table.AddRow({device.name(), device.kind(), device.state(),
                  fmt::format("{}", device.pid()),
                  fmt::format("{}", device.generation()),
                  fmt::format("{} + {}", FormatBytes(device.submission_bytes()),
                              FormatBytes(device.completion_bytes())),
                  FormatBytes(device.gpu_memory_bytes()),
                  FormatAge(device.attached_ns_ago()),
                  FormatAge(device.silent_ns()), device.note()});
  }
  if (table.empty()) {
    console.Say("no device is attached");
  } else {
    console.Print(table);
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeDevices(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("device", *name, "Show this one, with its own counters")
      .Placeholder("DEVICE");
  return MakeInspection(arguments, console,
                        [name, &console](OpenTestbed& open) {
                          return Show(open, *name, console);
                        });
}

}  // namespace carillon::cli
