#include "tools/testbed/topology/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/temp_directory.h"
#include "tools/testbed/topology/schema.h"

namespace carillon::testbed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> Problems(std::string_view text) {
  std::vector<std::string> lines;
  for (const Problem& problem : ReadTopology(text, "fallback").problems) {
    lines.push_back(problem.ToString("t.yaml"));
  }
  return lines;
}

std::vector<std::string> Flags(const std::vector<Setting>& settings) {
  std::vector<std::string> flags;
  for (const Setting& setting : settings) {
    for (const std::string& flag : setting.ToFlags()) flags.push_back(flag);
  }
  return flags;
}

TEST(Topology, ReadsEverythingThatAFileMaySay) {
  const TopologyReading reading = ReadTopology(R"(
name: lab-1
record: 100
faults: true
dashboard: true
gpu:
  record: 65536
  backend: cuda
  restart: on_failure
  workers: 2
  ekt_entries: 64
  policy: priority
  max_priority: 3
  reserve_sms: 8
  memory: 64MiB
  trace: true
  model: {sms: 4, blocks_per_sm: 8, threads_per_sm: 1024, shared_bytes_per_sm: 16KiB}
devices:
  - name: nic0
    kind: nic
    udp_port: 0
    tcp_port: 0
    batch: 512
    store_bytes: 1GiB
  - {name: fpga, kind: fpga, count: 2, size: 64x32, check: true}
  - {name: host, kind: cpu_host, kernel: bfs, wait_ready: false, restart: on_failure}
  - {name: own, kind: exec, command: [/bin/own, --fast, 3]}
)",
                                               "fallback");
  ASSERT_THAT(reading.problems, SizeIs(0))
      << reading.problems[0].ToString("t.yaml");
  const Topology& topology = reading.topology;
  EXPECT_EQ(topology.name, "lab-1");
  EXPECT_EQ(topology.record, 100u);
  EXPECT_TRUE(topology.faults);
  EXPECT_TRUE(topology.dashboard);
  EXPECT_THAT(
      Flags(topology.gpu),
      ElementsAre("--record=65536", "--backend=cuda", "--workers=2",
                  "--ekt-entries=64", "--policy=priority", "--max-priority=3",
                  "--reserve-sms=8", "--memory=67108864", "--trace", "--sms=4",
                  "--blocks-per-sm=8", "--threads-per-sm=1024",
                  "--shared-per-sm=16384"));
  ASSERT_THAT(topology.devices, SizeIs(5));
  EXPECT_THAT(Flags(topology.devices[0].settings),
              ElementsAre("--udp-port=0", "--tcp-port=0", "--batch=512",
                          "--store-bytes=1073741824"));
  EXPECT_EQ(topology.devices[1].name, "fpga0");
  EXPECT_EQ(topology.devices[2].name, "fpga1");
  EXPECT_THAT(Flags(topology.devices[2].settings),
              ElementsAre("--size=64x32", "--check"));
  EXPECT_FALSE(topology.devices[3].wait_ready);
  EXPECT_EQ(topology.gpu_restart, RestartPolicy::kOnFailure);
  EXPECT_EQ(topology.devices[0].restart, RestartPolicy::kNever);
  EXPECT_EQ(topology.devices[3].restart, RestartPolicy::kOnFailure);
  EXPECT_THAT(topology.devices[4].command,
              ElementsAre("/bin/own", "--fast", "3"));
}

TEST(Topology, TakesTheFallbackNameAndNoDevices) {
  const TopologyReading reading = ReadTopology("gpu: {workers: 1}", "fallback");
  EXPECT_THAT(reading.problems, SizeIs(0));
  EXPECT_EQ(reading.topology.name, "fallback");
  EXPECT_THAT(reading.topology.devices, SizeIs(0));
}

TEST(Topology, TakesADevicesUser) {
  const TopologyReading reading = ReadTopology(
      "devices: [{name: a, kind: fpga, user: nobody}, {name: b, kind: fpga}]",
      "x");
  ASSERT_THAT(reading.problems, SizeIs(0));
  EXPECT_EQ(reading.topology.devices[0].user, "nobody");
  EXPECT_EQ(reading.topology.devices[1].user, "");
}

TEST(Topology, PassesFalseAsNoFlag) {
  const TopologyReading reading = ReadTopology("gpu: {trace: false}", "x");
  EXPECT_THAT(Flags(reading.topology.gpu), SizeIs(0));
}

struct BadFile {
  const char* what;
  const char* text;
  const char* problem;
};

class BadTopology : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadTopology, IsToldWithItsLine) {
  EXPECT_THAT(Problems(GetParam().text), ElementsAre(GetParam().problem));
}

constexpr BadFile kBadFiles[] = {
    {"Empty", "",
     "t.yaml: the file is empty; the smallest topology is `name: demo`"},
    {"OnlyComments", "# nothing\n",
     "t.yaml: the file is empty; the smallest topology is `name: demo`"},
    {"UnknownUser", "devices:\n  - {name: a, kind: fpga, user: nobdy}\n",
     "t.yaml:2:33: user: 'nobdy' is no user of this machine"},
    {"UserRoot", "devices:\n  - {name: a, kind: fpga, user: root}\n",
     "t.yaml:2:33: user: 'root' may do everything to a testbed: name another "
     "user, or leave user out"},
    {"UserWithFaults",
     "devices:\n  - {name: a, kind: fpga, count: 3, user: nobody}\nfaults: "
     "true\n",
     "t.yaml:2:43: user: faults goes without a user of its own: what a device "
     "does for it lies in files of the testbed's user; leave faults or user "
     "out"},
    {"UserWithRecord",
     "record: 100\ndevices:\n  - {name: a, kind: fpga, user: nobody}\n",
     "t.yaml:3:33: user: record goes without a user of its own: what a device "
     "does for it lies in files of the testbed's user; leave record or user "
     "out"},
    {"List", "- a\n",
     "t.yaml:1:1: the file holds a list; a topology is a map, like "
     "`name: demo`"},
    {"Syntax", "name: demo\ngpu: {workers: 1\n",
     "t.yaml:3:1: end of map flow not found"},
    {"TwoDocuments", "name: a\n---\nname: b\n",
     "t.yaml: the file has more than one document, or text behind the first "
     "that belongs to nothing"},
    // yaml-cpp finds endless documents in it.
    {"CommaBehind", "[a]\n, b\n",
     "t.yaml: the file has more than one document, or text behind the first "
     "that belongs to nothing"},
    {"Alias", "name: &n demo\ngpu: {policy: *n}\n",
     "t.yaml:2:15: aliases are not allowed"},
    {"UnknownTopKey", "device: []\n",
     "t.yaml:1:1: unknown key 'device' of a topology; did you mean 'devices'?"},
    {"UnknownFarKey", "elephants: []\n",
     "t.yaml:1:1: unknown key 'elephants' of a topology; known keys: name, "
     "gpu, record, faults, dashboard, devices, hosts, links, mesh"},
    {"DashboardAsList", "dashboard: [8123]\n",
     "t.yaml:1:1: dashboard is a list, not a value"},
    {"DashboardAsNumber", "dashboard: 8123\n",
     "t.yaml:1:12: dashboard: '8123' is neither true nor false"},
    {"UnknownDashboardKey", "dashboard: {prot: 8123}\n",
     "t.yaml:1:13: unknown key 'prot' of dashboard; did you mean 'port'?"},
    {"DashboardPortTooLarge", "dashboard: {port: 65536}\n",
     "t.yaml:1:19: port: '65536' is out of range; allowed: 0 to 65535"},
    {"FewRecords", "record: 63\n",
     "t.yaml:1:9: record: '63' is out of range; allowed: 64 to 4194304"},
    {"UnknownGpuKey", "gpu:\n  ekt_entires: 3\n",
     "t.yaml:2:3: unknown key 'ekt_entires' of gpu; did you mean "
     "'ekt_entries'?"},
    {"UnknownModelKey", "gpu:\n  model:\n    smx: 3\n",
     "t.yaml:3:5: unknown key 'smx' of gpu: model; did you mean 'sms'?"},
    {"UnknownDeviceKey",
     "devices:\n  - name: nic0\n    kind: nic\n    udp-port: 1\n",
     "t.yaml:4:5: unknown key 'udp-port' of a device of kind nic; did you mean "
     "'udp_port'?"},
    {"OtherKindsKey", "devices:\n  - {name: f, kind: fpga, command: [x]}\n",
     "t.yaml:2:27: unknown key 'command' of a device of kind fpga; known keys: "
     "name, kind, count, wait_ready, restart, user, weight, max_priority, "
     "host, "
     "source, kernel, size, fps, frames, check, "
     "store, store_raw, ring, priority, hand_to, log_level"},
    {"DuplicateKey", "name: a\ngpu: {}\nname: b\n",
     "t.yaml:3:1: key 'name' is there twice (first in line 1)"},
    {"MergeKey", "gpu:\n  <<: {workers: 1}\n",
     "t.yaml:2:3: unknown key '<<' of gpu; known keys: model, tls, restart, "
     "host, "
     "backend, driver, timing, event_log, workers, "
     "ekt_entries, devices_per_process, policy, max_priority, reserve_sms, "
     "preempt_us, max_spin_ns, "
     "memory, copy_in_chunk, copy_out_chunk, heap, lease_timeout, "
     "listen, trace, "
     "record, "
     "log_level"},
    {"BadRestart", "gpu:\n  restart: onfailure\n",
     "t.yaml:2:12: restart: 'onfailure' is not known; did you mean "
     "'on_failure'? (allowed: never, on_failure)"},
    {"BadDeviceRestart",
     "devices:\n  - {name: f, kind: fpga, restart: [never]}\n",
     "t.yaml:2:27: restart is a list, not a value"},
    {"MapAsKey", "? {a: b}\n: 1\n",
     "t.yaml:1:3: a key of the topology is a map"},
    {"BadName", "name: Lab 1\n",
     "t.yaml:1:7: name: 'Lab 1' is no name; allowed: 1 to 32 of a-z, 0-9, "
     "'_', '-'"},
    {"LongName", "name: abcdefghijklmnopqrstuvwxyz0123456\n",
     "t.yaml:1:7: name: 'abcdefghijklmnopqrstuvwxyz0123456' is no name; "
     "allowed: 1 to 32 of a-z, 0-9, '_', '-'"},
    {"PathAsName", "name: ../x\n",
     "t.yaml:1:7: name: '../x' is no name; allowed: 1 to 32 of a-z, 0-9, '_', "
     "'-'"},
    {"NoValue", "gpu:\n  workers:\n", "t.yaml:2:3: workers has no value"},
    {"ListAsValue", "gpu:\n  workers: [1]\n",
     "t.yaml:2:3: workers is a list, not a value"},
    {"GpuAsValue", "gpu: cpu\n", "t.yaml:1:1: gpu is a value, not a map"},
    {"WordAsNumber", "gpu: {workers: many}\n",
     "t.yaml:1:16: workers: 'many' is not a whole number; allowed: 0 to 1024"},
    {"FractionAsNumber", "gpu: {workers: 1.5}\n",
     "t.yaml:1:16: workers: '1.5' is not a whole number; allowed: 0 to 1024"},
    {"NumberTooLarge", "gpu: {ekt_entries: 2048}\n",
     "t.yaml:1:20: ekt_entries: '2048' is out of range; allowed: 1 to 1024"},
    {"NumberNegative", "gpu: {ekt_entries: -1}\n",
     "t.yaml:1:20: ekt_entries: '-1' is out of range; allowed: 1 to 1024"},
    {"NumberHuge", "gpu: {ekt_entries: 99999999999999999999}\n",
     "t.yaml:1:20: ekt_entries: '99999999999999999999' is out of range; "
     "allowed: 1 to 1024"},
    {"NoPowerOfTwo", "devices: [{name: n, kind: nic, ring: 48}]\n",
     "t.yaml:1:38: ring: 48 is not a power of two; the nearest are 32 and 64"},
    {"NoBoolean", "gpu: {trace: yes}\n",
     "t.yaml:1:14: trace: 'yes' is neither true nor false"},
    {"NoSize", "gpu: {memory: 64MB}\n",
     "t.yaml:1:15: memory: '64MB' is not a size; write a number with KiB, MiB, "
     "GiB or TiB, like 64MiB"},
    {"SizeTooSmall", "gpu: {memory: 1KiB}\n",
     "t.yaml:1:15: memory: '1KiB' is out of range; allowed: 0, or 1MiB to "
     "1TiB"},
    {"NoChoice", "gpu: {policy: prioritiy}\n",
     "t.yaml:1:15: policy: 'prioritiy' is not known; did you mean 'priority'? "
     "(allowed: configured, first_come, priority, p1, p2, reservation, "
     "dynamic_reservation, exclusive, gpes, ptb)"},
    {"NoFiniteNumber", "devices: [{name: f, kind: fpga, fps: nan}]\n",
     "t.yaml:1:38: fps: 'nan' is not a number; allowed: 0 to 1000000"},
    {"InfiniteNumber", "devices: [{name: f, kind: fpga, fps: inf}]\n",
     "t.yaml:1:38: fps: 'inf' is out of range; allowed: 0 to 1000000"},
    {"NameAsAddress", "devices: [{name: n, kind: nic, listen: localhost}]\n",
     "t.yaml:1:40: listen: 'localhost' is not an IP address; give one of this "
     "machine, such as 127.0.0.1, or 0.0.0.0 for all"},
    {"FewerBuffersThanABatch",
     "devices: [{name: n, kind: nic, packet_buffers: 8}]\n",
     "t.yaml:1:48: packet_buffers: '8' is less than a batch of 32"},
    {"StoreWithoutAnEnd", "devices: [{name: f, kind: fpga, store: out}]\n",
     "t.yaml:1:40: store: it would fill the disk; say how many --frames "
     "(frames)"},
    {"HandToOfAnotherKernel", "devices: [{name: f, kind: fpga, hand_to: h}]\n",
     "t.yaml:1:42: hand_to: the device that takes the frames knows only those "
     "of --source cardiac (source) and --kernel conv5x5 (kernel)"},
    {"HandToNobody",
     "devices: [{name: f, kind: fpga, kernel: conv5x5, hand_to: h}]\n",
     "t.yaml:1:59: hand_to: 'f' names 'h', which is no device of this "
     "topology"},
    {"TakeFromNobody", "devices: [{name: h, kind: cpu_host, take_from: f}]\n",
     "t.yaml:1:48: take_from: 'h' names 'f', which is no device of this "
     "topology"},
    {"HandToWhoDoesNotTake",
     "devices:\n  - {name: f, kind: fpga, kernel: conv5x5, hand_to: h}\n"
     "  - {name: h, kind: cpu_host}\n",
     "t.yaml:2:53: hand_to: 'f' names 'h', which has no take_from; the two "
     "must name each other"},
    {"TakeFromWhoDoesNotHandOn",
     "devices:\n  - {name: f, kind: fpga}\n"
     "  - {name: h, kind: cpu_host, take_from: f}\n",
     "t.yaml:3:42: take_from: 'h' names 'f', which has no hand_to; the two "
     "must name each other"},
    {"HandToWhoTakesFromAnother",
     "devices:\n"
     "  - {name: f, kind: fpga, kernel: conv5x5, hand_to: h, count: 2}\n"
     "  - {name: h, kind: cpu_host, take_from: f0}\n",
     "t.yaml:2:53: hand_to: 'f1' names 'h', which has take_from: f0; the two "
     "must name each other"},
    {"DriverOfAnotherBackend", "gpu: {backend: cpu, driver: sim}\n",
     "t.yaml:1:29: driver: it goes with --backend cuda (backend): no other "
     "back-end runs on a driver"},
    {"TimeOfAnotherGpu", "gpu: {backend: cpu, timing: tiny}\n",
     "t.yaml:1:29: timing: it goes with --backend sim (backend): no other GPU "
     "has a time of its own"},
    {"EventLogInWallTime", "gpu: {backend: sim, event_log: x.csv}\n",
     "t.yaml:1:32: event_log: it goes with --timing (timing): in wall time, "
     "let devices trace their events"},
    {"NoSlicesToBound", "gpu: {backend: cpu, preempt_us: 100}\n",
     "t.yaml:1:33: preempt_us: it goes with --backend cuda (backend): "
     "elsewhere "
     "a slice of the policy gpes is as many blocks as the GPU holds at once"},
    {"NoSmsToReserve", "gpu: {backend: cpu, reserve_sms: 8}\n",
     "t.yaml:1:34: reserve_sms: it goes with the policies reservation and "
     "dynamic_reservation here (policy), and without one with --backend cuda "
     "(backend)"},
    {"AllSmsReserved",
     "gpu: {backend: cpu, policy: reservation, reserve_sms: 16}\n",
     "t.yaml:1:55: reserve_sms: 16 of 16 SMs for events: each side needs one; "
     "have more --sms (sms)"},
    {"WorkersInSimulatedTime",
     "gpu: {backend: sim, timing: tiny, workers: 2}\n",
     "t.yaml:1:44: workers: it does not go with --timing (timing): one thread "
     "is the simulated GPU"},
    {"ModelInSimulatedTime",
     "gpu: {backend: sim, timing: tiny, model: {sms: 1}}\n",
     "t.yaml:1:1: the GPU's model (--sms, --blocks-per-sm, ...; model) does "
     "not go with --timing (timing), whose configuration has its own: change "
     "a copy of that one"},
    {"PriorityAboveTheDevices",
     "devices: [{name: x, kind: cpu_host, priority: 5, max_priority: 3}]\n",
     "t.yaml:1:47: priority: 'x' asks for 5, and the device's max_priority is "
     "3"},
    {"PriorityAboveTheGpus",
     "gpu: {max_priority: 2}\ndevices: [{name: x, kind: cpu_host, priority: "
     "5}]\n",
     "t.yaml:2:47: priority: 'x' asks for 5, and the max_priority of gpu is 2"},
    {"HeapThatCudaMakes", "gpu: {backend: cuda, heap: 16MiB}\n",
     "t.yaml:1:28: heap: the cuda back-end leaves the heap of malloc() as CUDA "
     "makes it; leave it out"},
    {"PolicyOfAnotherBackEnd", "gpu: {backend: cuda, policy: p1}\n",
     "t.yaml:1:30: policy: sharing policy 'p1': the cuda back-end can do: "
     "priority, reservation, exclusive, gpes, ptb"},
    {"PolicyOfSimulatedTime", "gpu: {backend: cpu, policy: configured}\n",
     "t.yaml:1:29: policy: sharing policy 'configured': the cpu back-end, and "
     "sim in wall time, can do: first_come, priority, p1, p2, reservation, "
     "dynamic_reservation, exclusive, gpes"},
    {"NoDimensions", "devices: [{name: f, kind: fpga, size: 64}]\n",
     "t.yaml:1:39: size: '64' is not WIDTHxHEIGHT, like 640x480"},
    {"DimensionsTooLarge", "devices: [{name: f, kind: fpga, size: 64x9999}]\n",
     "t.yaml:1:39: size: '64x9999' is out of range; allowed: WIDTHxHEIGHT, "
     "each 1 to 8192"},
    {"ControlCharacter",
     "devices: [{name: n, kind: nic, listen: \"\\e[2J\"}]\n",
     "t.yaml:1:40: listen: '\\x1b[2J' holds a control character"},
    {"DevicesAsMap", "devices: {nic0: {kind: nic}}\n",
     "t.yaml:1:1: devices is a map, not a list"},
    {"DeviceAsWord", "devices: [nic0]\n",
     "t.yaml:1:11: a device is a map with at least name and kind; this is a "
     "value"},
    {"NoDeviceName", "devices:\n  - kind: nic\n",
     "t.yaml:2:5: the device has no name"},
    {"NoDeviceKind", "devices:\n  - name: nic0\n",
     "t.yaml:2:5: the device has no kind"},
    {"UnknownKind", "devices: [{name: x, kind: fgpa}]\n",
     "t.yaml:1:27: kind: 'fgpa' is not known; did you mean 'fpga'? (allowed: "
     "nic, fpga, cpu_host, router, exec)"},
    {"ReservedName", "devices: [{name: gpud, kind: fpga}]\n",
     "t.yaml:1:18: name: 'gpud' is a name that Carillon uses itself"},
    {"SameName",
     "devices:\n  - {name: x, kind: fpga}\n  - {name: x, kind: fpga}\n",
     "t.yaml:3:12: name: two devices are called 'x' (the first in line 2)"},
    {"SameNameByCount",
     "devices:\n  - {name: x, kind: fpga, count: 3}\n"
     "  - {name: x1, kind: fpga}\n",
     "t.yaml:3:12: name: two devices are called 'x1' (the first in line 2)"},
    {"NameTooLongByCount",
     "devices:\n  - {name: abcdefghijklmnopqrstuvwxyz012345, kind: fpga, "
     "count: 1}\n",
     "t.yaml:2:12: name: 'abcdefghijklmnopqrstuvwxyz0123450' is no name; "
     "allowed: 1 to 32 of a-z, 0-9, '_', '-'"},
    {"CountZero", "devices: [{name: x, kind: fpga, count: 0}]\n",
     "t.yaml:1:40: count: '0' is out of range; allowed: 1 to 127"},
    {"TooManyDevices",
     "devices:\n  - {name: x, kind: fpga, count: 127}\n"
     "  - {name: y, kind: fpga}\n",
     "t.yaml:1:1: 128 devices; allowed: 127"},
    {"SharedPort", "devices: [{name: n, kind: nic, count: 2, tcp_port: 0}]\n",
     "t.yaml:1:18: 2 devices cannot share a port; leave count out, or set "
     "udp_port and tcp_port to 0"},
    {"OnePortForTwo",
     "devices:\n  - {name: n, kind: nic, udp_port: 99, tcp_port: 0}\n"
     "  - {name: m, kind: nic, udp_port: 99, tcp_port: 0}\n",
     "t.yaml:3:12: udp_port: 'n' has the same one; 0 takes any that is free"},
    {"TheDefaultPortForTwo",
     "devices:\n  - {name: n, kind: nic, udp_port: 0}\n"
     "  - {name: m, kind: nic, udp_port: 0}\n",
     "t.yaml:3:12: tcp_port: 'n' has the same one; 0 takes any that is free"},
    {"NoCommand", "devices: [{name: x, kind: exec}]\n",
     "t.yaml:1:11: the exec device has no command"},
    {"EmptyCommand", "devices: [{name: x, kind: exec, command: []}]\n",
     "t.yaml:1:33: command must be a list, like [./my_device, --fast]"},
    {"CommandAsText", "devices: [{name: x, kind: exec, command: ls -l}]\n",
     "t.yaml:1:33: command must be a list, like [./my_device, --fast]"},
    {"CommandOfMaps", "devices: [{name: x, kind: exec, command: [{a: b}]}]\n",
     "t.yaml:1:43: a word of command is a map"},
};

INSTANTIATE_TEST_SUITE_P(EveryFault, BadTopology,
                         ::testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return info.param.what; });

TEST(Topology, ServesOverTcpWithTlsOrNotAtAll) {
  EXPECT_THAT(Problems("gpu:\n  listen: 127.0.0.1:4000\n"),
              ElementsAre(HasSubstr("t.yaml:2:3: listen needs tls: {")));
  EXPECT_THAT(Problems("gpu:\n  tls: {certificate: a, key: b, client_ca: c}\n"),
              ElementsAre(HasSubstr("t.yaml:2:3: tls goes with listen")));
  EXPECT_THAT(
      Problems("gpu:\n  listen: lab:4000\n  tls: {certificate: a, ca: b}\n"),
      ElementsAre(HasSubstr("t.yaml:2:11: listen: 'lab:4000' names a host"),
                  HasSubstr("t.yaml:3:3: tls has no key: "),
                  HasSubstr("t.yaml:3:3: tls has no client_ca: "),
                  HasSubstr("unknown key 'ca' of gpu: tls")));
}

TEST(Topology, LetsDevicesHandFramesOnThatNameEachOther) {
  const std::string fpga =
      "  - {name: f, kind: fpga, kernel: conv5x5, hand_to: ";
  EXPECT_THAT(
      Problems("devices:\n  - {name: h, kind: cpu_host, take_from: f}\n" +
               fpga + "h}\n"),
      SizeIs(0));
  // What a user's own device takes, its code says.
  EXPECT_THAT(Problems("devices:\n" + fpga +
                       "x}\n  - {name: x, kind: exec, command: [./x]}\n"),
              SizeIs(0));
}

TEST(Topology, ItsCertificatesAreRelativeToTheFile) {
  TopologyReading reading = ReadTopology(
      "gpu:\n  listen: '[::1]:0'\n"
      "  tls: {certificate: tls/a.pem, key: /b.key, client_ca: ../c.pem}\n",
      "x");
  EXPECT_THAT(reading.problems, SizeIs(0));
  AnchorPaths("/lab/x.yaml", reading.topology);
  EXPECT_THAT(Flags(reading.topology.gpu),
              ElementsAre("--listen=[::1]:0", "--tls-cert=/lab/tls/a.pem",
                          "--tls-key=/b.key", "--tls-client-ca=/c.pem"));
}

TEST(Topology, LimitsASizeByItsKernel) {
  const auto host = [](const std::string& keys) {
    return "devices: [{name: a, kind: cpu_host, " + keys + "}]";
  };
  const std::string too_large =
      "t.yaml:1:43: size: '4097' is out of range with kernel matmul; allowed: "
      "0 to 4096";
  EXPECT_THAT(Problems(host("size: 4096")), SizeIs(0));
  EXPECT_THAT(Problems(host("size: 4097")), ElementsAre(too_large));
  EXPECT_THAT(Problems(host("size: 4097, kernel: matmul")),
              ElementsAre(too_large));
  EXPECT_THAT(Problems(host("size: 4097, kernel: bfs")), SizeIs(0));
  EXPECT_THAT(Problems(host("size: 4097, kernel: bsf")),
              ElementsAre(HasSubstr("kernel: 'bsf' is not known")));
}

TEST(Topology, TellsAllProblemsInTheOrderOfTheirLines) {
  EXPECT_THAT(Problems("devices:\n"
                       "  - name: nic0\n"
                       "    kind: nic\n"
                       "    ring: 3\n"
                       "    bacth: 32\n"
                       "  - name: nic0\n"
                       "    kind: nix\n"
                       "gpu: {policy: fifo}\n"
                       "nmae: x\n"),
              ElementsAre(HasSubstr("t.yaml:4:11: ring"),
                          HasSubstr("t.yaml:5:5: unknown key 'bacth'"),
                          HasSubstr("t.yaml:7:11: kind"),
                          HasSubstr("t.yaml:8:15: policy"),
                          HasSubstr("t.yaml:9:1: unknown key 'nmae'")));
}

TEST(Topology, RefusesDeepNestingWithoutBuildingIt) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(Problems("devices: " + deep),
              ElementsAre("t.yaml:1:18: nested deeper than 16 levels"));
}

TEST(Topology, RefusesALargeFile) {
  EXPECT_THAT(Problems("name: x\n" + std::string(kMaxYamlBytes, '#')),
              ElementsAre("t.yaml: the file is too long; allowed: 1MiB"));
}

TEST(Topology, SurvivesBytesThatAreNoText) {
  for (int seed = 0; seed < 2000; ++seed) {
    std::string text =
        "name: demo\ngpu: {workers: 1}\ndevices:\n  - {name: a, "
        "kind: nic}\n";
    srand(seed);
    for (int i = 0; i < 4; ++i) {
      text[rand() % text.size()] = static_cast<char>(rand());
    }
    Problems(text);  // neither throws nor crashes
  }
}

class TopologyFile : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const TempDirectory directory_;
  const std::string& folder_ = directory_.path();
  const std::string path_ = folder_ + "/t.yaml";
};

TEST_F(TopologyFile, ThatIsNotThereIsNotFound) {
  const auto topology = LoadTopology(path_, "x");
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(topology.status().message(),
            "cannot read " + path_ + ": No such file or directory");
}

TEST_F(TopologyFile, MayNotBeAFolder) {
  EXPECT_EQ(LoadTopology(folder_, "x").status().message(),
            folder_ + " is a folder, not a topology file");
}

TEST_F(TopologyFile, AnchorsPathsButNotWords) {
  Write(
      "devices:\n"
      "  - {name: a, kind: fpga, source: frames/, frames: 1, store: ../out}\n"
      "  - {name: b, kind: fpga, source: cardiac, frames: 1, store: /abs}\n");
  const auto topology = LoadTopology(path_, "x");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_THAT(Flags(topology->devices[0].settings),
              ElementsAre("--source=" + folder_ + "/frames/", "--frames=1",
                          "--store=/tmp/out"));
  EXPECT_THAT(Flags(topology->devices[1].settings),
              ElementsAre("--source=cardiac", "--frames=1", "--store=/abs"));
}

TEST(Topology, ReadsTheDashboardsPort) {
  const auto read = [](const std::string& text) {
    const TopologyReading reading = ReadTopology(text, "x");
    EXPECT_THAT(reading.problems, SizeIs(0)) << text;
    return std::pair(reading.topology.dashboard,
                     reading.topology.dashboard_port);
  };
  EXPECT_EQ(read("dashboard: {port: 8123}\n"), std::pair(true, uint64_t{8123}));
  EXPECT_EQ(read("dashboard: {port: 0}\n"), std::pair(true, uint64_t{0}));
  EXPECT_EQ(read("dashboard: {}\n"), std::pair(true, uint64_t{0}));
  EXPECT_EQ(read("dashboard: true\n"), std::pair(true, uint64_t{0}));
  EXPECT_EQ(read("dashboard: false\n"), std::pair(false, uint64_t{0}));
  EXPECT_EQ(read("name: a\n"), std::pair(false, uint64_t{0}));
}

TEST_F(TopologyFile, AnchorsTheProgramsOfExecDevices) {
  Write(
      "devices:\n"
      "  - {name: a, kind: exec, command: [./own]}\n"
      "  - {name: b, kind: exec, command: [sub/../own]}\n"
      "  - {name: c, kind: exec, command: [/bin/own]}\n"
      "  - {name: d, kind: exec, command: [own]}\n");
  const auto topology = LoadTopology(path_, "x");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->devices[0].command[0], folder_ + "/own");
  EXPECT_EQ(topology->devices[1].command[0], folder_ + "/own");
  EXPECT_EQ(topology->devices[2].command[0], "/bin/own");
  EXPECT_EQ(topology->devices[3].command[0], "own");
}

TEST_F(TopologyFile, GivesOneLineAProblem) {
  Write("a: 1\nb: 2\n");
  const auto topology = LoadTopology(path_, "x");
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      topology.status().message(),
      path_ +
          ":1:1: unknown key 'a' of a topology; known keys: name, "
          "gpu, record, faults, dashboard, devices, hosts, links, mesh\n" +
          path_ +
          ":2:1: unknown key 'b' of a topology; known keys: "
          "name, gpu, record, faults, dashboard, devices, hosts, links, mesh");
}

}  // namespace
}  // namespace carillon::testbed
