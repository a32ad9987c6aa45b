// What people and tools see of a testbed, and how they steer it.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

// The answer of one call with `message` as its request, whatever the method.
std::string RawCall(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& method, const std::string& message,
                    grpc::Status* status) {
  grpc::GenericStub stub(channel);
  const auto context = Within();
  grpc::CompletionQueue queue;
  void* tag;
  bool ok;
  auto call = stub.PrepareCall(context.get(), method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice slice(message);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  std::string bytes;
  call->Read(&answer, nullptr);
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (ok && answer.Dump(&slices).ok()) {
    for (const auto& part : slices) {
      bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  call->Finish(status, nullptr);
  queue.Next(&tag, &ok);
  return bytes;
}

TEST(Admin, StatusTellsHowTheTestbedIs) {
  TestTestbed testbed({.testbed = "lab",
                       .backend_options = {.gpu = {.sms = 3},
                                           .policy = "priority",
                                           .workers = 2},
                       .ekt_entries = 64,
                       .memory_bytes = 32 << 20});
  const auto status = testbed.Status();
  EXPECT_EQ(status.testbed(), "lab");
  EXPECT_EQ(status.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_GT(status.uptime_ns(), 0u);
  EXPECT_EQ(status.backend(), "cpu");
  EXPECT_EQ(status.policy(), "priority");
  EXPECT_EQ(status.workers(), 2u);
  EXPECT_EQ(status.ekt_entries(), 64u);
  EXPECT_EQ(status.gpu().sms(), 3u);
  EXPECT_EQ(status.gpu().shared_bytes_per_sm(), 48u << 10);
  EXPECT_EQ(status.memory_bytes(), 32u << 20);
  EXPECT_FALSE(status.tracing());
}

TEST(Admin, HealthAndReflectionAnswer) {
  TestTestbed testbed;
  grpc::Status status;
  // HealthCheckResponse{status: SERVING}
  EXPECT_EQ(
      RawCall(testbed.channel(), "/grpc.health.v1.Health/Check", "", &status),
      std::string("\x08\x01"));
  EXPECT_TRUE(status.ok()) << status.error_message();
  // ServerReflectionRequest{list_services: "*"}
  const std::string services =
      RawCall(testbed.channel(),
              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x01*"), &status);
  for (const char* service :
       {"carillon.v1.Devices", "carillon.v1.Events", "carillon.v1.Admin"}) {
    EXPECT_NE(services.find(service), std::string::npos) << service;
  }
}

TEST(Admin, ErrorsCarryReasonSubjectAndHint) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  auto request = device.NullEvent();
  request.set_kernel("nul_event");
  const auto context = Within();
  v1::RegisterEventResponse response;
  const grpc::Status status =
      testbed.events().RegisterEvent(context.get(), request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  const v1::ErrorDetail detail = DetailIn(*context);
  EXPECT_EQ(detail.reason(), "UNKNOWN_KERNEL");
  EXPECT_EQ(detail.subject(), "nul_event");
  EXPECT_EQ(detail.hint(), "carillon kernels");
}

TEST(Admin, AnEndlessNameGetsAnErrorOfItsOwn) {
  TestTestbed testbed;
  v1::SetPolicyRequest request;
  request.set_policy(std::string(1 << 20, 'x'));
  v1::SetPolicyResponse response;
  const Outcome outcome = TestTestbed::Call(
      testbed.admin(), &v1::Admin::Stub::SetPolicy, request, &response);
  EXPECT_EQ(outcome.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(outcome.reason, reason::kBadSize);
  EXPECT_NE(outcome.status.error_message().find(
                "Admin/SetPolicy: a request of 1048580 bytes"),
            std::string::npos)
      << outcome.status.error_message();
}

TEST(Admin, ARequestOfManySmallFieldsIsRefusedBeforeItIsUnpacked) {
  TestTestbed testbed;
  v1::RegisterEventRequest bindings;
  for (int i = 0; i <= 1024; ++i) bindings.add_parameters();
  v1::RegisterEventResponse registered;
  const Outcome event =
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::RegisterEvent,
                        bindings, &registered);
  EXPECT_EQ(event.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(event.reason, reason::kBadCount) << event.status.error_message();

  v1::RegisterModuleRequest kernels;
  kernels.set_image(std::string(2 << 20, 'x'));
  for (int i = 0; i <= 256; ++i) kernels.add_kernels();
  v1::RegisterModuleResponse module;
  EXPECT_EQ(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::RegisterModule,
                              kernels, &module)
                .reason,
            reason::kBadCount);
  kernels.mutable_kernels()->DeleteSubrange(1, 256);
  for (int i = 0; i < 600'000; ++i)
    kernels.mutable_kernels(0)->add_parameters();
  EXPECT_EQ(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::RegisterModule,
                              kernels, &module)
                .reason,
            reason::kBadSize);

  // What keeps to the bounds gets to the service, which knows no session "".
  bindings.mutable_parameters()->RemoveLast();
  EXPECT_EQ(
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::RegisterEvent,
                        bindings, &registered)
          .reason,
      reason::kUnknownSession);
}

TEST(Admin, PoliciesAreChangedByName) {
  TestTestbed testbed;
  v1::SetPolicyRequest request;
  v1::SetPolicyResponse response;
  request.set_policy("prioritty");
  const Outcome unknown = TestTestbed::Call(
      testbed.admin(), &v1::Admin::Stub::SetPolicy, request, &response);
  EXPECT_EQ(unknown.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(unknown.reason, reason::kUnknownPolicy);
  EXPECT_EQ(testbed.Status().policy(), "first_come");
  request.set_policy("priority");
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                                request, &response)
                  .ok());
  EXPECT_EQ(response.previous(), "first_come");
  EXPECT_EQ(testbed.Status().policy(), "priority");
}

TEST(Admin, StatusShowsThePoliciesAndWhoTheyStarve) {
  TestTestbed testbed;
  std::map<std::string, std::string> starves;
  const auto status = testbed.Status();
  for (const v1::Policy& policy : status.policies()) {
    starves[policy.name()] = policy.starves();
    EXPECT_FALSE(policy.summary().empty()) << policy.name();
  }
  EXPECT_EQ(status.policies(0).name(), "first_come");
  EXPECT_EQ(starves["first_come"], "");
  EXPECT_EQ(starves["p1"],
            "background kernels, and events of lower priorities");
  EXPECT_EQ(starves.count("configured"), 0u);
  v1::SetPolicyRequest request;
  v1::SetPolicyResponse response;
  request.set_policy("configured");
  const Outcome refused = TestTestbed::Call(
      testbed.admin(), &v1::Admin::Stub::SetPolicy, request, &response);
  EXPECT_EQ(refused.status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(refused.reason, reason::kUnknownPolicy);
  EXPECT_NE(refused.status.error_message().find("can do: first_come"),
            std::string::npos);
}

TEST(Admin, WithoutAPolicyItStaysAndWithABadOneTheShareStaysToo) {
  TestTestbed testbed({.device_shares = "nic0=4:5"});
  AttachedDevice device(&testbed, "nic0");
  const auto weight = [&] {
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(TestTestbed::Call(testbed.admin(),
                                  &v1::Admin::Stub::ListDevices,
                                  v1::ListDevicesRequest(), &devices)
                    .ok());
    return devices.devices(0).share().weight();
  };
  const auto set = [&](const v1::SetPolicyRequest& request) {
    v1::SetPolicyResponse response;
    return TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                             request, &response);
  };
  v1::SetPolicyRequest request;
  request.set_policy("priority");
  EXPECT_TRUE(set(request).ok());
  EXPECT_TRUE(set({}).ok());
  EXPECT_EQ(testbed.Status().policy(), "priority");
  request.mutable_share()->set_device("nic0");
  request.mutable_share()->set_weight(9);
  request.set_policy("prioritty");
  EXPECT_EQ(set(request).reason, reason::kUnknownPolicy);
  EXPECT_EQ(weight(), 4u);
  request.set_policy("first_come");
  request.mutable_share()->set_weight(101);
  EXPECT_EQ(set(request).reason, reason::kBadCount);
  EXPECT_EQ(testbed.Status().policy(), "priority");
  request.mutable_share()->set_weight(9);
  EXPECT_TRUE(set(request).ok());
  EXPECT_EQ(testbed.Status().policy(), "first_come");
  EXPECT_EQ(weight(), 9u);
}

TEST(Admin, AtTheLimitOfSharesThoseThatThereAreCanBeChanged) {
  TestTestbed testbed;
  const auto set = [&](const std::string& name) {
    v1::SetPolicyRequest request;
    request.mutable_share()->set_device(name);
    request.mutable_share()->set_weight(2);
    v1::SetPolicyResponse response;
    return TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                             request, &response);
  };
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(set("nic" + std::to_string(i)).ok()) << i;
  }
  EXPECT_EQ(set("nic1000").reason, reason::kTooMany);
  EXPECT_TRUE(set("nic7").ok());
}

TEST(Admin, AShareIsTheOperatorsToSet) {
  TestTestbed testbed({.device_shares = "nic0=4:5"});
  AttachedDevice device(&testbed, "nic0");
  const auto share = [&] {
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(TestTestbed::Call(testbed.admin(),
                                  &v1::Admin::Stub::ListDevices,
                                  v1::ListDevicesRequest(), &devices)
                    .ok());
    return devices.devices(0).share();
  };
  EXPECT_EQ(share().weight(), 4u);
  EXPECT_EQ(share().max_priority(), 5u);
  const auto set = [&](uint32_t weight, uint32_t priority,
                       const std::string& name = "nic0") {
    v1::SetPolicyRequest request;
    request.mutable_share()->set_device(name);
    request.mutable_share()->set_weight(weight);
    request.mutable_share()->set_max_priority(priority);
    v1::SetPolicyResponse response;
    return TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                             request, &response);
  };
  EXPECT_TRUE(set(2, 3).ok());
  EXPECT_EQ(share().weight(), 2u);
  EXPECT_EQ(share().max_priority(), 3u);
  EXPECT_EQ(testbed.Status().policy(), "first_come") << "that stays";
  EXPECT_EQ(set(0, 3).reason, reason::kBadCount);
  EXPECT_EQ(set(101, 3).reason, reason::kBadCount);
  EXPECT_EQ(set(1, 8).reason, reason::kBadPriority);
  EXPECT_EQ(set(1, 1, "no name").reason, reason::kBadName);
  EXPECT_EQ(share().weight(), 2u);

  const auto register_event = [&](uint32_t priority) {
    v1::RegisterEventRequest request;
    request.set_session(device.session());
    request.set_kernel("null_event");
    request.set_priority(priority);
    v1::RegisterEventResponse response;
    return TestTestbed::Call(testbed.events(), &v1::Events::Stub::RegisterEvent,
                             request, &response);
  };
  const Outcome refused = register_event(4);
  EXPECT_EQ(refused.status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(refused.reason, reason::kBadPriority);
  EXPECT_NE(register_event(3).reason, reason::kBadPriority);
  // One that comes later has it, too.
  EXPECT_TRUE(set(9, 1, "nic1").ok());
  AttachedDevice later(&testbed, "nic1");
  EXPECT_EQ(register_event(3).reason == reason::kBadPriority, false);
  v1::RegisterEventRequest request;
  request.set_session(later.session());
  request.set_kernel("null_event");
  request.set_priority(2);
  v1::RegisterEventResponse response;
  EXPECT_EQ(
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::RegisterEvent,
                        request, &response)
          .reason,
      reason::kBadPriority);
}

TEST(Admin, StagesAreStampedWhileTracingAndResetOnRequest) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  const auto ring_once = [&] {
    ring.Commit(nullptr, NowNs());
    ring.RingDoorbell();
    EXPECT_TRUE(AttachedDevice::Await(ring).has_value());
  };
  ring_once();
  EXPECT_EQ(testbed.Ekt().entries(0).stages_size(), 0);
  v1::SetTracingRequest tracing;
  tracing.set_on(true);
  v1::SetTracingResponse traced;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetTracing,
                                tracing, &traced)
                  .ok());
  EXPECT_TRUE(testbed.Status().tracing());
  ring_once();
  ring_once();
  const auto ekt = testbed.Ekt();
  ASSERT_EQ(ekt.entries(0).stages_size(), 4);
  for (const auto& stage : ekt.entries(0).stages()) {
    uint64_t events = 0;
    for (const uint64_t count : stage.count()) events += count;
    EXPECT_EQ(events, 2u) << stage.name();
  }
  v1::ResetStatisticsResponse reset;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(),
                                &v1::Admin::Stub::ResetStatistics,
                                v1::ResetStatisticsRequest(), &reset)
                  .ok());
  EXPECT_EQ(testbed.Ekt().entries(0).stages_size(), 0);
}

TEST(Admin, ADevicesFiguresAreShownByTheNamesItGave) {
  TestTestbed testbed;
  v1::AttachRequest request = AttachRequestFor("nic0");
  request.add_counter_names("rx");
  request.add_counter_names("tx");
  request.add_histogram_names("latency");
  AttachedDevice device(&testbed, request);
  shm::Telemetry& page = device.submission().telemetry();
  page.counters[0] = 7;
  page.counters[1] = ~uint64_t{0};
  shm::HistogramWriter writer(&page.histograms[0]);
  writer.Add(100);
  writer.Add(100);
  const auto listed = testbed.Devices();
  ASSERT_EQ(listed.devices(0).counters_size(), 2);
  EXPECT_EQ(listed.devices(0).counters(0).name(), "rx");
  EXPECT_EQ(listed.devices(0).counters(0).value(), 7u);
  EXPECT_EQ(listed.devices(0).counters(1).value(), ~uint64_t{0});
  ASSERT_EQ(listed.devices(0).histograms_size(), 1);
  EXPECT_EQ(listed.devices(0).histograms(0).name(), "latency");
  ASSERT_EQ(listed.devices(0).histograms(0).bucket_size(), 1);
  EXPECT_EQ(listed.devices(0).histograms(0).bucket(0),
            shm::HistogramBucket(100));
  EXPECT_EQ(listed.devices(0).histograms(0).count(0), 2u);
}

TEST(Admin, NoDeviceCanMakeTheListTooLong) {
  TestTestbed testbed;
  // Names as long as they may be.
  v1::AttachRequest request = AttachRequestFor(std::string(32, 'n'));
  request.set_kind(std::string(32, 'k'));
  for (size_t i = 0; i < shm::kMaxTelemetryCounters; ++i) {
    request.add_counter_names(std::string(46, 'c') + std::to_string(10 + i));
  }
  for (size_t i = 0; i < shm::kMaxTelemetryHistograms; ++i) {
    request.add_histogram_names(std::string(47, 'h') + std::to_string(i));
  }
  AttachedDevice device(&testbed, request);
  v1::ReportReadyRequest ready;
  ready.set_session(device.session());
  ready.set_note(std::string(256, 'x'));
  v1::ReportReadyResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.devices(),
                                &v1::Devices::Stub::ReportReady, ready,
                                &response)
                  .ok());
  // Counts that take the most bytes in all buckets: beyond 2^42 gpud cuts each,
  // and beyond 2^53 their sum, so that garbage fills a few.
  for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 43,
                               uint64_t{1} << 42, uint64_t{1} << 41}) {
    shm::Telemetry& page = device.submission().telemetry();
    std::memset(&page, 0xff, sizeof(page));
    for (auto& histogram : page.histograms) {
      std::ranges::fill(histogram.buckets, count);
    }
    const auto listed = testbed.Devices();
    ASSERT_EQ(listed.devices_size(), 1);
    ASSERT_EQ(listed.devices(0).histograms_size(), 4);
    // gRPC's default limit of a message.
    EXPECT_LT(listed.ByteSizeLong() * SessionTable::kMaxSessions,
              size_t{4} << 20)
        << count;
  }
}

TEST(Admin, AHistogramOfManyBucketsIsShownHalfAsFine) {
  TestTestbed testbed;
  v1::AttachRequest request = AttachRequestFor("nic0");
  request.add_histogram_names("latency");
  AttachedDevice device(&testbed, request);
  auto& buckets = device.submission().telemetry().histograms[0].buckets;
  std::fill_n(buckets, 640, 3);
  EXPECT_EQ(testbed.Devices().devices(0).histograms(0).bucket_size(), 640);
  buckets[1001] = 5;
  const v1::Histogram shown = testbed.Devices().devices(0).histograms(0);
  ASSERT_EQ(shown.bucket_size(), 321);
  for (int i = 0; i < 320; ++i) {
    EXPECT_EQ(shown.bucket(i), 2u * static_cast<uint32_t>(i));
    EXPECT_EQ(shown.count(i), 6u);
  }
  EXPECT_EQ(shown.bucket(320), 1000u);
  EXPECT_EQ(shown.count(320), 5u);
}

TEST(Watch, StartsWithWhatIsThereAndGoesOnWithChanges) {
  TestTestbed testbed;
  AttachedDevice nic(&testbed, "nic0");
  nic.RingOf(nic.NullEvent());
  const auto context = Within();
  auto watch = testbed.admin().Watch(context.get(), v1::WatchRequest());
  v1::TelemetryEvent event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.device_attached().device(), "nic0");
  EXPECT_EQ(event.device_attached().pid(), static_cast<uint32_t>(getpid()));
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.event_registered().kernel(), "null_event");
  uint64_t last = event.number();

  AttachedDevice fpga(&testbed, "fpga0");
  fpga.RingOf(fpga.NullEvent());
  ASSERT_TRUE(fpga.Unregister(0, 0).ok());
  ASSERT_TRUE(fpga.Detach().ok());
  const auto next = [&] {
    EXPECT_TRUE(watch->Read(&event));
    EXPECT_EQ(event.number(), last + 1);
    last = event.number();
    return TopicOf(event);
  };
  EXPECT_EQ(next(), "device_attached");
  EXPECT_EQ(event.device_attached().device(), "fpga0");
  EXPECT_EQ(next(), "event_registered");
  EXPECT_EQ(next(), "event_unregistered");
  EXPECT_EQ(next(), "device_detached");
  EXPECT_EQ(event.device_detached().device(), "fpga0");
}

TEST(Watch, EndsWithTheNewsThatGpudGoesDown) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  const auto context = Within();
  auto watch = testbed.admin().Watch(context.get(), v1::WatchRequest());
  v1::TelemetryEvent event;
  ASSERT_TRUE(watch->Read(&event));
  v1::ShutdownResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::Shutdown,
                                v1::ShutdownRequest(), &response)
                  .ok());
  while (watch->Read(&event)) {
  }
  EXPECT_TRUE(event.has_shutting_down()) << event.ShortDebugString();
  EXPECT_TRUE(watch->Finish().ok());
  EXPECT_TRUE(Eventually(
      [&] { return device.close_reason() == shm::CloseReason::kShutdown; }));
}

TEST(Drain, WaitsForAQuietGpuOrSaysWhatIsNot) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  v1::DrainRequest request;
  v1::DrainResponse response;
  EXPECT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::Drain,
                                request, &response)
                  .ok());
  auto busy = device.NullEvent();
  busy.set_kernel("busy");
  busy.mutable_parameters(0)->set_name("iterations");
  busy.mutable_grid()->set_x(10'000'000);  // outlasts any test
  busy.mutable_grid()->set_y(1);
  busy.mutable_grid()->set_z(1);
  busy.mutable_block()->set_x(1);
  shm::DeviceRing ring = device.RingOf(busy);
  const uint64_t iterations = 1'000'000;
  std::memcpy(ring.parameters(), &iterations, sizeof(iterations));
  ring.Commit();
  ring.RingDoorbell();
  ASSERT_TRUE(
      Eventually([&] { return testbed.Status().events().rung() == 1; }));
  request.set_timeout_ms(1);
  const Outcome outcome = TestTestbed::Call(
      testbed.admin(), &v1::Admin::Stub::Drain, request, &response);
  EXPECT_EQ(outcome.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(outcome.reason, reason::kNotDrained);
  EXPECT_NE(outcome.status.error_message().find("1 events are in flight"),
            std::string::npos)
      << outcome.status.error_message();
}

TEST(Queues, AreListedByClassAndPriority) {
  TestTestbed testbed;
  v1::ListQueuesResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::ListQueues,
                                v1::ListQueuesRequest(), &response)
                  .ok());
  EXPECT_EQ(response.queues_size(), 16);
  EXPECT_EQ(response.queues(0).name(), "event");
  EXPECT_EQ(response.queues(15).name(), "host");
}

v1::RegisterModuleRequest ModuleOf(const std::string& image) {
  v1::RegisterModuleRequest request;
  request.set_image(image);
  request.set_file("lab.ptx");
  request.add_kernels()->set_symbol("tick");
  return request;
}

TEST(Admin, AnImageThatTheBackEndCannotRunIsRefusedWithItsReason) {
  TestTestbed testbed({.backend = "cpu"});
  v1::RegisterModuleResponse response;
  const std::string code =
      "\x7f"
      "ELF....";
  const std::string lacking =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry tick()\n{\n  mmm.s32;\n}\n";
  const struct {
    std::string image;
    StatusCode status;
    std::string why;
  } cases[] = {
      {code, StatusCode::INVALID_ARGUMENT, "lab.ptx is machine code for a GPU"},
      {lacking, StatusCode::UNIMPLEMENTED, "lab.ptx:6:3: "},
  };
  for (const auto& [image, status, why] : cases) {
    const Outcome outcome =
        TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::RegisterModule,
                          ModuleOf(image), &response);
    EXPECT_EQ(outcome.status.error_code(), status);
    EXPECT_EQ(outcome.reason, reason::kBadImage);
    EXPECT_NE(outcome.status.error_message().find(why), std::string::npos)
        << outcome.status.error_message();
  }
  // A name that is taken is told all the same, and first.
  v1::RegisterModuleRequest taken = ModuleOf("x");
  taken.mutable_kernels(0)->set_name("null_event");
  EXPECT_EQ(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::RegisterModule,
                              taken, &response)
                .reason,
            reason::kKernelNameTaken);
}

TEST(Admin, AnImageThatIsTooLargeIsToldSoByGpud) {
  TestTestbed testbed({.backend = "cpu"});
  v1::RegisterModuleResponse response;
  const Outcome outcome =
      TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::RegisterModule,
                        ModuleOf(std::string((32 << 20) + 1, 'x')), &response);
  EXPECT_EQ(outcome.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(outcome.reason, reason::kBadSize);
  EXPECT_NE(outcome.status.error_message().find("the limit is 33554432"),
            std::string::npos)
      << outcome.status.error_message();
}

TEST(Admin, KernelsSayWhereTheyComeFromAndHowTheyTakeTheirParameters) {
  TestTestbed testbed;
  v1::ListKernelsResponse kernels;
  ASSERT_TRUE(TestTestbed::Call(testbed.events(),
                                &v1::Events::Stub::ListKernels,
                                v1::ListKernelsRequest(), &kernels)
                  .ok());
  ASSERT_GT(kernels.kernels_size(), 0);
  for (const v1::Kernel& kernel : kernels.kernels()) {
    EXPECT_EQ(kernel.file(), "") << "one of gpud's own";
    for (const v1::KernelParameter& parameter : kernel.parameters()) {
      EXPECT_EQ(parameter.form(),
                parameter.element_bytes() != 0 ? v1::SPAN : v1::VALUE);
    }
  }
}

}  // namespace
}  // namespace carillon::gpud
