// GPES's figures, scaled down: Fig. 8 (pending), 5 and 7 (slices), 6 and 9
// (copies), 10 (video), 11 (orders) and 12 (floods).
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/bench/sharing/measurement.h"

namespace carillon::bench {

// GPES's Fig. 8: an urgent kernel comes while two background kernels are queued.
absl::StatusOr<Json> SharingMeasurement::Pending() {
  const Nanoseconds length = (options_.quick ? 1 : 3) * 3'200 * kUs / 3;
  constexpr double kComes[] = {0.01, 0.26, 0.51, 0.76};
  const auto comes = std::span(kComes).first(options_.quick ? 1 : 4);
  struct Way {
    const char* policy;
    uint64_t waves;
  };
  constexpr Way kWays[] = {
      {"first_come", 32}, {"exclusive", 32}, {"priority", 32}, {"priority", 2},
      {"gpes", 2},        {"gpes", 8},       {"gpes", 32},     {"ptb", 32}};
  Json rows = Json::array();
  for (const Way& way : kWays) {
    ASSIGN_OR_RETURN(const bool has, Has(way.policy));
    if (!has) continue;
    const Work work{length / way.waves, way.waves, 1};
    Json row = {{"policy", way.policy},
                {"waves", way.waves},
                {"block_us", static_cast<double>(work.block_ns) / 1000}};
    ASSIGN_OR_RETURN(const auto alone, WorkAlone(work));
    const double kernel = MeanOf(alone);
    // It fills the GPU once, with blocks as long as the shortest here.
    SharingDevicePlan event = EventPlan(way.policy, places_, length / 32);
    event.plan["due"] = {Nanoseconds{0}};
    ASSIGN_OR_RETURN(const auto by_itself, RunDevices(Gpud(), {event}));
    std::vector<double> pending;
    for (size_t i = 0; i < comes.size() * (simulated() ? 1 : rounds_); ++i) {
      event.plan["due"] = {
          static_cast<Nanoseconds>(comes[i % comes.size()] * kernel)};
      ASSIGN_OR_RETURN(
          const auto saw,
          RunDevices(Gpud(),
                     {event, BackgroundPlan("background0", work, way.policy),
                      BackgroundPlan("background1", work, way.policy)}));
      pending.push_back(
          PendingOf(ServedOf(saw[0]["served"]),
                    ServedOf(by_itself[0]["served"])[0].response())[0] /
          kernel);
    }
    row["status"] = "measured";
    row["pending"] = Json::array();
    for (const double one : pending) row["pending"].push_back(Rounded(one));
    row["worst"] = Rounded(std::ranges::max(pending));
    row["mean"] = Rounded(MeanOf(pending));
    rows.push_back(std::move(row));
  }
  return rows;
}

// What a background alone loses to slices of one wave each, or as persistent
// blocks: with blocks that are alike, and with a picture's, of which most end at
// once.
absl::StatusOr<Json> SharingMeasurement::Losses() {
  std::vector<std::pair<Json, SharingDevicePlan>> backgrounds;
  for (const Nanoseconds block : {10 * kUs, 100 * kUs, 1 * kMs}) {
    if (options_.quick && block == kMs) continue;
    // On a GPU long enough that when its end is seen does not count.
    const uint64_t waves =
        on_gpu() ? std::max<uint64_t>(8, 16 * kMs / block) : uint64_t{8};
    backgrounds.emplace_back(
        Json{{"kernel", "busy"}, {"block_us", block / kUs}, {"waves", waves}},
        BackgroundPlan("background", {block, waves, 1}, AlonePolicy()));
  }
  // As many blocks as some waves have.
  const uint64_t side =
      options_.quick ? 32
      : on_gpu()     ? static_cast<uint64_t>(std::sqrt(
                           32.0 * kThreads * static_cast<double>(places_))) /
                       kThreads * kThreads
                 : 128;
  const uint64_t blocks = side * side / kThreads;
  backgrounds.emplace_back(Json{{"kernel", "mandelbrot"},
                                {"waves", (blocks + places_ - 1) / places_}},
                           SharingDevicePlan{"background",
                                             {{"do", "background"},
                                              {"policy", AlonePolicy()},
                                              {"mandelbrot", side},
                                              {"blocks", blocks},
                                              {"threads", kThreads},
                                              {"launches", 1}}});
  Json rows = Json::array();
  for (const char* policy : {"gpes", "ptb"}) {
    ASSIGN_OR_RETURN(const bool has, Has(policy));
    if (!has) continue;
    for (auto [row, plan] : backgrounds) {
      row["policy"] = policy;
      std::vector<double> whole, cut;
      for (uint32_t round = 0; round < (simulated() ? 1 : rounds_); ++round) {
        plan.plan["policy"] = AlonePolicy();
        ASSIGN_OR_RETURN(const auto alone, RunDevices(Gpud(), {plan}));
        plan.plan["policy"] = policy;
        ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
        whole.push_back(EndOf(alone[0]));
        cut.push_back(EndOf(saw[0]));
      }
      row["status"] = "measured";
      row["alone_us"] = Rounded(MeanOf(whole) / 1000);
      row["loss_percent"] = Rounded(100 * (MeanOf(cut) / MeanOf(whole) - 1));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// GPES's Figs. 6 and 9: a large copy to GPU memory in chunks, alone, and an
// urgent small one that comes after a tenth of it.
absl::StatusOr<Json> SharingMeasurement::Copies() {
  const uint64_t bytes = options_.quick ? 4 << 20
                         : on_gpu()     ? 512 << 20
                                        : 128 << 20;
  constexpr uint64_t kUrgentBytes = 256 << 10;
  const auto plan = [](uint64_t size, uint32_t priority, double due) {
    return Json{{"do", "copies"},
                {"bytes", size},
                {"priority", priority},
                {"due", {static_cast<Nanoseconds>(due)}}};
  };
  Json rows = Json::array();
  double one_chunk = 0;
  for (const uint64_t chunks : {1, 4, 32, 256, 1024}) {
    const SharingGpud gpud =
        Gpud({"--copy-in-chunk", std::to_string(bytes / chunks), "--memory",
              "2GiB"});
    ASSIGN_OR_RETURN(const auto alone,
                     RunDevices(gpud, {{"large", plan(bytes, 0, 0)}}));
    const double took = ServedOf(alone[0]["copies"])[0].response();
    if (chunks == 1) one_chunk = took;
    ASSIGN_OR_RETURN(
        const auto both,
        RunDevices(
            gpud, {{"large", plan(bytes, 0, 0)},
                   {"urgent", plan(kUrgentBytes, kEventPriority, took / 10)}}));
    const Served urgent = ServedOf(both[1]["copies"])[0];
    rows.push_back(
        {{"bytes", bytes},
         {"chunks", chunks},
         {"took_us", Rounded(took / 1000)},
         {"slower_percent", Rounded(100 * (took / one_chunk - 1))},
         // A chunk that has begun may be behind another one of the driver's.
         {"urgent_response_us", Rounded(urgent.response() / 1000)},
         {"urgent_pending",
          Rounded(static_cast<double>(urgent.dispatched - urgent.due) /
                  took)}});
  }
  return rows;
}

// GPES's Fig. 10: a video's frames, a kernel each and urgent, beside kernels that
// are shorter or longer than a frame. A frame takes 380 of the 500 ms of its period
// (III).
absl::StatusOr<Json> SharingMeasurement::Video() {
  constexpr Nanoseconds kBlock = 20 * kUs;
  constexpr uint64_t kFrameWaves = 8;
  const uint64_t frames = options_.quick ? 8 : 40;
  const std::vector<uint64_t> competitors =
      options_.quick ? std::vector<uint64_t>{32}
                     : std::vector<uint64_t>{4, 32, 128};
  Json rows = Json::array();
  for (const uint64_t waves : competitors) {
    for (const char* policy :
         {"first_come", "exclusive", "priority", "gpes", "ptb"}) {
      ASSIGN_OR_RETURN(const bool has, Has(policy));
      if (!has) continue;
      Json row = {{"policy", policy},
                  {"competitor", Rounded(static_cast<double>(waves) /
                                         static_cast<double>(kFrameWaves))}};
      SharingDevicePlan video =
          EventPlan(policy, kFrameWaves * places_, kBlock);
      video.plan["due"] = {Nanoseconds{0}};
      ASSIGN_OR_RETURN(const auto alone, RunDevices(Gpud(), {video}));
      const double frame = ServedOf(alone[0]["served"])[0].response();
      const auto period = static_cast<Nanoseconds>(frame * 500 / 380);
      const Nanoseconds end = static_cast<Nanoseconds>(frames + 1) * period;
      video.plan["due"] = UniformArrivals(period, end);
      ASSIGN_OR_RETURN(
          const auto saw,
          RunDevices(Gpud(), {video, BackgroundPlan("competitor",
                                                    WorkOf(kBlock, waves, end),
                                                    policy)}));
      const std::vector<Served> served = ServedOf(saw[0]["served"]);
      const auto periods = [&](double ns) {
        return Rounded(ns / static_cast<double>(period));
      };
      const auto tardiness = TardinessOf(served, period);
      row["status"] = "measured";
      row["frames"] = served.size();
      row["tardiness"] = periods(MeanOf(tardiness));
      row["tardiness_max"] = periods(std::ranges::max(tardiness));
      row["jitter"] = periods(MeanOf(JitterOf(served, period)));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// GPES's Fig. 11: three applications of one priority in all orders: one long kernel
// (mmul), one after the other (srad), and a short one (nn).
absl::StatusOr<Json> SharingMeasurement::Orders() {
  const uint64_t scale = options_.quick ? 1 : 4;
  struct Application {
    const char* name;
    Work work;
  };
  const Application applications[] = {{"mmul", {20 * kUs, 16 * scale, 1}},
                                      {"srad", {20 * kUs, 1, 8 * scale}},
                                      {"nn", {20 * kUs, scale, 1}}};
  Json rows = Json::array();
  std::array<size_t, 3> order = {0, 1, 2};
  do {
    for (const char* policy : {"first_come", "exclusive", "gpes", "ptb"}) {
      ASSIGN_OR_RETURN(const bool has, Has(policy));
      if (!has) continue;
      std::string name;
      for (const size_t i : order) {
        name += (name.empty() ? "" : ".") + std::string(applications[i].name);
      }
      Json row = {{"order", name}, {"policy", policy}};
      std::vector<SharingDevicePlan> plans;
      for (const size_t i : order) {
        plans.push_back(
            BackgroundPlan(applications[i].name, applications[i].work, policy));
        plans.back().plan["begin"] = plans.size() * kUs;
      }
      ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), plans));
      double pending = 0;
      double alone = 0;
      for (size_t i = 0; i < plans.size(); ++i) {
        ASSIGN_OR_RETURN(const auto own,
                         WorkAlone(applications[order[i]].work));
        alone += MeanOf(own);
        pending +=
            EndOf(saw[i]) - plans[i].plan["begin"].get<double>() - MeanOf(own);
      }
      row["status"] = "measured";
      row["pending"] = Rounded(pending / alone);
      rows.push_back(std::move(row));
    }
  } while (std::ranges::next_permutation(order).found && !options_.quick);
  return rows;
}

// GPES's Fig. 12: an application beside one that floods the GPU and came first: by
// one kernel of very many blocks (LARGE), or by kernels without end (INFI; here
// they end).
absl::StatusOr<Json> SharingMeasurement::Floods() {
  const uint64_t waves = options_.quick ? 64 : 1024;
  struct Flood {
    const char* name;
    Work work;
  };
  const Flood floods[] = {{"LARGE", {10 * kUs, waves, 1}},
                          {"INFI", {10 * kUs, 2, waves / 2}}};
  const Work normal{20 * kUs, 4, 4};
  Json rows = Json::array();
  for (const auto& [name, work] : floods) {
    for (const char* policy :
         {"first_come", "exclusive", "priority", "gpes", "ptb"}) {
      ASSIGN_OR_RETURN(const bool has, Has(policy));
      if (!has) continue;
      for (const uint32_t priority : {0u, kEventPriority}) {
        Json row = {
            {"flood", name}, {"policy", policy}, {"priority", priority}};
        ASSIGN_OR_RETURN(const auto alone, WorkAlone(normal));
        SharingDevicePlan victim = BackgroundPlan("normal", normal, policy);
        const Nanoseconds begin = 100 * kUs;
        victim.plan["begin"] = begin;
        victim.plan["priority"] = priority;
        ASSIGN_OR_RETURN(
            const auto saw,
            RunDevices(Gpud(),
                       {BackgroundPlan("flood", work, policy), victim}));
        const double took = EndOf(saw[1]) - static_cast<double>(begin);
        row["status"] = "measured";
        row["slowed_percent"] = Rounded(100 * (1 - MeanOf(alone) / took));
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace carillon::bench
