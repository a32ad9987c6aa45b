#include "tools/testbed/topology/hosts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/testbed/topology/reader.h"

namespace carillon::testbed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLab[] = R"(
name: lab
mesh:
  timeout: 2
  lease: 30
  tls: {certificate: host.pem, key: host.key, ca: ca.pem}
hosts:
  a: {address: 10.0.0.5}
  b: {address: "10.0.0.6:4000"}
  c:
  d:
gpu: {host: b, backend: cpu}
devices:
  - {name: fpga0, kind: fpga, host: a}
  - {name: fpga1, kind: fpga, host: c, weight: 3}
  - {name: nic0, kind: nic, host: b}
)";

std::vector<std::string> Names(const Topology& topology) {
  std::vector<std::string> names;
  for (const DeviceEntry& device : topology.devices) {
    names.push_back(device.name);
  }
  return names;
}

// "b at 10.0.0.6:4000"
std::vector<std::string> Links(const HostPart& part) {
  std::vector<std::string> links;
  for (const HostPart::Link& link : part.links) {
    links.push_back(
        fmt::format("{} at {}", link.peer, link.address.ToString()));
  }
  return links;
}

Topology Lab() {
  const TopologyReading reading = ReadTopology(kLab, "lab");
  for (const Problem& problem : reading.problems) {
    ADD_FAILURE() << problem.ToString("lab.yaml");
  }
  return reading.topology;
}

TEST(Hosts, EachHasItsDevicesAndItsLinks) {
  const auto a = PartOf(Lab(), "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_THAT(Names(*a), ElementsAre("fpga0"));
  EXPECT_FALSE(a->part->has_gpu);
  EXPECT_THAT(Links(*a->part), ElementsAre("b at 10.0.0.6:4000"));

  const auto b = PartOf(Lab(), "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_THAT(Names(*b), ElementsAre("nic0"));
  EXPECT_TRUE(b->part->has_gpu);
  EXPECT_THAT(Links(*b->part),
              ElementsAre("a at 10.0.0.6:4000", "c at 10.0.0.6:4001"));
  ASSERT_EQ(b->part->other_devices.size(), 2u);
  EXPECT_EQ(b->part->other_devices[1].weight, 3u);

  const auto c = PartOf(Lab(), "c");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(Links(*c->part), ElementsAre("b at 10.0.0.6:4001"));
}

TEST(Hosts, EachSaysWhatCarriesTheEvents) {
  EXPECT_EQ(PartOf(Lab(), "a")->part->engine, "tls");
  std::string text = kLab;
  const std::string_view lease = "  lease: 30";
  text.replace(text.find(lease), lease.size(),
               "  lease: 30\n  engine: ucx\n  trusted: true");
  const TopologyReading reading = ReadTopology(text, "lab");
  ASSERT_THAT(reading.problems, IsEmpty());
  for (const char* host : {"a", "b", "c"}) {
    EXPECT_EQ(PartOf(reading.topology, host)->part->engine, "ucx") << host;
  }
}

TEST(Hosts, EtcdTellsTheAddressThatTheFileLeavesOut) {
  std::string text = kLab;
  const auto replace = [&](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("  b: {address: \"10.0.0.6:4000\"}", "  b: {node: gpu7}");
  replace("  lease: 30", "  lease: 30\n  etcd: [https://10.0.0.1:2379]");
  const TopologyReading reading = ReadTopology(text, "lab");
  ASSERT_THAT(reading.problems, IsEmpty());
  EXPECT_THAT(reading.topology.etcd, ElementsAre("https://10.0.0.1:2379"));
  EXPECT_EQ(reading.topology.hosts[1].node, "gpu7");
  for (const char* const host : {"a", "b", "c"}) {
    const auto part = PartOf(reading.topology, host);
    ASSERT_TRUE(part.ok()) << part.status();
    for (const HostPart::Link& link : part->part->links) {
      EXPECT_EQ(link.address.host, "");
    }
  }
}

TEST(Hosts, AnEtcdOfItsOwnIsOnTheGpusHostOnThePortBeforeTheLinks) {
  std::string text = kLab;
  const std::string_view lease = "  lease: 30";
  text.replace(text.find(lease), lease.size(), "  lease: 30\n  etcd: own");
  const TopologyReading reading = ReadTopology(text, "lab");
  ASSERT_THAT(reading.problems, IsEmpty());
  EXPECT_TRUE(reading.topology.own_etcd);
  EXPECT_THAT(reading.topology.etcd, ElementsAre("https://10.0.0.6:3999"));
  const auto part = PartOf(reading.topology, "b");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_THAT(Links(*part->part),
              ElementsAre("a at 10.0.0.6:4000", "c at 10.0.0.6:4001"));
  EXPECT_FALSE(Lab().own_etcd);
  // It is a process beside the devices, with a log of its own.
  const size_t name = text.find("nic0");
  text.replace(name, 4, "etcd");
  EXPECT_THAT(ReadTopology(text, "lab").problems[0].ToString("lab.yaml"),
              HasSubstr("device 'etcd': mesh: etcd: own starts a process of "
                        "that name"));
}

TEST(Hosts, AnEtcdElsewhereIsByTls) {
  for (const char* const good :
       {"https://10.0.0.1:2379", "https://lab.example.org:1",
        "http://127.0.0.1:2379", "http://[::1]:2379"}) {
    EXPECT_TRUE(ReadEtcdMember(good).ok()) << good;
  }
  for (const char* const bad :
       {"", "10.0.0.1:2379", "https://", "https://10.0.0.1",
        "http://10.0.0.1:2379", "http://localhost.example.org:2379",
        "unix:/tmp/x"}) {
    EXPECT_FALSE(ReadEtcdMember(bad).ok()) << bad;
  }
  EXPECT_THAT(
      std::string(ReadEtcdMember("http://10.0.0.1:2379").status().message()),
      HasSubstr("let it be https://"));
}

TEST(Hosts, OneHasAsManyDevicesAsOneProcessOfTheGpusHostMay) {
  const auto problems = [](std::string_view count, std::string_view gpu) {
    std::string text = kLab;
    text.replace(text.find("host: a}"), 7,
                 fmt::format("host: a, count: {}", count));
    text.replace(text.find("backend: cpu"), 12, gpu);
    return ReadTopology(text, "lab").problems.size();
  };
  EXPECT_EQ(problems("62", "backend: cpu"), 0u);
  EXPECT_EQ(problems("63", "backend: cpu"), 1u);
  EXPECT_EQ(problems("63", "devices_per_process: 64"), 0u);
}

TEST(Hosts, WithoutThemATopologyStaysAsItIs) {
  Topology topology =
      ReadTopology("name: lab\ngpu: {backend: cpu}\n", "").topology;
  const auto whole = PartOf(topology, "");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(whole->part.has_value());
}

TEST(Hosts, WhichOneThisIsMustBeSaidRightly) {
  const auto refusal = [](Topology topology, const std::string& host) {
    return std::string(PartOf(std::move(topology), host).status().message());
  };
  EXPECT_EQ(refusal(Lab(), ""),
            "the topology has hosts: say which of them this one is, as --host "
            "a (of a, b, c, d)");
  EXPECT_EQ(refusal(Lab(), "e"),
            "--host: 'e' is no host of this topology (a, b, c, d)");
  EXPECT_EQ(refusal(Lab(), "d"),
            "--host: 'd' has neither the GPU nor a device: there is nothing to "
            "bring up");
  EXPECT_EQ(refusal(ReadTopology("name: lab\n", "").topology, "a"),
            "--host: 'a', but the topology has no hosts: leave it out");
}

constexpr char kSimulatedLab[] = R"(
name: lab
hosts: {a: , b: , c: }
gpu: {host: b, backend: sim, timing: tiny}
links:
  - {from: a, to: b, latency: 2us}
  - {from: b, to: c, latency: 0}
devices:
  - {name: fpga0, kind: fpga, host: a}
  - {name: fpga1, kind: fpga, host: b}
  - {name: fpga2, kind: fpga, host: c}
)";

TEST(Hosts, InSimulatedTimeOneMachineIsAllOfThem) {
  const TopologyReading reading = ReadTopology(kSimulatedLab, "lab");
  ASSERT_THAT(reading.problems, IsEmpty());
  const auto all = PartOf(reading.topology, "");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->part.has_value());
  EXPECT_THAT(Names(*all), ElementsAre("fpga0", "fpga1", "fpga2"));
  std::vector<Nanoseconds> latencies;
  for (const DeviceEntry& device : all->devices) {
    latencies.push_back(LatencyOf(*all, device));
  }
  EXPECT_THAT(latencies, ElementsAre(2000, 0, 0));
  const absl::Status one = PartOf(reading.topology, "a").status();
  EXPECT_TRUE(absl::IsInvalidArgument(one)) << one;
  EXPECT_THAT(
      std::string(one.message()),
      AllOf(HasSubstr("--host: 'a': host 'b' has the GPU, and no address"),
            HasSubstr("without --host, this machine is all hosts")));
}

TEST(Hosts, InSimulatedTimeAHostMayBringUpItsPart) {
  std::string text = kSimulatedLab;
  const std::string_view hosts = "hosts: {a: , b: , c: }";
  text.replace(text.find(hosts), hosts.size(),
               "hosts: {a: , b: {address: 10.0.0.6}, c: }\n"
               "mesh: {tls: {certificate: x, key: y, ca: z}}");
  const TopologyReading reading = ReadTopology(text, "lab");
  ASSERT_THAT(reading.problems, IsEmpty());
  for (const char* const host : {"a", "b", "c"}) {
    const auto part = PartOf(reading.topology, host);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->part->has_gpu, std::string_view(host) == "b");
    EXPECT_EQ(part->devices.size(), 1u);
  }
}

TEST(Hosts, AnAddressIsInNumbersAndHasAPortThatIsKnown) {
  EXPECT_EQ((*ReadHostAddress("10.0.0.5"))->ToString(), "10.0.0.5:4711");
  EXPECT_EQ((*ReadHostAddress("10.0.0.5:1"))->ToString(), "10.0.0.5:1");
  EXPECT_EQ((*ReadHostAddress("::1"))->ToString(), "[::1]:4711");
  EXPECT_EQ((*ReadHostAddress("[::1]"))->ToString(), "[::1]:4711");
  EXPECT_EQ((*ReadHostAddress("[::1]:4"))->ToString(), "[::1]:4");
  for (const char* const bad :
       {"lab.example.org", "10.0.0.5:0", "10.0.0.5:x", "", "[::1", "1:2:"}) {
    EXPECT_FALSE(ReadHostAddress(bad).ok()) << bad;
  }
}

struct BadCase {
  const char* name;
  std::string text;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadCase& bad) {
  return out << bad.name;
}

std::string Replace(std::string text, std::string_view from,
                    std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}
std::string With(std::string_view from, std::string_view to) {
  return Replace(kLab, from, to);
}
std::string Simulated(std::string_view from, std::string_view to) {
  return Replace(kSimulatedLab, from, to);
}

class BadHosts : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadHosts, IsOneClearLine) {
  const TopologyReading reading = ReadTopology(GetParam().text, "lab");
  ASSERT_EQ(reading.problems.size(), 1u);
  EXPECT_THAT(reading.problems[0].ToString("lab.yaml"),
              HasSubstr(GetParam().message));
  // Nothing stands in the first line of a lab.
  if (GetParam().text.starts_with("\n")) {
    EXPECT_GT(reading.problems[0].line, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHosts,
    ::testing::Values(
        BadCase{
            "UnknownInADevice", With("fpga, host: a", "fpga, host: x"),
            "lab.yaml:14:5: device 'fpga0': 'x' is no host of this topology "
            "(a, b, c, d)"},
        BadCase{"DeviceWithoutHost", With("fpga, host: a", "fpga"),
                "device 'fpga0' has no host: say which, of a, b, c, d"},
        BadCase{"GpuWithoutHost", With("host: b, backend", "backend"),
                "lab.yaml:12:1: gpu has no host: say which, of a, b, c, d"},
        BadCase{"NoGpu", With("gpu: {host: b, backend: cpu}\n", ""),
                "lab.yaml:7:1: gpu has no host: say which, of a, b, c, d"},
        BadCase{"TwoOfOneName", With("  c:\n", "  a:\n"), "'a' "},
        BadCase{"GpusHostWithoutAddress",
                With("{address: \"10.0.0.6:4000\"}", ""),
                "lab.yaml:9:3: host 'b' has the GPU, and no address where the "
                "other hosts "
                "find it: give it address: HOST"},
        BadCase{"NoPortsForAllLinks", With("6:4000", "6:65535"),
                "address: there are no 2 ports from 65535 on, one a link"},
        BadCase{"AddressIsEveryOne", With("10.0.0.6:4000", "0.0.0.0:4000"),
                "'0.0.0.0:4000' is every address of a machine"},
        BadCase{"ShortLease", With("lease: 30", "lease: 2"),
                "lab.yaml:3:1: mesh: lease 2 is to be longer than timeout 2"},
        BadCase{"UcxIsNotTrusted", With("lease: 30", "engine: ucx"),
                "mesh: engine: the engine ucx sends events in plaintext, and "
                "whoever is on that network can read and forge them: where "
                "you trust all who are, say trusted, too"},
        BadCase{"UnknownEngine", With("lease: 30", "engine: zmq"), "tls, ucx"},
        BadCase{"TooManyWithLinks",
                With("  - {name: nic0",
                     "  - {name: n, kind: fpga, host: b, "
                     "count: 123}\n  - {name: nic0"),
                "gpud takes 127 devices, and each link is one: here are 126 "
                "devices and 2 links"},
        BadCase{"TooManyForOneLinkd",
                With("host: a}\n", "host: a, count: 63}\n"),
                "lab.yaml:8:3: host 'a' has 63 devices: gpud of host b takes "
                "62 at most of another host; put some on a third one, or set "
                "gpu: {devices_per_process: 64} (at most 127)"},
        BadCase{"PartnerOnAnotherHost",
                With("{name: fpga0, kind: fpga, host: a}",
                     "{name: x1, kind: exec, command: [sh], host: a}\n"
                     "  - {name: f9, kind: fpga, host: b, hand_to: x1, source: "
                     "cardiac, kernel: conv5x5}"),
                "device 'f9': hand_to names 'x1', which is on host 'a': no "
                "link carries hand_to"},
        BadCase{"AddressIsAName", With("10.0.0.5}", "lab.example.org}"),
                "address: "},
        BadCase{"KindThatNoLinkCarries",
                With("fpga0, kind: fpga", "h0, kind: cpu_host"),
                "device 'h0' (cpu_host) is on host 'a', and the GPU on 'b': no "
                "link carries background kernels; let both be on one host"},
        BadCase{"HandsOnOverALink",
                With("{name: fpga0, kind: fpga, host: a}",
                     "{name: fpga0, kind: fpga, host: a, hand_to: x1, source: "
                     "cardiac, kernel: conv5x5}\n"
                     "  - {name: x1, kind: exec, command: [sh], host: b}"),
                "no link carries hand_to"},
        BadCase{
            "NoCertificates",
            With("tls: {certificate: host.pem, key: host.key, ca: ca.pem}", ""),
            "hosts need mesh: {tls: {certificate: FILE, key: FILE, ca: "
            "FILE}}"},
        BadCase{"NoKey", With("key: host.key, ", ""), "tls has no key: "},
        BadCase{"LinkdsName", With("name: fpga0", "name: linkd-a"),
                "device 'linkd-a': what begins with linkd- is a link's own"},
        BadCase{
            "LatencyInWallTime",
            With("hosts:", "links: [{from: a, to: b, latency: 2us}]\nhosts:"),
            "links go with simulated time (gpu: timing): in wall time, a "
            "link takes what it takes; leave them out"},
        BadCase{"LinksWithoutHosts",
                "links: [{from: a, to: b, latency: 2us}]\n",
                "a link goes with hosts: {NAME: {address: HOST}}"},
        BadCase{
            "LinkOfNoHost", Simulated("from: a", "from: x"),
            "lab.yaml:6:5: link from x to b: 'x' is no host of this topology "
            "(a, b, c)"},
        BadCase{"LinkBesideTheGpu",
                Simulated("from: b, to: c", "from: a, to: c"),
                "link from a to c: a link is between host 'b', which has the "
                "GPU, and another one"},
        BadCase{"LinkToItself", Simulated("from: b, to: c", "from: b, to: b"),
                "link from b to b: a link is between host 'b', which has the "
                "GPU, and another one"},
        BadCase{"TwoLinks", Simulated("from: b, to: c", "from: b, to: a"),
                "lab.yaml:7:5: link from b to a: there is another one between "
                "these two"},
        BadCase{"NoLatency", Simulated(", latency: 2us", ""),
                "lab.yaml:6:5: a link has no latency: like 2us"},
        BadCase{"EmptyLatency", Simulated("latency: 2us", "latency: "),
                "latency has no value"},
        BadCase{"LinkWithOneEnd", Simulated("from: a, to: b", "from: a"),
                "lab.yaml:6:5: a link has no to: the other one"},
        BadCase{"LinkLeftOut",
                Simulated("  - {from: b, to: c, latency: 0}\n", ""),
                "lab.yaml:5:1: links leave out host 'c', which has devices: "
                "say how long its link to b takes, as {from: c, to: b, "
                "latency: 0}"},
        BadCase{"LatencyWithoutUnit", Simulated("2us", "2"),
                "latency: '2' is not a duration"},
        BadCase{"UnknownKeyOfALink",
                Simulated("latency: 0", "latency: 0, engine: tls"),
                "unknown key 'engine' of a link"},
        BadCase{"SimulatedKindThatNoLinkCarries",
                Simulated("fpga0, kind: fpga", "h0, kind: cpu_host"),
                "no link carries background kernels"},
        BadCase{
            "BackendRemote", With("backend: cpu", "backend: remote"),
            "backend: remote is what gpud of a host without the GPU gets by "
            "itself: name the hosts in `hosts`"},
        BadCase{"HostWithoutHosts",
                "devices: [{name: f, kind: fpga, host: a}]\n",
                "device 'f': host goes with hosts: {NAME: {address: HOST}}"},
        BadCase{"GpusHostWithoutHosts", "gpu: {host: a}\n",
                "gpu: host goes with hosts"},
        BadCase{"MeshWithoutHosts", "mesh: {lease: 3}\n",
                "mesh goes with hosts"},
        BadCase{"EtcdWithoutHosts", "mesh: {etcd: [\"http://127.0.0.1:1\"]}\n",
                "mesh goes with hosts"},
        BadCase{"OwnEtcdWithoutHosts", "mesh: {etcd: own}\n",
                "mesh goes with hosts"},
        BadCase{"OwnEtcdWithoutAddress",
                "mesh: {etcd: own, tls: {certificate: c, key: k, ca: a}}\n"
                "hosts: {a: , b: }\ngpu: {host: b}\n"
                "devices: [{name: f, kind: fpga, host: a}]\n",
                "etcd: own is on host 'b', which has the GPU, on the port "
                "before its address's: give it address: HOST"},
        BadCase{"OwnEtcdWithoutPort",
                "mesh: {etcd: own, tls: {certificate: c, key: k, ca: a}}\n"
                "hosts: {a: , b: {address: \"10.0.0.6:1\"}}\ngpu: {host: b}\n"
                "devices: [{name: f, kind: fpga, host: a}]\n",
                "or HOST:PORT from port 2 on"},
        BadCase{"OwnEtcdWithoutTls",
                "mesh: {etcd: own}\n"
                "hosts: {a: , b: {address: \"10.0.0.6\"}}\ngpu: {host: b}\n"
                "devices: [{name: f, kind: fpga, host: b}]\n",
                "etcd by https:// needs mesh: {tls: "},
        BadCase{"EtcdIsNoList", With("lease: 30", "etcd: http://127.0.0.1:1"),
                "etcd: name its members"},
        BadCase{"EtcdIsEmpty", With("lease: 30", "etcd: []"),
                "etcd: name its members"},
        BadCase{"EtcdWithoutTls",
                With("lease: 30", "etcd: [\"http://10.0.0.1:2379\"]"),
                "etcd: 'http://10.0.0.1:2379' is not of this machine"},
        BadCase{"LongName", With("  d:\n", "  abcdefghijklmnopqrstuvwxyz0:\n"),
                "hosts: 'abcdefghijklmnopqrstuvwxyz0' has 27 characters; a "
                "host's name has 26 at most"},
        BadCase{"UnknownKeyOfAHost", With("  d:\n", "  d: {adress: x}\n"),
                "unknown key 'adress' of a host; did you mean 'address'?"},
        BadCase{"UnknownKeyOfMesh", With("lease: 30", "leese: 30"),
                "unknown key 'leese' of mesh; did you mean 'lease'?"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace carillon::testbed
