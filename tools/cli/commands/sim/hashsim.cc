#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/figure_document.h"
#include "tools/hash_sim/figures.h"
#include "tools/plots/document.h"

namespace carillon::cli {
namespace {

struct Options {
  std::vector<std::string> figures;
  std::string out;
  uint32_t seed = 1;
  bool quick = false;
};

struct Figure {
  const char* name;
  Json (*make)(const hash_sim::FigureOptions& options);
};
constexpr Figure kFigures[] = {{"4.7", hash_sim::HitRatesByTable},
                               {"4.8", hash_sim::MissesByAssociativity}};

absl::Status MakeFigures(const Options& options, Console& console) {
  std::vector<const Figure*> chosen;
  for (const std::string& name : options.figures) {
    const size_t before = chosen.size();
    for (const Figure& figure : kFigures) {
      if (figure.name == name) chosen.push_back(&figure);
    }
    if (chosen.size() == before) {
      return absl::NotFoundError(fmt::format(
          "there is no figure {}; there are 4.7 and 4.8", Quote(name)));
    }
    if (std::count(chosen.begin(), chosen.end(), chosen.back()) > 1) {
      return absl::InvalidArgumentError(
          fmt::format("figure {} is named twice; name it once", Quote(name)));
    }
  }
  if (chosen.empty()) chosen = {&kFigures[0], &kFigures[1]};
  // A run may take an hour: not to find then that it cannot be kept.
  if (!options.out.empty()) {
    RETURN_IF_ERROR(plots::CheckWritable(options.out));
  }
  Json documents = Json::object();
  for (const Figure* figure : chosen) {
    auto said = std::chrono::steady_clock::now();
    const auto progress = [&](int done, int total, const std::string& next) {
      const std::string line = fmt::format("{}: {} of {} runs, now {}",
                                           figure->name, done, total, next);
      if (console.err_is_terminal()) return console.SayInPlace(line);
      const auto now = std::chrono::steady_clock::now();
      if (now - said < std::chrono::seconds(20)) return;
      said = now;
      console.Say(line);
    };
    Json document = figure->make(
        {.quick = options.quick, .seed = options.seed, .progress = progress});
    document["quick"] = options.quick;
    document["seed"] = options.seed;
    if (!console.json()) PrintFigure(document, console);
    if (!options.out.empty()) {
      RETURN_IF_ERROR(WriteFigure(options.out,
                                  fmt::format("hashsim_{}", figure->name),
                                  document, console));
    }
    documents[figure->name] = std::move(document);
  }
  if (console.json()) console.PrintDocument(documents);
  return absl::OkStatus();
}

}  // namespace

Run MakeHashSim(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts(
      "figures FIGURE", options->figures,
      "4.7 (five hash tables) or 4.8 (ways of a set); default: both");
  arguments.Text("--out DIR", options->out, "Folder for JSON and plots");
  arguments.Flag("--quick", options->quick,
                 "A hundredth of keys, entries and requests");
  arguments.Number("--seed SEED", options->seed, 0, 1u << 31,
                   "Of the requests");
  return [options, &console]() { return MakeFigures(*options, console); };
}

}  // namespace carillon::cli
