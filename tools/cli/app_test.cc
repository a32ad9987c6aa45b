// The command line itself: help, suggestions, exit codes, errors as JSON. No
// testbed is up.
#include "tools/cli/app.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tools/cli/command.h"
#include "tools/cli/run_line.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AppTest : public ::testing::Test {
 protected:
  testbed::TestFolder folder_;
};

TEST_F(AppTest, BareCommandShowsExamplesAndEveryCommand) {
  const CliResult outcome = RunLine({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_LT(outcome.out.find("carillon up -d"), outcome.out.find("Run a"));
  for (const Command& command : Commands()) {
    if (command.group.empty()) {
      EXPECT_THAT(outcome.out, Not(HasSubstr(std::string(command.name))));
    } else {
      EXPECT_THAT(outcome.out, HasSubstr(std::string(command.name)));
    }
  }
}

TEST_F(AppTest, TheFormatStandsWhereOneLikes) {
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"-o", "json", "ps"},
        std::vector<std::string>{"--output=json", "ps"},
        std::vector<std::string>{"-o=json", "ps"},
        std::vector<std::string>{"ps", "-o=json"}}) {
    const CliResult outcome = RunLine(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.json().contains("testbeds")) << outcome.out;
  }
  EXPECT_EQ(RunLine({"-o", "json"}).code, 2);
  EXPECT_EQ(RunLine({"-o"}).code, 2);
  EXPECT_EQ(RunLine({"-o=yaml", "ps"}).code, 2);
}

TEST_F(AppTest, ResultsThatCannotBeWrittenAreAFailure) {
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"ps", "-o", "json"},
        std::vector<std::string>{"--version"},
        std::vector<std::string>{"help"}}) {
    FILE* const full = fopen("/dev/full", "w");
    FILE* const err = tmpfile();
    ASSERT_TRUE(full != nullptr && err != nullptr);
    Console console(full, err);
    EXPECT_EQ(RunCommandLine(line, console), 1) << line[0];
    rewind(err);
    char said[200] = {};
    EXPECT_GT(fread(said, 1, sizeof(said) - 1, err), 0u);
    EXPECT_THAT(said, HasSubstr("cannot write to stdout: No space left"));
    fclose(full);
    fclose(err);
  }
}

// What completes the last of the words.
std::vector<std::string> Completed(const std::vector<std::string>& words) {
  std::vector<std::string> line = {"complete", "--"};
  line.insert(line.end(), words.begin(), words.end());
  const CliResult outcome = RunLine(line);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> found;
  std::istringstream lines(outcome.out);
  for (std::string text; std::getline(lines, text);) {
    found.push_back(text.substr(0, text.find('\t')));
  }
  return found;
}

using Found = std::vector<std::string>;

TEST_F(AppTest, CompletesCommandsAndWhatTheyTake) {
  EXPECT_EQ(Completed({"val"}), Found{"validate"});
  EXPECT_EQ(Completed({"fault", "i"}), Found{"inject"});
  EXPECT_EQ(Completed({"help", "post"}), Found{"postmortem"});
  EXPECT_EQ(Completed({"help", "fault", "p"}), Found{"points"});
  EXPECT_EQ(Completed({"-o", "j"}), Found{"json"});
  EXPECT_EQ(Completed({"-o", "json", "val"}), Found{"validate"});
  EXPECT_EQ(Completed({"--v"}), Found{"--version"});
  EXPECT_EQ(Completed({"up", "--det"}), Found{"--detach"});
  // What is there already is not proposed again, unless it may be repeated.
  EXPECT_EQ(Completed({"up", "--detach", "--det"}), Found{});
  EXPECT_EQ(Completed({"kernel", "load", "--kernel", "k()", "--ker"}),
            Found{"--kernel"});
  EXPECT_EQ(Completed({"fault", "inject", "--after-f"}),
            Found{"--after-fault"});
  EXPECT_EQ(Completed({"fault", "inject", "--after_"}), Found{});
  EXPECT_EQ(Completed({"trace", ""}), (Found{"on", "off", "reset", "export"}));
  EXPECT_EQ(Completed({"help", "trace", "e"}), Found{"export"});
  EXPECT_EQ(Completed({"trace", "export", "--la"}), Found{"--last"});
  EXPECT_EQ(Completed({"trace", "export", "--out", ""}), Found{":files"});
  EXPECT_EQ(Completed({"trace", "on", "--na"}), Found{"--name"});
  EXPECT_EQ(Completed({"status", "-o", "t"}), Found{"table"});
  EXPECT_EQ(Completed({"status", "--output=t"}), Found{"--output=table"});
  // The value of -w may be left out.
  EXPECT_EQ(Completed({"rings", "-w", "--n"}), Found{"--name"});
  EXPECT_EQ(Completed({"rings", "-w", "-o", "t"}), Found{"table"});
  EXPECT_EQ(Completed({"rings", "-w", "2", "-o", "t"}), Found{"table"});
  // As bash cuts it.
  EXPECT_EQ(Completed({"status", "--output", "=", "t"}), Found{"table"});
  EXPECT_EQ(Completed({"status", "--output", "="}), (Found{"table", "json"}));
  // The process, or a plan; then the action; then nothing.
  EXPECT_EQ(Completed({"fault", "inject", ""}), Found{":files"});
  EXPECT_EQ(Completed({"fault", "inject", "nic0", "ki"}), Found{"kill"});
  EXPECT_EQ(Completed({"fault", "inject", "nic0", "kill", ""}), Found{});
  EXPECT_EQ(Completed({"fault", "points", "device.attac"}),
            (Found{"device.attach", "device.attached"}));
  EXPECT_EQ(Completed({"dashboard", "--role", "operator", "--role", ""}),
            (Found{"operator", "fault-injector"}));
  EXPECT_EQ(Completed({"dashboard", "--role=f"}),
            Found{"--role=fault-injector"});
  EXPECT_EQ(Completed({"bench", "me"}), Found{"memcached"});
  EXPECT_EQ(Completed({"bench", "memcached", "li"}), Found{"link"});
  EXPECT_EQ(Completed({"up", "-f", ""}), Found{":files"});
  EXPECT_EQ(Completed({"up", "--timeout", ""}), Found{});
  EXPECT_EQ(Completed({"supervise", "--rep"}), Found{});
  EXPECT_EQ(Completed({"nosuch", "x"}), Found{});
  EXPECT_EQ(Completed({"status", "--nosuch", ""}).size(),
            Completed({"status", ""}).size());
  const Found all = Completed({""});
  for (const Command& command : Commands()) {
    const std::string first(command.name.substr(0, command.name.find(' ')));
    EXPECT_EQ(std::count(all.begin(), all.end(), first),
              command.group.empty() ? 0 : 1)
        << first;
  }
}

TEST_F(AppTest, CompletionOfATestbedThatIsNotThereIsSilent) {
  for (const std::vector<std::string>& line :
       {Found{"logs", ""}, Found{"kernels", ""}, Found{"policy", ""},
        Found{"devices", ""}, Found{"fault", "clear", ""},
        Found{"status", "--name", ""}, Found{"logs", "--name", "nosuch", ""},
        Found{"kernels", "--dir", "/nosuch", ""},
        Found{"kernels", "--dir=/etc", ""},
        Found{"kernels", "--gpud", "h:1", ""}}) {
    EXPECT_EQ(Completed(line), Found{});
  }
}

TEST_F(AppTest, CompletionKnowsItsShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CliResult outcome = RunLine({"completion", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(" complete -- "));
  }
  EXPECT_EQ(RunLine({"completion"}).code, 2);
  EXPECT_EQ(RunLine({"completion", "tcsh"}).code, 2);
}

TEST_F(AppTest, SummariesStandInOneColumn) {
  std::istringstream lines(RunLine({"help"}).out);
  size_t column = 0;
  for (std::string line; std::getline(lines, line);) {
    for (const Command& command : Commands()) {
      const std::string summary(command.summary);
      if (command.group.empty() || !line.ends_with(" " + summary)) continue;
      const size_t here = line.size() - summary.size();
      if (column == 0) column = here;
      EXPECT_EQ(here, column) << line;
    }
  }
  EXPECT_GT(column, 0u);
}

TEST_F(AppTest, HelpOfEveryCommandStartsWithExamples) {
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    std::vector<std::string> words;
    std::istringstream stream(name);
    for (std::string word; stream >> word;) words.push_back(word);
    for (const bool first : {true, false}) {
      std::vector<std::string> line = words;
      line.insert(first ? line.begin() : line.end(), first ? "help" : "--help");
      const CliResult outcome = RunLine(line);
      EXPECT_EQ(outcome.code, 0);
      EXPECT_THAT(outcome.out, StartsWith("carillon " + name + ": "));
      EXPECT_LT(outcome.out.find("Examples:"), outcome.out.find("Usage:"));
      EXPECT_THAT(outcome.out, HasSubstr(std::string(command.summary)));
    }
  }
}

TEST_F(AppTest, EveryCommandButTheHiddenOneTakesOutputJson) {
  for (const Command& command : Commands()) {
    if (command.group.empty()) continue;
    std::vector<std::string> line = {"help"};
    std::istringstream words{std::string(command.name)};
    for (std::string word; words >> word;) line.push_back(word);
    EXPECT_THAT(RunLine(line).out, HasSubstr("--output")) << command.name;
  }
}

TEST_F(AppTest, NamesAreUniqueAndGroupsStayTogether) {
  std::set<std::string_view> names;
  std::set<std::string_view> groups;
  std::string_view last;
  for (const Command& command : Commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    if (command.group != last) {
      EXPECT_TRUE(groups.insert(command.group).second) << command.group;
    }
    last = command.group;
  }
}

TEST_F(AppTest, SuggestsTheNearestCommand) {
  const CliResult outcome = RunLine({"stauts"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "carillon: unknown command 'stauts'; did you mean 'status'?\n"
            "  hint: carillon help\n");
  EXPECT_EQ(RunLine({"help", "uo"}).err,
            "carillon: unknown command 'uo'; did you mean 'up'?\n"
            "  hint: carillon help\n");
}

TEST_F(AppTest, AFirstWordOfTwoListsItsCommands) {
  for (const auto& line : {std::vector<std::string>{"fault"},
                           std::vector<std::string>{"fault", "--help"},
                           std::vector<std::string>{"help", "fault"}}) {
    const CliResult outcome = RunLine(line);
    EXPECT_EQ(outcome.code, 0);
    for (const char* name :
         {"fault points", "fault list", "fault inject", "fault clear"}) {
      EXPECT_THAT(outcome.out, HasSubstr(name));
    }
    EXPECT_THAT(outcome.out, Not(HasSubstr("doctor")));
  }
  const CliResult outcome = RunLine({"fault", "lits"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "carillon: unknown command 'fault lits'; did you mean 'fault "
            "list'?\n"
            "  hint: carillon help\n");
}

TEST_F(AppTest, SuggestsTheNearestOption) {
  const CliResult outcome = RunLine({"up", "--detatch"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "carillon: unknown option '--detatch'; did you mean '--detach'?\n"
            "  hint: carillon up --help\n");
  EXPECT_EQ(RunLine({"ps", "now"}).err,
            "carillon: unexpected argument 'now'\n"
            "  hint: carillon ps --help\n");
}

TEST_F(AppTest, RefusesWrongValuesOfOptions) {
  const CliResult outcome = RunLine({"ps", "-o", "yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("yaml not in {table,json}"));
  EXPECT_EQ(RunLine({"demo", "--seconds", "0"}).code, 2);
  EXPECT_EQ(RunLine({"trace", "maybe"}).code, 2);
  for (const char* command : {"up", "demo"}) {
    const CliResult named = RunLine({command, "--name", "a/b"});
    EXPECT_EQ(named.code, 2);
    EXPECT_EQ(named.err,
              "carillon: --name: 'a/b' is no name; allowed: 1 to 32 of a-z, "
              "0-9, '_', '-'\n");
  }
}

TEST_F(AppTest, SaysThatNoTestbedIsUp) {
  for (const char* command :
       {"status", "devices", "ekt", "rings", "queues", "links", "hosts",
        "kernels", "watch", "policy", "logs"}) {
    const CliResult outcome = RunLine({command});
    EXPECT_EQ(outcome.code, 3) << command;
    EXPECT_EQ(outcome.err,
              "carillon: no testbed is up\n"
              "  hint: start one with: carillon up\n");
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(RunLine({"status", "--name", "x"}).code, 3);
}

TEST_F(AppTest, PrintsErrorsAsADocumentToo) {
  const CliResult outcome = RunLine({"status", "-o", "json"});
  EXPECT_EQ(outcome.code, 3);
  const Json json = Json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << outcome.out;
  EXPECT_EQ(json["error"]["code"], "not_found");
  EXPECT_EQ(json["error"]["message"], "no testbed is up");
  EXPECT_EQ(json["error"]["hint"], "start one with: carillon up");
  const Json usage =
      Json::parse(RunLine({"ps", "--bad", "-o=json"}).out, nullptr, false);
  EXPECT_EQ(usage["error"]["code"], "usage");
}

TEST_F(AppTest, EndingAndCleaningNothingIsNoError) {
  EXPECT_EQ(RunLine({"down"}).code, 0);
  EXPECT_EQ(RunLine({"down", "--name", "x"}).err, "testbed 'x' is not up\n");
  EXPECT_EQ(RunLine({"down", "--all"}).code, 0);
  EXPECT_EQ(RunLine({"cleanup"}).code, 0);
  EXPECT_EQ(RunLine({"ps"}).code, 0);
  for (const auto& line :
       {std::vector<std::string>{"down", "-o", "json"},
        std::vector<std::string>{"cleanup", "--dry-run", "-o", "json"},
        std::vector<std::string>{"ps", "-o", "json"},
        std::vector<std::string>{"bench", "--list", "-o", "json"}}) {
    const CliResult outcome = RunLine(line);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_FALSE(Json::parse(outcome.out, nullptr, false).is_discarded())
        << line[0];
  }
}

// Leaves what a dead testbed leaves; a file of the user's keeps the directory
// from being removed.
void MakeDead(const std::string& name, bool with_foreign_file) {
  const TestbedPaths paths = testbed::PathsOf(name);
  std::filesystem::create_directory(paths.directory());
  std::ofstream(paths.lock_file()) << "carillon testbed\n999999999 1\n";
  if (with_foreign_file) std::ofstream(paths.directory() + "/notes") << "x";
}

TEST_F(AppTest, EndingAndCleaningTellWhatFailedAndWhatDidNot) {
  const auto complaint = [](const char* name) {
    return "left " + testbed::PathsOf(name).directory() +
           " there: it holds 'notes'";
  };
  for (const auto& [line, list] :
       {std::pair(std::vector<std::string>{"down", "--all"}, "ended"),
        {std::vector<std::string>{"cleanup"}, "removed"}}) {
    MakeDead("a", /*with_foreign_file=*/true);
    MakeDead("b", /*with_foreign_file=*/false);
    MakeDead("c", /*with_foreign_file=*/true);
    std::vector<std::string> arguments = line;
    arguments.insert(arguments.end(), {"-o", "json"});
    const CliResult outcome = RunLine(arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("'a': " + complaint("a") + "\n"));
    EXPECT_THAT(outcome.err, HasSubstr("'c': " + complaint("c") + "\n"));
    EXPECT_THAT(outcome.err,
                HasSubstr("carillon: 2 testbeds gave trouble: 'a' and 'c'\n"));
    const Json json = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << outcome.out;
    ASSERT_EQ(json[list].size(), 1u) << outcome.out;
    EXPECT_THAT(json[list][0].dump(), HasSubstr("\"b\""));
    ASSERT_EQ(json["failed"].size(), 2u);
    EXPECT_EQ(json["failed"][0]["testbed"], "a");
    EXPECT_EQ(json["failed"][0]["message"], complaint("a"));
    EXPECT_EQ(json["failed"][1]["testbed"], "c");
    EXPECT_EQ(json["error"]["code"], "failed");
    EXPECT_EQ(json["error"]["message"], "2 testbeds gave trouble: 'a' and 'c'");
  }
}

TEST_F(AppTest, WhatTheUserPutThereIsNamedUntilItIsGone) {
  MakeDead("a", /*with_foreign_file=*/true);
  const std::string directory = testbed::PathsOf("a").directory();
  for (const auto& line :
       {std::vector<std::string>{"down", "--name", "a", "-o", "json"},
        std::vector<std::string>{"cleanup", "-o", "json"}}) {
    const CliResult outcome = RunLine(line);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err,
                HasSubstr("carillon: left " + directory +
                          " there: it holds 'notes'\n"
                          "  hint: move it away, then: carillon cleanup\n"));
    const Json json = Json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(json["error"]["hint"], "move it away, then: carillon cleanup");
    EXPECT_THAT(RunLine({"ps"}).out, HasSubstr("a (dead)"));
  }
  std::filesystem::remove(directory + "/notes");
  EXPECT_EQ(RunLine({"cleanup"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(AppTest, CleanupRemovesWhatFailedPlansHaveKept) {
  const std::string kept = RuntimeDirectory() + "/failed-plans/p-1";
  std::filesystem::create_directories(kept + "/logs");
  std::ofstream(kept + "/plan.yaml") << "plan: p\n";
  CliResult outcome = RunLine({"cleanup", "--dry-run", "-o", "json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.json()["failed_plans"], Json::array({kept}));
  EXPECT_TRUE(std::filesystem::exists(kept + "/plan.yaml"));
  outcome = RunLine({"cleanup"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("removing what a failed plan has kept in " +
                        RuntimeDirectory() + "/failed-plans"));
  EXPECT_FALSE(std::filesystem::exists(RuntimeDirectory() + "/failed-plans"));
}

TEST_F(AppTest, PrintsTheSchemas) {
  for (const auto& [flag, title] : {std::pair("--schema", "Carillon topology"),
                                    {"--plan-schema", "Carillon fault plan"}}) {
    const CliResult outcome = RunLine({"validate", flag});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.json()["title"], title);
  }
}

TEST_F(AppTest, ValidatesFiles) {
  const std::string file = folder_.path() + "/t.yaml";
  std::ofstream(file) << "name: lab\ndevices: [{name: a, kind: fpga}]\n";
  CliResult outcome = RunLine({"validate", file});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, file + ": ok, testbed 'lab' with 1 device\n");

  std::ofstream(file) << "nam: lab\ndevices: {}\n";
  outcome = RunLine({"validate", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out,
            file +
                ":1:1: unknown key 'nam' of a topology; did you mean "
                "'name'?\n" +
                file + ":2:1: devices is a map, not a list\n");
  EXPECT_EQ(outcome.err, "carillon: " + file + " has 2 problems\n");

  outcome = RunLine({"validate", file, "-o", "json"});
  const Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["problems"][1]["line"], 2);
  std::ofstream(file) << "gpu: {listen: '127.0.0.1:0', tls: {certificate: "
                         "no.pem, key: no.key, client_ca: no.pem}}\n";
  outcome = RunLine({"validate", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("tls: --tls-cert"), HasSubstr("/no.pem")));
  EXPECT_EQ(RunLine({"validate", "/no/such/file"}).code, 3);
  EXPECT_EQ(RunLine({"validate"}).code, 2);
}

// Puts another file in the place of this process's stdin.
class Stdin {
 public:
  explicit Stdin(int fd) { dup2(fd, STDIN_FILENO); }
  explicit Stdin(const std::string& text) {
    const UniqueFd file(memfd_create("stdin", MFD_CLOEXEC));
    EXPECT_EQ(write(file.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    lseek(file.get(), 0, SEEK_SET);
    dup2(file.get(), STDIN_FILENO);
  }
  ~Stdin() { dup2(before_.get(), STDIN_FILENO); }

 private:
  const UniqueFd before_{dup(STDIN_FILENO)};
};

TEST_F(AppTest, ATopologyOrAPlanComesFromStdin) {
  {
    const Stdin in("name: lab\ndevices: [{name: a, kind: fpga}]\n");
    const CliResult outcome = RunLine({"validate", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "-: ok, testbed 'lab' with 1 device\n");
  }
  {
    const Stdin in("plan: p\nfaults: [{name: x, do: kil}]\n");
    const CliResult outcome = RunLine({"fault", "run", "-"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("-:2:24: do: 'kil' is no action"));
  }
  // Paths count from the current folder.
  const Stdin in(
      "gpu: {listen: '127.0.0.1:0', tls: {certificate: no.pem, key: no.key, "
      "client_ca: no.pem}}\n");
  EXPECT_THAT(RunLine({"validate", "-"}).out,
              HasSubstr(std::filesystem::current_path().string() + "/no.pem"));
}

TEST_F(AppTest, AStdinWithoutAFileIsRefused) {
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"validate", "-"},
        std::vector<std::string>{"up", "-f", "-"},
        std::vector<std::string>{"up", "-d", "-f", "-"},
        std::vector<std::string>{"fault", "run", "-"}}) {
    {
      const Stdin in("");
      const CliResult outcome = RunLine(line);
      EXPECT_EQ(outcome.code, 2);
      EXPECT_THAT(outcome.err, HasSubstr("stdin is empty: a "));
    }
    const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(terminal);
    const Stdin in(terminal.get());
    const CliResult outcome = RunLine(line);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("- is stdin, which is a terminal: send "
                                       "a "));
  }
  const CliResult twice = RunLine({"fault", "run", "-", "-"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("stdin holds one plan"));
}

TEST_F(AppTest, ValidatesPlans) {
  const std::string file = folder_.path() + "/p.yaml";
  std::ofstream(file) << "plan: p\ntopology: {name: lab, devices: [{name: a, "
                         "kind: fpga}]}\nfaults: [{name: x, target: "
                         "{process: a}, do: kill}]\n";
  CliResult outcome = RunLine({"validate", file});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, file +
                             ": ok, plan 'p' with 1 fault for testbed 'lab' "
                             "with 1 device\n");
  std::ofstream(file) << "plan: p\nfaults: [{name: x, do: kil}]\n";
  outcome = RunLine({"validate", file, "-o", "json"});
  EXPECT_EQ(outcome.code, 2);
  const Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["plan"], "p");
  EXPECT_EQ(json["problems"][0]["text"],
            "do: 'kil' is no action; did you mean 'kill'?");
}

TEST_F(AppTest, RefusesARuntimeDirectoryWithATooLongPath) {
  setenv("CARILLON_RUNTIME_DIR",
         (folder_.path() + "/" + std::string(90, 'x')).c_str(), 1);
  // The test starts none of them, so any program will do.
  for (const char* program : {"gpud", "nic", "fpga", "cpu_host"}) {
    std::filesystem::create_symlink("/bin/true",
                                    folder_.path() + "/" + program);
  }
  setenv("CARILLON_BIN_DIR", folder_.path().c_str(), 1);
  const CliResult outcome = RunLine({"up"});
  unsetenv("CARILLON_BIN_DIR");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("bytes: the limit is 107;"));
  EXPECT_THAT(outcome.err, HasSubstr("hint: set CARILLON_RUNTIME_DIR"));
}

TEST_F(AppTest, RefusesSecondsThatAreNoNumber) {
  for (const std::string seconds : {"nan", "inf", "-1", "1e999", "soon"}) {
    const CliResult outcome = RunLine({"up", "--timeout", seconds});
    EXPECT_EQ(outcome.code, 2) << seconds;
    EXPECT_THAT(outcome.err, HasSubstr("allowed: 0.1 to 3600"));
  }
}

TEST_F(AppTest, SaysWhichProgramIsMissing) {
  setenv("CARILLON_BIN_DIR", "/no/such/folder", 1);
  const CliResult outcome = RunLine({"up"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("there is no gpud in /no/such/folder"));
  unsetenv("CARILLON_BIN_DIR");
}

TEST_F(AppTest, WhatUpTakesReachesASupervisorInTheBackground) {
  EXPECT_THAT(
      ToCommandLine({.file = "a.yaml",
                     .name = "lab",
                     .timeout_s = 2,
                     .faults = true,
                     .restart_proven_s = 0.5}),
      ::testing::ElementsAre("--timeout=2", "--restart-proven=0.5",
                             "--file=a.yaml", "--name=lab", "--faults"));
  EXPECT_THAT(RunLine({"help", "supervise"}).out, HasSubstr("--faults"));
}

}  // namespace
}  // namespace carillon::cli
