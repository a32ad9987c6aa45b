// Probes of green contexts and their graphs.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tools/gpu_check/probes/green.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::Driver;
using gpud::cuda::Graph;
using gpud::cuda::GraphExec;
using std::chrono::seconds;

constexpr uint32_t kTargets = 8;

Answer GreenSplit(Kit& kit) {
  const CUdevResource all = AllSms(kit);
  nlohmann::json numbers = {{"sms", all.sm.smCount}};
  std::string text = fmt::format("{} SMs:", all.sm.smCount);
  for (const uint32_t flags :
       {0u, static_cast<uint32_t>(
                CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)}) {
    for (const uint32_t least : {1u, 2u, 4u, 8u, 16u}) {
      const Split split = SplitSms(kit, all, flags, least);
      const std::string name =
          fmt::format("{}{}", flags == 0 ? "" : "fine_", least);
      numbers[name] = {{"result", static_cast<int>(split.result)},
                       {"part", split.part},
                       {"rest", split.rest}};
      if (least == 2 || least == 8) {
        text += fmt::format(" at least {}{} gives {} + {};", least,
                            flags == 0 ? "" : " without co-scheduling",
                            split.part, split.rest);
      }
    }
  }
  return {.text = text, .numbers = std::move(numbers)};
}

// The event kernels' graphs are in one green context. May the dispatcher's
// graph be in another one?
Answer GreenLaunch(Kit& kit) {
  const gpud::cuda::Driver& driver = kit.driver();
  const Split split = SplitSms(kit, AllSms(kit), 0, 8);
  kit.Must(split.result, "split the SMs");
  CUcontext primary = nullptr;
  driver.cuCtxGetCurrent(&primary);
  CUcontext contexts[2];
  CUstream streams[2];
  for (int i = 0; i < 2; ++i) {
    CUgreenCtx green = MakeGreen(kit, split.resources[i]);
    kit.Must(driver.cuCtxFromGreenCtx(&contexts[i], green), "enter it");
    kit.Must(driver.cuGreenCtxStreamCreate(&streams[i], green,
                                           CU_STREAM_NON_BLOCKING, 0),
             "make its stream");
  }
  nlohmann::json numbers;
  std::string text;
  // A graph belongs to the context that is current when it is made.
  for (const int target : {0, 1}) {
    driver.cuCtxSetCurrent(contexts[target]);
    kit.Load();
    const DeviceBytes count = kit.Must(DeviceBytes::Make(driver, 4));
    const DeviceBytes handles =
        kit.Must(DeviceBytes::Make(driver, kTargets * sizeof(uint64_t)));
    std::vector<GraphExec> execs;
    std::vector<uint64_t> addresses;
    for (uint32_t i = 0; i < kTargets; ++i) {
      execs.push_back(kit.Must(kit.DeviceGraph(streams[target], "probe_count",
                                               1, count.as<uint32_t>())));
      addresses.push_back(reinterpret_cast<uint64_t>(execs.back().get()));
    }
    kit.Must(driver.cuStreamSynchronize(streams[target]), "upload the graphs");
    kit.Must(
        handles.Write(driver, addresses.data(), kTargets * sizeof(uint64_t)),
        "write the handles");
    driver.cuCtxSetCurrent(contexts[0]);
    kit.Load();
    auto result = kit.Must(DeviceBytes::Make(driver, sizeof(FireResult)));
    auto parent = kit.Must(
        kit.DeviceGraph(streams[0], "probe_fire", 1,
                        static_cast<const uint64_t*>(handles.as<uint64_t>()),
                        kTargets, 0u, result.as<FireResult>()));
    kit.Must(driver.cuGraphLaunch(parent.get(), streams[0]), "launch");
    const CUresult ended = kit.Await(streams[0], seconds(3));
    const char* const name = target == 0 ? "the same" : "another";
    if (ended != CUDA_SUCCESS) {
      text += fmt::format("{} context: {}; ", name, ErrorName(kit, ended));
      numbers[name] = {{"ended", static_cast<int>(ended)}};
      break;
    }
    const auto fired = ReadBack<FireResult>(kit, result);
    const auto ran = ReadBack<uint32_t>(kit, count);
    numbers[name] = {{"launched", fired.launched},
                     {"ran", ran},
                     {"error", ErrorName(kit, fired.error)}};
    text += fmt::format("{} context: {} of 8 launched, {} ran ({}); ", name,
                        fired.launched, ran, ErrorName(kit, fired.error));
  }
  driver.cuCtxSetCurrent(primary);
  return {.text = text, .numbers = std::move(numbers)};
}

// A graph of one kernel in a part of the SMs, whose arguments are changed before
// a launch: as launch path graph does.
class ChangedGraph {
 public:
  ChangedGraph(Kit& kit, CUgreenCtx green)
      : kit_(kit),
        driver_(kit.driver()),
        sms_(kit.Must(DeviceBytes::Make(driver_, kMostSms * 4))),
        marks_(sms_.as<uint32_t>()),
        blocks_(static_cast<uint32_t>(
            4 * kit.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))) {
    driver_.cuCtxGetCurrent(&primary_);
    kit.Must(driver_.cuCtxFromGreenCtx(&part_, green), "enter it");
    kit.Must(driver_.cuGreenCtxStreamCreate(&stream_, green,
                                            CU_STREAM_NON_BLOCKING, 0),
             "make its stream");
    node_.func = kit.Function("probe_where");
    node_.gridDimX = blocks_;
    node_.gridDimY = node_.gridDimZ = 1;
    node_.blockDimX = 1024;
    node_.blockDimY = node_.blockDimZ = 1;
    node_.kernelParams = parameters_;
  }

  // What the driver says of the change, and on how many SMs the kernel ran then.
  void Try(const char* name, bool captured, bool made_in_part,
           bool changed_in_part) {
    Graph graph;
    CUgraphNode node = nullptr;
    driver_.cuCtxSetCurrent(made_in_part ? part_ : primary_);
    CUresult result = captured ? Capture(graph, node) : Add(graph, node);
    if (result != CUDA_SUCCESS) return Say(name, "make", result);
    auto exec = gpud::cuda::Instantiate(driver_, graph.get(), 0);
    if (!exec.ok()) return Note(name, std::string(exec.status().message()));
    driver_.cuCtxSetCurrent(changed_in_part ? part_ : primary_);
    result = driver_.cuGraphExecKernelNodeSetParams(exec->get(), node, &node_);
    driver_.cuCtxSetCurrent(primary_);
    if (result != CUDA_SUCCESS) return Say(name, "change", result);
    result = driver_.cuGraphLaunch(exec->get(), stream_);
    if (result == CUDA_SUCCESS) result = kit_.Await(stream_, seconds(5));
    if (result != CUDA_SUCCESS) return Say(name, "launch", result);
    std::vector<uint32_t> marks(kMostSms);
    kit_.Must(driver_.cuMemcpyDtoH(marks.data(), sms_.address(), kMostSms * 4),
              "read the SMs");
    kit_.Must(driver_.cuMemsetD8(sms_.address(), 0, kMostSms * 4),
              "clear the SMs");
    kit_.Must(driver_.cuStreamSynchronize(nullptr), "clear the SMs");
    Note(name, std::ranges::count(marks, 1u));
  }

 private:
  static constexpr uint32_t kMostSms = 1024;

  void Say(const char* name, const char* what, CUresult result) {
    driver_.cuCtxSetCurrent(primary_);
    Note(name, fmt::format("{}: {}", what, ErrorName(kit_, result)));
  }
  CUresult Add(Graph& graph, CUgraphNode& node) {
    graph = kit_.Must(gpud::cuda::MakeGraph(driver_));
    return driver_.cuGraphAddKernelNode(&node, graph.get(), nullptr, 0, &node_);
  }
  CUresult Capture(Graph& graph, CUgraphNode& node) {
    CUresult result =
        driver_.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result != CUDA_SUCCESS) return result;
    result = kit_.Launch(stream_, "probe_where", blocks_, 1024, marks_, ns_);
    CUgraph captured = nullptr;
    const CUresult ended = driver_.cuStreamEndCapture(stream_, &captured);
    if (captured != nullptr) graph = Graph(&driver_, captured);
    if (result != CUDA_SUCCESS) return result;
    if (ended != CUDA_SUCCESS) return ended;
    size_t count = 1;
    return driver_.cuGraphGetRootNodes(captured, &node, &count);
  }

  Kit& kit_;
  const Driver& driver_;
  DeviceBytes sms_;
  uint32_t* marks_;
  uint64_t ns_ = 50'000;
  uint32_t blocks_;
  void* parameters_[3] = {&marks_, &ns_, nullptr};
  CUcontext primary_ = nullptr;
  CUcontext part_ = nullptr;
  CUstream stream_ = nullptr;
  CUDA_KERNEL_NODE_PARAMS node_ = {};
};

Answer GraphSet(Kit& kit) {
  const Split split = SplitSms(kit, AllSms(kit), 0, 8);
  kit.Must(split.result, "split the SMs");
  Note("part", split.part);
  ChangedGraph graph(kit, MakeGreen(kit, split.resources[0]));
  // What gpud does.
  graph.Try("named_in_part", false, true, true);
  const bool works = Noted()["named_in_part"].is_number();
  graph.Try("named_in_primary", false, false, false);
  graph.Try("named_in_part_changed_in_primary", false, true, false);
  graph.Try("captured_changed_in_part", true, false, true);
  graph.Try("captured_changed_in_primary", true, false, false);
  return {.bad = !works || Noted()["named_in_part"] > split.part};
}

constexpr Probe kProbes[] = {
    {"green_split", "Which parts can the SMs be split into?", &GreenSplit},
    {"green_launch",
     "May a graph in one green context launch graphs of another?",
     &GreenLaunch},
    {"graph_set",
     "In which context may a graph's kernel in a part of the SMs be changed, "
     "and on how many SMs does it run then?",
     &GraphSet},
};

}  // namespace

std::span<const Probe> GreenProbes() { return kProbes; }

}  // namespace carillon::gpu_check
