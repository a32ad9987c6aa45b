#include "tools/cli/commands/dev/commands.h"

#include <algorithm>

#include "tools/cli/command.h"
#include "tools/cli/commands/fault/commands.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/commands/sweep/commands.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/completion.h"

namespace carillon::cli {
namespace {

constexpr char kRun[] = "Run a testbed";
constexpr char kLook[] = "Look into it";
constexpr char kSteer[] = "Steer it";
constexpr char kBreak[] = "Break it on purpose";
constexpr char kSimulate[] = "Simulate a GPU";
constexpr char kProve[] = "Measure and prove";
constexpr char kType[] = "Type less";

constexpr Command kCommands[] = {
    {"demo", kRun,
     "bring up a testbed, serve memcached clients with it, report, take it "
     "down",
     "carillon demo\ncarillon demo --seconds 30 -o json", MakeDemo},
    {"up", kRun, "bring a testbed up",
     "carillon up -d                      the demo's devices, in the "
     "background\n"
     "carillon up -f lab.yaml             your own, until Ctrl-C\n"
     "carillon up -d -f lab.yaml --host a the part of host a\n"
     "carillon up --slurm -f lab.yaml -- --partition=gpu   all hosts",
     MakeUp},
    {"down", kRun, "end a testbed and leave nothing behind",
     "carillon down\ncarillon down --all\n"
     "carillon down -f lab.yaml    on all its hosts",
     MakeDown},
    {"restart", kRun, "end processes of a testbed and start them again",
     "carillon restart nic0\ncarillon restart gpud nic0 --kill", MakeRestart},
    {"ps", kRun, "list the processes of all testbeds",
     "carillon ps\ncarillon ps -w\n"
     "carillon ps -f lab.yaml    on all its hosts",
     MakePs},
    {"hosts", kRun, "list the hosts of a testbed on several machines",
     "carillon hosts\n"
     "carillon hosts -f lab.yaml    from anywhere, as etcd knows them",
     MakeHosts},
    {"logs", kRun, "show what the processes have logged",
     "carillon logs\ncarillon logs -f nic0", MakeLogs},
    {"exec", kRun, "run a program of yours in a testbed",
     "carillon exec -- python3 sensor.py\n"
     "carillon exec --name lab -- bazel-bin/devices/example/sensor",
     MakeExec},
    {"validate", kRun, "check a topology file or a fault plan",
     "carillon validate lab.yaml\n"
     "carillon validate plan.yaml\n"
     "carillon validate --schema > topology.schema.json\n"
     "carillon validate --plan-schema > plan.schema.json",
     MakeValidate},
    {"cleanup", kRun, "remove what dead testbeds have left",
     "carillon cleanup --dry-run\ncarillon cleanup", MakeCleanup},

    {"status", kLook, "the GPU at a glance: events, latencies, memory",
     "carillon status\ncarillon status -o json", MakeStatus},
    {"devices", kLook, "attached devices, with their own counters",
     "carillon devices\ncarillon devices nic0", MakeDevices},
    {"ekt", kLook, "event kernels: who registered them, how often each ran",
     "carillon ekt", MakeEkt},
    {"rings", kLook,
     "submission and completion rings of each event kernel (ESQ, ECQ)",
     "carillon rings\ncarillon rings -w 0.5", MakeRings},
    {"links", kLook, "the links to other hosts, as this host knows them",
     "carillon links\ncarillon links -w", MakeLinks},
    {"queues", kLook, "launches that wait or run", "carillon queues",
     MakeQueues},
    {"kernels", kLook, "the kernels that devices can register",
     "carillon kernels\ncarillon kernels memc_get", MakeKernels},
    {"top", kLook, "processes, rings and event kernels, as they go",
     "carillon top\ncarillon top --frames 1 > now.txt", MakeTop},
    {"watch", kLook, "show changes as they happen",
     "carillon watch\ncarillon watch -o json", MakeWatch},
    {"dashboard", kLook, "show a testbed in a browser, and to Prometheus",
     "carillon dashboard                      prints the link, until Ctrl-C\n"
     "carillon dashboard --role operator --role fault-injector\n"
     "carillon dashboard --link               of a topology's dashboard: true",
     MakeDashboard},
    {"postmortem", kLook,
     "the last steps of every process, and whether every event ended once",
     "carillon postmortem\ncarillon postmortem --last 50 --name demo",
     MakePostmortem},
    {"trace export", kLook,
     "every event of the recorders as a timeline, for Perfetto",
     "carillon trace export --out lab.pftrace\n"
     "carillon trace export --out lab.pftrace --last 2s\n"
     "carillon trace export --out dead.pftrace --dir /tmp/copy-of-lab",
     MakeTraceExport},

    {"kernel load", kSteer,
     "give gpud kernels of your own, from a file that nvcc made",
     "carillon kernel load saxpy.fatbin \\\n"
     "    --kernel 'saxpy(x: read f32[], y: write f32[], a: f32, n: u32)'\n"
     "carillon kernel load devices/example/saxpy.ptx \\\n"
     "    --kernel 'scale(y: write f32[], a: f32)'\n"
     "carillon kernel load lab.cubin --as blur --kernel 'blur_v2(in: read "
     "u8[], out: write u8[])'",
     MakeKernel},
    {"policy", kSteer, "show or set the sharing policy, and devices' shares",
     "carillon policy\ncarillon policy priority\n"
     "carillon policy --device nic0 --weight 4 --max-priority 3",
     MakePolicy},
    {"trace", kSteer, "show or set whether every event's stages are stamped",
     "carillon trace\ncarillon trace on\ncarillon trace reset", MakeTrace},

    {"fault run", kBreak,
     "run fault plans, and judge whether what must hold did hold",
     "carillon fault run docs/examples/kill-nic.yaml\n"
     "carillon fault run docs/examples/*.yaml --junit faults.xml\n"
     "carillon fault run plan.yaml --repeat 100 --shrink smallest.yaml",
     MakeFaultRun},
    {"fault points", kBreak, "where faults can strike, and what they can do",
     "carillon fault points\ncarillon fault points gpud.complete",
     MakeFaultPoints},
    {"fault list", kBreak, "the faults on a testbed's board, and their strikes",
     "carillon fault list\ncarillon fault list -o json", MakeFaultList},
    {"fault inject", kBreak, "put faults on a testbed's board",
     "carillon fault inject nic0 kill\n"
     "carillon fault inject nic0 kill --at device.ring --nth 1000\n"
     "carillon fault inject gpud stop --for 500ms --after 2s\n"
     "carillon fault inject gpud lose --at gpud.complete --device nic0 "
     "--probability 0.01 --times 0\n"
     "carillon fault inject plan.yaml",
     MakeFaultInject},
    {"fault clear", kBreak, "take faults off a testbed's board",
     "carillon fault clear kill-1\ncarillon fault clear --all", MakeFaultClear},
    {"sweep faults", kBreak, "many runs of fault plans, by many workers",
     "carillon sweep faults docs/examples/*.yaml --seeds 1-200 --out faults",
     MakeSweepFaults},

    {"sim run", kSimulate, "run a kernel of a PTX file on the simulated GPU",
     "nvcc -ptx -arch=compute_75 saxpy.cu\n"
     "carillon sim run saxpy.ptx saxpy --grid 4 --block 256 \\\n"
     "    'f32[1024]=iota' 'f32[1024]=1' 2 1024 --show 2 --gpu edge_table2",
     MakeSimRun},
    {"sim ops", kSimulate, "the PTX that it runs, or what a file has of it",
     "carillon sim ops\ncarillon sim ops saxpy.ptx", MakeSimOps},
    {"sim occupancy", kSimulate, "how many blocks of each kernel an SM holds",
     "carillon sim occupancy saxpy.ptx --block 16x16", MakeSimOccupancy},
    {"sim cfg", kSimulate, "a kernel's control flow as a graph (DOT)",
     "carillon sim cfg saxpy.ptx saxpy | dot -Tsvg > saxpy.svg", MakeSimCfg},
    {"sim figure", kSimulate, "EDGE's evaluation figures, beside its numbers",
     "carillon sim figure\n"
     "carillon sim figure fig12 --quick\n"
     "carillon sim figure all --out figures",
     MakeSimFigure},
    {"sweep figure", kSimulate, "EDGE's evaluation figures, by many workers",
     "carillon sweep figure fig12 --quick --out figures\n"
     "carillon sweep figure all --slurm --workers 48 --out figures \\\n"
     "    --etcd https://etcd1:2379 --tls-cert me.pem --tls-key me.key \\\n"
     "    --tls-ca ca.pem",
     MakeSweepFigure},
    {"sweep work", kSimulate, "be one more worker of a sweep",
     "carillon sweep work figures", MakeSweepWork},
    {"sim trace", kSimulate, "a timeline of warps, victims and events",
     "carillon sim trace CONV1 IPv4 --out conv1.pftrace\n"
     "carillon sim trace BP MemC --set edge.path=tb_scheduler --out bp.json",
     MakeSimTrace},
    {"hashsim", kSimulate,
     "hit rates of hash tables, beside those of MemcachedGPU's thesis",
     "carillon hashsim 4.8\ncarillon hashsim --quick --out figures",
     MakeHashSim},
    {"cfgsim", kSimulate, "SIMT efficiency of a control flow graph",
     "carillon cfgsim graph.dot\n"
     "carillon cfgsim --from-ptx saxpy.ptx --kernel saxpy\n"
     "carillon cfgsim --from-ptx saxpy.ptx --grid 4 --block 256 \\\n"
     "    'f32[1024]=iota' 'f32[1024]=1' 2 1000",
     MakeCfgSim},

    {"doctor", kProve, "check this machine", "carillon doctor", MakeDoctor},
    {"test", kProve, "run all tests",
     "carillon test\ncarillon test --quick\n"
     "carillon test --all -- --jobs=1",
     MakeTest},
    {"bench", kProve, "run the benchmarks",
     "carillon bench --list\ncarillon bench --out results\n"
     "carillon bench launch --backend auto --out results\n"
     "carillon bench sharing --backend sim",
     MakeBench},
    {"gpu-bundle", kProve,
     "make a directory that runs every GPU test and bench elsewhere",
     "carillon gpu-bundle\ncarillon gpu-bundle --tar --out /tmp/bundle",
     MakeGpuBundle},

    {"completion", kType, "make the shell complete command lines of carillon",
     "source <(carillon completion bash)\n"
     "source <(carillon completion zsh)\n"
     "carillon completion fish | source\n"
     "carillon completion bash > "
     "~/.local/share/bash-completion/completions/carillon",
     MakeCompletion},

    {"complete", "", "what the shells' scripts ask at each Tab", "",
     MakeComplete},
    {"supervise", "", "what `carillon up -d` leaves running", "",
     MakeSupervise},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  const auto found = std::find_if(
      std::begin(kCommands), std::end(kCommands),
      [&](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

}  // namespace carillon::cli
