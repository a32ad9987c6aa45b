// Every experiment, quick: its jobs run, and its figure has numbers.
#include "sim/experiments/experiment.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace carillon::sim::figures {
namespace {

// All figures share one cache, since some have the same jobs.
std::string CacheFolder() { return testing::TempDir() + "/quick_runs"; }

class Quick : public testing::TestWithParam<Experiment> {
 protected:
  static constexpr ExperimentOptions kOptions{.quick = true, .seed = 1};

  // The papers have no dynamic reservation, of Fig. 5.13 and PEP's Fig. 2 only a
  // plot, and do not say in which pairs preemption loses.
  static bool PaperHasNumber(const Json& row) {
    return !GetParam().name.starts_with("beyond") &&
           GetParam().name != "th5.13" && GetParam().name != "pep2" &&
           row["unit"] != "of 4 pairs";
  }
};

TEST_P(Quick, MakesAWholeFigure) {
  const auto results =
      RunJobs(GetParam().jobs(kOptions), *timing::LoadConfig("edge_table2"),
              {.threads = 2, .cache = CacheFolder()});
  ASSERT_TRUE(results.ok()) << results.status();
  const Json figure = GetParam().figure(*results, kOptions);
  EXPECT_FALSE(figure["conditions"].empty());
  ASSERT_FALSE(figure["tables"].empty());
  for (const Json& table : figure["tables"]) {
    EXPECT_FALSE(table["rows"].empty()) << table["title"];
    for (const Json& row : table["rows"]) {
      EXPECT_EQ(row.size(), table["columns"].size()) << row;
    }
  }
  ASSERT_FALSE(figure["summary"].empty());
  for (const Json& row : figure["summary"]) {
    EXPECT_EQ(row["paper"].is_number(), PaperHasNumber(row)) << row;
    EXPECT_TRUE(row["ours"].is_number()) << row;
  }
  ASSERT_FALSE(figure["panels"].empty());
  for (const Json& panel : figure["panels"]) {
    for (const Json& bar : panel["bars"]) {
      EXPECT_EQ(bar["values"].size(), panel["groups"].size())
          << panel["title"] << " " << bar["label"];
    }
  }
}

TEST_P(Quick, HasFullJobsThatDifferInNameAndContent) {
  std::set<std::string> names, contents;
  for (const Job& job : GetParam().jobs({})) {
    EXPECT_EQ(job.size, Size::kFull);
    EXPECT_TRUE(names.insert(job.name).second) << job.name;
    Json content = ToJson(job);
    content.erase("name");
    EXPECT_TRUE(contents.insert(content.dump()).second) << job.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, Quick, testing::ValuesIn(Experiments()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::erase(name, '.');
                           return name;
                         });

}  // namespace
}  // namespace carillon::sim::figures
