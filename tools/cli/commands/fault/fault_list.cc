#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/fault/board_option.h"
#include "tools/cli/commands/fault/commands.h"
#include "tools/cli/commands/inspect/repeat.h"

namespace carillon::cli {
namespace {

using faults::Injected;
using faults::MemberProcess;
using faults::Strike;

Json ToJson(const OpenBoard& open, const testbed::BoardView& view) {
  Json document = {{"testbed", open.testbed.name},
                   {"faults", Json::array()},
                   {"processes", Json::array()},
                   {"struck", view.struck},
                   {"strikes", Json::array()}};
  std::map<uint32_t, std::string> names;
  for (const Injected& injected : view.faults) {
    names[injected.id] = injected.fault.name;
    document["faults"].push_back(testbed::ToJson(injected));
  }
  for (const MemberProcess& member : view.members) {
    document["processes"].push_back({{"process", member.name},
                                     {"pid", member.pid},
                                     {"up_to_date", member.up_to_date}});
  }
  for (const Strike& strike : view.strikes) {
    document["strikes"].push_back(
        {{"time_ns", strike.time_ns},
         {"fault_id", strike.fault_id},
         {"fault", names[strike.fault_id]},
         {"process", testbed::ProcessName(open.testbed, view, strike.pid)},
         {"pid", strike.pid},
         {"passage", strike.passage}});
  }
  return document;
}

absl::Status Show(const OpenBoard& open, Console& console) {
  ASSIGN_OR_RETURN(const auto looked, open.board->Look());
  const testbed::BoardView& view = looked;
  if (console.json()) {
    console.PrintDocument(ToJson(open, view));
    return absl::OkStatus();
  }
  std::vector<std::string> processes;
  for (const MemberProcess& member : view.members) {
    processes.push_back(member.up_to_date
                            ? member.name
                            : member.name + " (has not looked yet)");
  }
  console.Say(fmt::format("on the board: {}", JoinWords(processes)));
  if (view.faults.empty()) {
    console.Say("no faults; put some there with: carillon fault inject");
    return absl::OkStatus();
  }
  Table table({"FAULT", "DOES", ">PASSAGES", ">STRUCK", "STATE"});
  for (const Injected& injected : view.faults) {
    table.AddRow(injected.fault.name, faults::Describe(injected.fault),
                 FormatCount(injected.passages), FormatCount(injected.struck),
                 injected.spent ? "spent" : "armed");
  }
  console.Print(table);
  return absl::OkStatus();
}

}  // namespace

Run MakeFaultList(Arguments& arguments, Console& console) {
  auto option = std::make_shared<BoardOption>(arguments);
  auto repeat = std::make_shared<Repeat>(arguments);
  return [option, repeat, &console]() -> absl::Status {
    return repeat->Run(
        "fault list", console,
        [&]() -> absl::Status {
          // Anew each time: another testbed of that name has another board.
          ASSIGN_OR_RETURN(const auto open, option->Open());
          return Show(open, console);
        },
        [] { return true; });
  };
}

}  // namespace carillon::cli
