#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/doctor/checks.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/host_views.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::cli {
namespace {

struct Finding {
  std::string_view check;
  CheckResult result;
};

CheckResult LookAtEtcd(const testbed::Topology& topology) {
  if (topology.own_etcd && !FindProgram("etcd").ok()) {
    return {Verdict::kProblem,
            fmt::format("no etcd, which host '{}' starts", topology.gpu_host),
            "apt-get install etcd-server on that host"};
  }
  const auto etcd = testbed::OpenEtcd(topology);
  const absl::Status status =
      etcd.ok() ? testbed::LookAtHosts(**etcd, topology).status()
                : etcd.status();
  if (status.ok()) {
    return {Verdict::kGood, fmt::format("{}", fmt::join(topology.etcd, ", ")),
            ""};
  }
  if (topology.own_etcd && absl::IsUnavailable(status)) {
    return {
        Verdict::kFact,
        fmt::format("host '{}' starts it, and is not up", topology.gpu_host),
        ""};
  }
  const std::string hint = HintOf(status);
  return {Verdict::kProblem, std::string(status.message()),
          hint.empty() ? "apt-get install etcd-server and start it there, or "
                         "mend mesh: etcd and mesh: tls"
                       : hint};
}

CheckResult LookAtSlurm(const testbed::Topology& topology) {
  std::string missing;
  for (const char* const program : {"sbatch", "srun", "squeue", "scancel"}) {
    if (!FindProgram(program).ok()) missing = program;
  }
  if (missing.empty()) return {Verdict::kGood, "its commands are there", ""};
  // A host that names its node is started by nothing else.
  const bool needed = std::ranges::any_of(
      topology.hosts,
      [](const testbed::HostEntry& host) { return !host.node.empty(); });
  return {needed ? Verdict::kProblem : Verdict::kFact,
          fmt::format("no {}: up --slurm needs it", missing),
          needed ? "apt-get install slurm-client" : ""};
}

// `file`: a topology, or empty.
absl::Status Examine(const std::string& file, Console& console) {
  std::vector<Finding> findings;
  for (const Check& check : Checks()) {
    findings.push_back({check.name, check.look()});
  }
  if (!file.empty()) {
    ASSIGN_OR_RETURN(const auto topology,
                     testbed::LoadTopology(file, "default"));
    if (const TlsFiles files = testbed::MeshTls(topology); files.any()) {
      std::vector<std::string> hosts;
      for (const testbed::HostEntry& host : topology.hosts) {
        hosts.push_back(host.name);
      }
      findings.push_back({"mesh: tls", LookAtLinkFiles(files, hosts)});
    }
    if (!topology.etcd.empty()) {
      findings.push_back({"etcd", LookAtEtcd(topology)});
      findings.push_back({"Slurm", LookAtSlurm(topology)});
    }
  }
  Json document = Json::array();
  int problems = 0;
  for (const auto& [check, finding] : findings) {
    if (finding.verdict == Verdict::kProblem) ++problems;
    document.push_back({{"check", check},
                        {"verdict", VerdictName(finding.verdict)},
                        {"text", finding.text},
                        {"advice", finding.advice}});
    if (console.json()) continue;
    std::string verdict = fmt::format("{:<8}", VerdictName(finding.verdict));
    if (finding.verdict == Verdict::kGood) verdict = console.Good(verdict);
    if (finding.verdict == Verdict::kProblem) verdict = console.Bad(verdict);
    console.Print(fmt::format("{} {:<18} {}\n", verdict, check, finding.text));
    if (!finding.advice.empty()) {
      console.Print(fmt::format("{:27} -> {}\n", "", finding.advice));
    }
  }
  if (console.json()) {
    console.PrintDocument(
        {{"ok", problems == 0}, {"checks", std::move(document)}});
  }
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} found", FormatPlural(problems, "problem")));
}

}  // namespace

Run MakeDoctor(Arguments& arguments, Console& console) {
  auto file = std::make_shared<std::string>();
  arguments.Text(
      "-f,--file FILE", *file,
      "Topology: also what its hosts need: certificates, etcd, Slurm");
  return [file, &console] { return Examine(*file, console); };
}

}  // namespace carillon::cli
