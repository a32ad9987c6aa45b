#include "tools/cli/command.h"

namespace carillon::cli {

void AddOutputOption(Arguments& arguments, Console& console) {
  arguments
      .Choice("-o,--output", console.format, {"table", "json"},
              "table for people, json for programs")
      .Placeholder("FORMAT");
}

void AddNameOption(Arguments& arguments, std::string& name) {
  arguments.Text("--name", name, "The testbed; not needed when only one is up")
      .Placeholder("NAME");
}

}  // namespace carillon::cli
