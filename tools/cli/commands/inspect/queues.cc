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
  Table table({"QUEUE", ">PRIORITY", ">KERNELS WAITING"});
  for (const v1::Queue& queue : queues.queues()) {
    if (queue.kernels() == 0) continue;
    table.AddRow(queue.name(), queue.priority(), FormatCount(queue.kernels()));
  }
  console.Print(ToJson(queues), table, "nothing waits in the KMU");
  return absl::OkStatus();
}

}  // namespace

Run MakeQueues(Arguments& arguments, Console& console) {
  return MakeInspection(arguments, console, Show);
}

}  // namespace carillon::cli
