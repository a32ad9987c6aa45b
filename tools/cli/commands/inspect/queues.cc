#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

absl::Status Show(OpenTestbed& open, Console& console) {
  ASSIGN_OR_RETURN(const auto queues, open.client->ListQueues());
  if (console.json()) {
    console.PrintDocument(ToJson(queues));
    return absl::OkStatus();
  }
  Table table({{"QUEUE"},
               {"PRIORITY", Align::kRight},
               {"KERNELS WAITING", Align::kRight}});
  for (const v1::Queue& queue : queues.queues()) {
    if (queue.kernels() == 0) continue;
    table.AddRow({queue.name(), fmt::format("{}", queue.priority()),
                  FormatCount(queue.kernels())});
  }
  if (table.empty()) {
    console.Say("nothing waits in the KMU");
  } else {
    console.Print(table);
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeQueues(Arguments& arguments, Console& console) {
  return MakeInspection(arguments, console, [&console](OpenTestbed& open) {
    return Show(open, console);
  });
}

}  // namespace carillon::cli
