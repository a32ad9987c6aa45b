#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

absl::Status Show(OpenTestbed& open, Console& console) {
  ASSIGN_OR_RETURN(const auto queues, open.client->ListQueues());
  Table table({"QUEUE", ">PRIORITY", ">KERNELS WAITING"});
  for (const v1::Queue& queue : queues.queues()) {
    if (queue.kernels() == 0) continue;
    table.AddRow(queue.name(), queue.priority(), FormatCount(queue.kernels()));
  }
  if (console.json()) {
    console.PrintDocument(ToJson(queues));
    return absl::OkStatus();
  }
  Table launches({"DEVICE", "KERNEL", "EVENT", ">PRIORITY", ">BLOCKS",
                  ">RUNNING", ">LEFT", ">SLICES DONE", ">WAIT"});
  for (const v1::Launch& launch : queues.launches()) {
    const bool event = launch.sequence() != 0;
    launches.AddRow(launch.device(), launch.kernel(),
                    event ? std::to_string(launch.sequence()) : "-",
                    launch.priority(), FormatCount(launch.blocks()),
                    FormatCount(launch.blocks_running()),
                    FormatCount(launch.blocks() - launch.blocks_ended()),
                    launch.slices() != 0 ? FormatCount(launch.slices()) : "-",
                    launch.wait_ns() != 0 ? FormatWait(launch.wait_ns()) : "-");
  }
  Table copies({"DEVICE", "COPY", ">PRIORITY", ">BYTES", ">LEFT", ">AGE"});
  for (const v1::Copy& copy : queues.copies()) {
    copies.AddRow(copy.device(), copy.in() ? "to the GPU" : "from the GPU",
                  copy.priority(), FormatBytes(copy.bytes()),
                  FormatBytes(copy.bytes() - copy.bytes_copied()),
                  FormatAge(copy.age_ns()));
  }
  if (launches.empty()) console.Say("no launch waits or runs");
  bool first = true;
  for (const Table* shown : {&table, &launches, &copies}) {
    if (shown->empty()) continue;
    if (!std::exchange(first, false)) console.Print("\n");
    console.Print(*shown);
  }
  for (const auto& [what, left_out] :
       {std::pair("launches", queues.left_out()),
        std::pair("copies", queues.copies_left_out())}) {
    if (left_out == 0) continue;
    console.Say(fmt::format("and {} more {}", FormatCount(left_out), what));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeQueues(Arguments& arguments, Console& console) {
  return MakeInspection("queues", arguments, console, Show);
}

}  // namespace carillon::cli
