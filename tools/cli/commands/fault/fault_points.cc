#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "shm/faults/fault.h"
#include "tools/cli/commands/fault/commands.h"

namespace carillon::cli {
namespace {

using faults::Action;
using faults::Point;
using faults::PointInfo;

// `own` leaves out the actions that every point allows.
std::vector<std::string_view> ActionsAt(Point point, bool own) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < faults::kActions; ++i) {
    if (!faults::Allows(point, Action(i))) continue;
    if (own && ((faults::InfoOf(point).actions >> i) & 1) == 0) continue;
    names.push_back(faults::ActionName(Action(i)));
  }
  return names;
}

// All points, or the one that was asked for.
absl::StatusOr<std::vector<PointInfo>> Chosen(const std::string& name) {
  std::vector<PointInfo> points;
  std::vector<std::string_view> names;
  for (const PointInfo& info : faults::Points()) {
    if (info.point == Point::kNone) continue;
    names.push_back(info.name);
    if (name.empty() || info.name == name) points.push_back(info);
  }
  if (!points.empty()) return points;
  return absl::NotFoundError(
      fmt::format("{} is no point{}", Quote(name), DidYouMean(name, names)));
}

absl::Status Show(const std::string& name, Console& console) {
  ASSIGN_OR_RETURN(const auto points, Chosen(name));
  std::vector<bool> shown(faults::kActions);
  for (const PointInfo& info : points) {
    for (size_t i = 0; i < faults::kActions; ++i) {
      if (faults::Allows(info.point, Action(i))) shown[i] = true;
    }
  }
  if (console.json()) {
    Json document = {{"points", Json::array()}, {"actions", Json::array()}};
    for (const PointInfo& info : points) {
      document["points"].push_back({{"point", info.name},
                                    {"summary", info.summary},
                                    {"of_event", info.of_event},
                                    {"actions", ActionsAt(info.point, false)}});
    }
    for (size_t i = 0; i < faults::kActions; ++i) {
      if (!shown[i]) continue;
      document["actions"].push_back(
          {{"action", faults::ActionName(Action(i))},
           {"summary", faults::ActionSummary(Action(i))}});
    }
    console.PrintDocument(document);
    return absl::OkStatus();
  }
  Table table({"POINT", "WHEN", "BESIDE KILL, STOP, DELAY"});
  for (const PointInfo& info : points) {
    table.AddRow(
        info.name, info.summary,
        fmt::format("{}", fmt::join(ActionsAt(info.point, true), ", ")));
  }
  console.Print(table);
  console.Print("\n");
  Table actions({"ACTION", "WHAT IT DOES"});
  for (size_t i = 0; i < faults::kActions; ++i) {
    if (!shown[i]) continue;
    actions.AddRow(faults::ActionName(Action(i)),
                   faults::ActionSummary(Action(i)));
  }
  console.Print(actions);
  return absl::OkStatus();
}

}  // namespace

Run MakeFaultPoints(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("point POINT", *name, "Only this one");
  return [name, &console] { return Show(*name, console); };
}

}  // namespace carillon::cli
