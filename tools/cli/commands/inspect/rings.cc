#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

uint64_t Free(const v1::Ring& ring) {
  // The three counters are read one after the other while the device writes one
  // of them, so the difference may be off.
  const uint64_t used =
      ring.launched() > ring.consumed() ? ring.launched() - ring.consumed() : 0;
  return used < ring.entries() ? ring.entries() - used : 0;
}

absl::Status Show(OpenTestbed& open, Console& console) {
  ASSIGN_OR_RETURN(const auto rings, open.client->ListRings());
  Json document = ToJson(rings);
  for (int i = 0; i < rings.rings_size(); ++i) {
    document["rings"][i]["free"] = Free(rings.rings(i));
  }
  Table table({"DEVICE", ">EVENT", "KERNEL", ">GEN", ">ENTRIES", ">ENTRY",
               ">DOORBELL", ">LAUNCHED", ">COMPLETED", ">CONSUMED", ">FREE"});
  for (const v1::Ring& ring : rings.rings()) {
    table.AddRow(ring.device(), ring.event_id(),
                 WithLabel(ring.kernel(), ring.label()), ring.generation(),
                 ring.entries(), FormatBytes(ring.entry_bytes()),
                 FormatCount(ring.doorbell()), FormatCount(ring.launched()),
                 FormatCount(ring.completed()), FormatCount(ring.consumed()),
                 Free(ring));
  }
  console.Print(document, table, "no device has registered an event kernel");
  return absl::OkStatus();
}

}  // namespace

Run MakeRings(Arguments& arguments, Console& console) {
  return MakeInspection(arguments, console, Show);
}

}  // namespace carillon::cli
