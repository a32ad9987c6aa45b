#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/client/admin_client.h"

namespace carillon::cli {
namespace {

std::string Flags(const v1::EktEntry& entry) {
  std::string flags;
  if (entry.short_path()) flags += "short-path";
  const auto add = [&](const std::string& flag) {
    flags += flags.empty() ? flag : "," + flag;
  };
  if (entry.modifyable()) add("modifyable");
  if (!entry.hands_to().empty()) add("to " + entry.hands_to());
  if (!entry.takes_from().empty()) add("from " + entry.takes_from());
  return flags;
}

absl::Status Show(OpenTestbed& open, Console& console) {
  ASSIGN_OR_RETURN(const auto ekt, open.client->ListEkt());
  if (console.json()) {
    Json document = ToJson(ekt);
    for (int i = 0; i < ekt.entries_size(); ++i) {
      document["entries"][i]["counts"]["in_flight"] =
          testbed::InFlight(ekt.entries(i).counts());
    }
    console.PrintDocument(document);
    return absl::OkStatus();
  }
  Table table({">EKT", "DEVICE", ">EVENT", "KERNEL", "GRID", "BLOCK", ">SHARED",
               ">PRIO", ">RUNG", ">DONE", ">FAILED", ">ABORTED", ">IN FLIGHT",
               "PATH", "FLAGS"});
  for (const v1::EktEntry& entry : ekt.entries()) {
    const v1::EventCounts& counts = entry.counts();
    table.AddRow(entry.ekt_index(), entry.device(), entry.event_id(),
                 WithLabel(entry.kernel(), entry.label()),
                 FormatDim3(entry.grid()), FormatDim3(entry.block()),
                 FormatBytes(entry.shared_bytes()), entry.priority(),
                 FormatCount(counts.rung()), FormatCount(counts.done()),
                 FormatCount(counts.failed()), FormatCount(counts.aborted()),
                 FormatCount(testbed::InFlight(counts)), entry.launch_path(),
                 Flags(entry));
  }
  if (!table.empty()) console.Print(table);
  console.Say(
      fmt::format("{} of {} entries used", ekt.entries_size(), ekt.capacity()));
  return absl::OkStatus();
}

}  // namespace

Run MakeEkt(Arguments& arguments, Console& console) {
  return MakeInspection("ekt", arguments, console, Show);
}

}  // namespace carillon::cli
