#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/cli/ui/rate.h"

namespace carillon::cli {
namespace {

uint64_t Free(const v1::Ring& ring) {
  // The three counters are read one after the other while the device writes one
  // of them, so the difference may be off.
  const uint64_t used =
      ring.launched() > ring.consumed() ? ring.launched() - ring.consumed() : 0;
  return used < ring.entries() ? ring.entries() - used : 0;
}

absl::Status Show(const testbed::SnapshotPicture& picture,
                  const testbed::SnapshotRates& rates, Console& console) {
  Json document = {{"rings", Json::array()}};
  Table table({"DEVICE", ">EVENT", "KERNEL", ">GEN", ">ENTRIES", ">ENTRY",
               ">DOORBELL", ">LAUNCHED", ">COMPLETED", ">CONSUMED", ">FREE",
               ">PEAK", ">RATE"});
  for (const auto& [index, event] : picture.event_kernels()) {
    const v1::Ring& ring = event.ring;
    const auto rate = rates.OfRing(index);
    Json json = ToJson(ring);
    json["free"] = Free(ring);
    json["peak"] = rate ? Json(event.peak) : Json();
    json["events_per_s"] = ToJson(rate);
    document["rings"].push_back(std::move(json));
    table.AddRow(
        ring.device(), ring.event_id(), WithLabel(ring.kernel(), ring.label()),
        ring.generation(), ring.entries(), FormatBytes(ring.entry_bytes()),
        FormatCount(ring.doorbell()), FormatCount(ring.launched()),
        FormatCount(ring.completed()), FormatCount(ring.consumed()), Free(ring),
        rate ? FormatCount(event.peak) : "-", FormatRate(rate));
  }
  console.Print(document, table, "no device has registered an event kernel");
  return absl::OkStatus();
}

}  // namespace

Run MakeRings(Arguments& arguments, Console& console) {
  auto inspection = std::make_shared<Inspection>("rings", arguments, console);
  return [inspection, &console] {
    return inspection->RunOnPictures(
        [&](OpenTestbed&, const auto& picture, const auto& rates) {
          return Show(picture, rates, console);
        });
  };
}

}  // namespace carillon::cli
