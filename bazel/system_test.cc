// Compiles, links and runs one use of every label of @system, so that a wrapper
// that lost a library fails here and not in somebody's module.

#include <benchmark/benchmark.h>
#include <gmock/gmock.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/interprocess/mapped_region.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"
#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;

TEST(SystemLibraries, AbslStatusAndStrings) {
  absl::StatusOr<int> good = 3;
  absl::StatusOr<int> bad = absl::InvalidArgumentError(
      absl::StrFormat("grid %d: every dimension must be 1..%d", 0, 65535));
  EXPECT_EQ(good.value_or(0), 3);
  EXPECT_THAT(bad.status().ToString(), HasSubstr("grid 0"));
  int number = 0;
  EXPECT_TRUE(absl::SimpleAtoi("17", &number));
  EXPECT_EQ(number, 17);
  std::vector<std::string> parts = absl::StrSplit("a,b", ',');
  EXPECT_EQ(absl::StrJoin(parts, "+"), "a+b");
  EXPECT_EQ(absl::Substitute("$0/$1", 1, "x"), "1/x");
  EXPECT_EQ(std::string(absl::Cord("abc")), "abc");
  EXPECT_EQ(absl::Uint128Low64(absl::MakeUint128(1, 5)), 5u);
}

TEST(SystemLibraries, AbslContainersTimeAndThreads) {
  absl::flat_hash_map<std::string, int> map = {{"one", 1}};
  absl::flat_hash_set<int> set = {1, 2};
  EXPECT_EQ(map.at("one"), 1);
  EXPECT_TRUE(set.contains(2));
  EXPECT_EQ(absl::HashOf(std::string("x")), absl::HashOf(std::string("x")));
  absl::BitGen random;
  EXPECT_LT(absl::Uniform(random, 0, 4), 4);
  absl::Mutex mutex;
  absl::Notification done;
  {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(mutex.AwaitWithTimeout(
        absl::Condition(
            +[](absl::Notification* n) { return n->HasBeenNotified(); }, &done),
        absl::Milliseconds(1)));
  }
  done.Notify();
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_GT(absl::Now(), absl::UnixEpoch());
  EXPECT_EQ(absl::FormatDuration(absl::Milliseconds(1500)), "1.5s");
}

// Sends one empty message to `method` and returns how the server ended the
// call.
grpc::Status CallWithEmptyMessage(const std::shared_ptr<grpc::Channel>& channel,
                                  const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(30));
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  auto next_succeeds = [&queue] {
    void* tag;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  next_succeeds();
  call->WriteLast(grpc::ByteBuffer(nullptr, 0), grpc::WriteOptions(), nullptr);
  next_succeeds();
  grpc::ByteBuffer reply;
  do {
    call->Read(&reply, nullptr);
  } while (next_succeeds());
  grpc::Status status;
  call->Finish(&status, nullptr);
  next_succeeds();
  return status;
}

TEST(SystemLibraries, GrpcServesHealthAndReflection) {
  grpc::EnableDefaultHealthCheckService(true);
  // A name made of the process id would repeat: every sandbox counts from 1.
  char directory[] = "/tmp/carillon-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = absl::StrCat(directory, "/grpc");
  const std::string address = absl::StrCat("unix:", path);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::Status health =
      CallWithEmptyMessage(channel, "/grpc.health.v1.Health/Check");
  EXPECT_TRUE(health.ok()) << health.error_message();
  grpc::Status reflection = CallWithEmptyMessage(
      channel,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  EXPECT_TRUE(reflection.ok()) << reflection.error_message();
  grpc::Status unknown = CallWithEmptyMessage(channel, "/carillon.None/None");
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  server->Shutdown();
  unlink(path.c_str());
  EXPECT_EQ(rmdir(directory), 0);
}

TEST(SystemLibraries, Protobuf) {
  google::protobuf::Duration duration =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(1500);
  EXPECT_EQ(duration.seconds(), 1);
  EXPECT_THAT(duration.ShortDebugString(), HasSubstr("500000000"));
}

TEST(SystemLibraries, ZeroMq) {
  zmq::context_t context(1);
  zmq::socket_t left(context, zmq::socket_type::pair);
  zmq::socket_t right(context, zmq::socket_type::pair);
  left.bind("inproc://carillon");
  right.connect("inproc://carillon");
  left.send(zmq::str_buffer("ring"), zmq::send_flags::none);
  zmq::message_t message;
  ASSERT_TRUE(right.recv(message, zmq::recv_flags::none).has_value());
  EXPECT_EQ(message.to_string(), "ring");
}

struct Descriptor {
  int fd;
  boost::interprocess::mapping_handle_t get_mapping_handle() const {
    return {fd, false};
  }
};

TEST(SystemLibraries, BoostMapsAMemfd) {
  int fd = memfd_create("carillon", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  boost::interprocess::mapped_region region(
      Descriptor{fd}, boost::interprocess::read_write, 0, 4096);
  close(fd);
  static_cast<char*>(region.get_address())[4095] = 7;
  EXPECT_EQ(region.get_size(), 4096u);
}

TEST(SystemLibraries, SpdlogFormatsWithFmt) {
  std::ostringstream out;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  spdlog::logger logger("test", sink);
  logger.info("{} {:#x}", fmt::format("{:>3}", 1), 255);
  EXPECT_THAT(out.str(), HasSubstr("  1 0xff"));
}

TEST(SystemLibraries, Cli11YamlAndJson) {
  CLI::App app;
  std::string value;
  app.add_option("--value", value);
  app.parse("--value seven", false);
  EXPECT_EQ(value, "seven");
  EXPECT_EQ(YAML::Load("devices: [nic, fpga]")["devices"].size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(R"({"a": [1, 2]})")["a"][1], 2);
}

TEST(SystemLibraries, ZlibUnpacksWhatItPacked) {
  const std::string text(1000, 'x');
  std::vector<Bytef> packed(compressBound(text.size()));
  uLongf size = packed.size();
  ASSERT_EQ(compress(packed.data(), &size,
                     reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  std::string unpacked(text.size(), '\0');
  uLongf unpacked_size = unpacked.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(unpacked.data()),
                       &unpacked_size, packed.data(), size),
            Z_OK);
  EXPECT_EQ(unpacked, text);
}

TEST(SystemLibraries, Rapidcheck) {
  EXPECT_TRUE(rc::check("reversing twice changes nothing", [] {
    const auto before = *rc::gen::arbitrary<std::vector<int>>();
    auto after = before;
    std::reverse(after.begin(), after.end());
    std::reverse(after.begin(), after.end());
    RC_ASSERT(before == after);
  }));
}

void BM_Nothing(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(state.iterations());
}
BENCHMARK(BM_Nothing)->Iterations(1);

TEST(SystemLibraries, Benchmark) {
  std::ostringstream out;
  benchmark::ConsoleReporter reporter;
  reporter.SetOutputStream(&out);
  reporter.SetErrorStream(&out);
  EXPECT_EQ(benchmark::RunSpecifiedBenchmarks(&reporter), 1u);
}

}  // namespace
}  // namespace carillon
