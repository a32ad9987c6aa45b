#include "tools/dashboard/http_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/eventually.h"
#include "base/unique_fd.h"
#include "tools/dashboard/access.h"
#include "tools/dashboard/fake_view.h"
#include "tools/dashboard/routes.h"
#include "tools/dashboard/test_http_client.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Of sanitizer/allocator_interface.h, which gcc's packages lack.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace {
// A disk that may keep its reader waiting.
std::function<void()>* before_pread = nullptr;
}  // namespace

// In place of libc's, for the server too.
extern "C" ssize_t pread(int fd, void* to, size_t bytes, off_t from) {
  if (before_pread != nullptr) (*before_pread)();
  return syscall(SYS_pread64, fd, to, bytes, from);
}

namespace carillon::dashboard {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class HttpServerTest : public ::testing::Test {
 protected:
  void Serve(HttpLimits limits = HttpLimits()) {
    auto server = HttpServer::Listen(0, limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    access_ = std::make_unique<Access>(
        server_->port(), std::vector<Grant>{{Role::kOperator, kToken}});
    routes_ = std::make_unique<Routes>(access_.get(), &view_);
    server_->Serve(
        {.answer = [this](const Request& one) { return routes_->Answer(one); },
         .newest = [this](uint64_t* number) -> SharedText {
           const Picture picture = view_.Newest();
           if (picture.number == *number) return nullptr;
           *number = picture.number;
           return picture.json;
         },
         .streams_changed = [this](size_t streams) { streams_ = streams; }});
  }
  std::string Head(const std::string& line) {
    return fmt::format(
        "{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n",
        line, server_->port(), kToken);
  }
  std::string Ask(const std::string& bytes) {
    Client client(server_->port());
    client.Send(bytes);
    return client.ReadAll();
  }
  // Whether the server still answers.
  bool Lives() {
    const std::string answer =
        Ask(Head("GET /api/v1/state") + "Connection: close\r\n\r\n");
    return answer.starts_with("HTTP/1.1 200 ");
  }
  void Show(const std::string& json) {
    view_.Show(json);
    server_->Wake();
  }

  FakeView view_;
  std::atomic<size_t> streams_{0};
  std::unique_ptr<Access> access_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersWithTheFieldsThatKeepThePageToItself) {
  Serve();
  const std::string answer =
      Ask(Head("GET /api/v1/state") + "Connection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n{\"n\":1}"));
  for (const char* const field :
       {"Content-Security-Policy: default-src 'none'; script-src 'self';",
        "frame-ancestors 'none'", "X-Content-Type-Options: nosniff\r\n",
        "Referrer-Policy: no-referrer\r\n", "Cache-Control: no-store\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Cross-Origin-Opener-Policy: same-origin-allow-popups\r\n",
        "Content-Type: application/json\r\n"}) {
    EXPECT_THAT(answer, HasSubstr(field));
  }
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("Access-Control")));
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("Set-Cookie")));
}

TEST_F(HttpServerTest, ReachesTheRoutesWithWhatTheClientSent) {
  Serve();
  const std::string body = R"({"policy": "priority"})";
  EXPECT_THAT(
      Ask(Head("POST /api/v1/policy") +
          fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n"
                      "Connection: close\r\n\r\n{}",
                      body.size(), body)),
      StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(view_.changes(), ::testing::ElementsAre("policy priority"));
  EXPECT_THAT(Ask(fmt::format("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n"
                              "Connection: close\r\n\r\n",
                              server_->port())),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask(Head("GET /metrics") +
                  "Host: evil.example\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Ask(Head("GET /metrics") +
                  "Origin: http://evil.example\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask(Head("GET /metrics") + fmt::format("Authorization: Bearer {}"
                                                     "\r\nConnection: close"
                                                     "\r\n\r\n",
                                                     kToken)),
              StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpServerTest, AFileComesWholeInPieces) {
  Serve();
  // More than sockets and pieces hold, and no whole number of pieces.
  std::string trace;
  for (uint32_t i = 0; trace.size() < (8 << 20); ++i) {
    trace += fmt::format("{},", i);
  }
  view_.set_trace(trace);
  const std::string answer =
      Ask(Head("GET /api/v1/trace.pftrace") + "Connection: close\r\n\r\n");
  EXPECT_THAT(answer.substr(0, 1024),
              HasSubstr(fmt::format("Content-Length: {}\r\n", trace.size())));
  // Not by a matcher: it would print 8 MiB.
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + trace));
}

TEST_F(HttpServerTest, AFileOnASlowDiskDelaysNoOthers) {
  std::promise<void> over;
  std::atomic<bool> waits{false};
  std::function<void()> wait = [&, end = over.get_future().share()] {
    waits = true;
    end.wait();
  };
  before_pread = &wait;
  Serve();
  Client client(server_->port());
  client.Send(Head("GET /api/v1/trace.pftrace") + "Connection: close\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return waits.load(); }));
  auto lives = std::async(std::launch::async, [&] { return Lives(); });
  EXPECT_TRUE(Eventually([&] {
    return lives.wait_for(milliseconds(0)) == std::future_status::ready;
  }));
  over.set_value();
  EXPECT_TRUE(lives.get());
  EXPECT_TRUE(client.ReadAll().ends_with("trace of 600 s"));
  server_.reset();
  before_pread = nullptr;
}

TEST_F(HttpServerTest, ListensOnLoopbackOnly) {
  Serve();
  // 127.0.0.2 is this machine, too, but not what the server is bound to.
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(server_->port()),
                      .sin_addr = {htonl(INADDR_LOOPBACK + 1)},
                      .sin_zero = {}};
  EXPECT_NE(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
}

TEST_F(HttpServerTest, APortThatIsTakenIsAnError) {
  Serve();
  const auto second = HttpServer::Listen(server_->port());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

TEST_F(HttpServerTest, AStreamSendsEachNewPicture) {
  Serve();
  Client client(server_->port());
  client.Send(Head("GET /api/v1/stream") + "\r\n");
  EXPECT_THAT(client.ReadUntil("{\"n\":1}\n\n"),
              HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_EQ(streams_, 1u);
  for (int i = 2; i < 10; ++i) {
    Show(fmt::format("{{\"n\":{}}}", i));
    const std::string event = fmt::format("data: {{\"n\":{}}}\n\n", i);
    EXPECT_THAT(client.ReadUntil(event), HasSubstr(event));
  }
}

TEST_F(HttpServerTest, AClientThatHasGoneEndsItsStream) {
  Serve();
  {
    Client client(server_->port());
    client.Send(Head("GET /api/v1/stream") + "\r\n");
    client.ReadUntil("{\"n\":1}");
    EXPECT_EQ(streams_, 1u);
  }
  EXPECT_TRUE(Eventually([&] {
    Show("{}");
    return streams_ == 0;
  }));
}

TEST_F(HttpServerTest, AReaderThatStopsSkipsPicturesAndDelaysNobody) {
  Serve();
  Client slow(server_->port(), /*receive_buffer=*/4096);
  slow.Send(Head("GET /api/v1/stream") + "\r\n");
  slow.ReadUntil("{\"n\":1}");
  Client quick(server_->port());
  quick.Send(Head("GET /api/v1/stream") + "\r\n");
  quick.ReadUntil("{\"n\":1}");
  // More than a kernel would queue for one that does not read.
  constexpr int kPictures = 300;
  const std::string padding(16 << 10, 'x');
  for (int i = 2; i <= kPictures; ++i) {
    Show(fmt::format("{{\"n\":{},\"p\":\"{}\"}}", i, padding));
    const std::string end = fmt::format("{{\"n\":{},", i);
    EXPECT_THAT(quick.ReadUntil(end), HasSubstr(end));
    quick.Forget();
  }
  Show("{\"last\":1}");
  const std::string all = slow.ReadUntil("{\"last\":1}");
  EXPECT_THAT(all, HasSubstr("{\"last\":1}"));
  EXPECT_LT(all.size(), 20 * padding.size()) << "old pictures have waited";
}

TEST_F(HttpServerTest, AReaderThatTakesNothingIsCutOff) {
  Serve({.write_time = milliseconds(50)});
  Client slow(server_->port(), /*receive_buffer=*/4096);
  slow.Send(Head("GET /api/v1/stream") + "\r\n");
  slow.ReadUntil("{\"n\":1}");
  const std::string padding(16 << 20, 'x');
  Show(padding);
  EXPECT_TRUE(Eventually([&] { return streams_ == 0; }));
  EXPECT_TRUE(Lives());
}

TEST_F(HttpServerTest, ASlowRequestIsCutOff) {
  Serve({.request_time = milliseconds(50)});
  for (const std::string& part :
       {std::string(), std::string("GET / HT"), Head("GET /api/v1/state"),
        Head("POST /api/v1/policy") + "Content-Length: 10\r\n\r\n12345"}) {
    Client client(server_->port());
    client.Send(part);
    EXPECT_THAT(client.ReadAll(), ::testing::Not(HasSubstr(" 200 "))) << part;
  }
  EXPECT_TRUE(Lives());
}

TEST_F(HttpServerTest, AHugeRequestIsRefused) {
  Serve();
  EXPECT_THAT(Ask(Head("GET /api/v1/state") +
                  "X: " + std::string(8 << 10, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask("GET /" + std::string(8 << 10, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(Head("POST /api/v1/policy") +
                  "Content-Type: application/json\r\nContent-Length: "
                  "65537\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(Head("POST /api/v1/policy") +
                  "Content-Type: application/json\r\nContent-Length: "
                  "18446744073709551615\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  // Chunks may not add up to more either.
  Client chunks(server_->port());
  std::string bytes = Head("POST /api/v1/policy") +
                      "Content-Type: application/json\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n";
  for (int i = 0; i < 5; ++i) {
    bytes += "4000\r\n" + std::string(0x4000, ' ') + "\r\n";
  }
  chunks.Send(bytes);
  EXPECT_THAT(chunks.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(Lives());
  EXPECT_THAT(view_.changes(), ::testing::IsEmpty());
}

TEST_F(HttpServerTest, ABodyAtTheLimitIsTaken) {
  Serve();
  std::string body = R"({"policy": "priority")";
  body.resize(65535, ' ');
  body += "}";
  EXPECT_THAT(Ask(Head("POST /api/v1/policy") +
                  fmt::format("Content-Type: application/json\r\nContent-Length"
                              ": {}\r\nConnection: close\r\n\r\n{}",
                              body.size(), body)),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, BrokenRequestsAreRefused) {
  Serve();
  for (const std::string& broken :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string("GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Head("POST /api/v1/policy") + "Content-Length: -1\r\n\r\n",
        Head("POST /api/v1/policy") +
            "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        Head("POST /api/v1/policy") + "Transfer-Encoding: chunked\r\n\r\nzz"
                                      "\r\n"}) {
    Client client(server_->port());
    client.Send(broken);
    // Some it takes for a request that has not come whole.
    shutdown(client.fd(), SHUT_WR);
    const std::string answer = client.ReadAll();
    EXPECT_THAT(answer, ::testing::Not(HasSubstr(" 200 "))) << broken;
  }
  EXPECT_TRUE(Lives());
  EXPECT_THAT(view_.changes(), ::testing::IsEmpty());
}

TEST_F(HttpServerTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  Serve();
  Client client(server_->port());
  client.Send(Head("GET /api/v1/state") + "\r\n" + Head("GET /metrics") +
              "\r\n" + Head("GET /api/v1/logs") + "Connection: close\r\n\r\n");
  const std::string all = client.ReadAll();
  const size_t first = all.find("{\"n\":1}");
  const size_t second = all.find("carillon_test 1");
  const size_t third = all.find("\"asked\"");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_NE(third, std::string::npos);
}

TEST_F(HttpServerTest, AnswersThatWaitDelayNoOthers) {
  std::promise<void> over;
  std::atomic<size_t> waiting{0};
  view_.set_before_logs([&, end = over.get_future().share()] {
    ++waiting;
    end.wait();
  });
  const HttpLimits limits;
  Serve(limits);
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 1; i < limits.connections; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->Send(Head("GET /api/v1/logs") + "\r\n");
  }
  EXPECT_TRUE(Eventually([&] { return waiting == limits.connections - 1; }));
  EXPECT_TRUE(Lives());
  over.set_value();
  for (const auto& client : clients) {
    EXPECT_THAT(client->ReadUntil("\"line\""), HasSubstr("\"line\""));
  }
}

TEST_F(HttpServerTest, AnAnswerThatTakesTooLongIsCutOff) {
  // It has as long as it wants for a piece, but not for all of them.
  Serve({.connections = 1,
         .write_time = std::chrono::hours(1),
         .response_time = milliseconds(200)});
  view_.set_line(std::string(32 << 20, 'x'));
  Client slow(server_->port(), /*receive_buffer=*/4096);
  slow.Send(Head("GET /api/v1/logs") + "\r\n");
  slow.ReadUntil("\"line\"");
  // There is no other place for a connection until it is cut off.
  EXPECT_TRUE(Eventually([&] { return Lives(); }));
  EXPECT_LT(slow.ReadAll().size(), size_t{32} << 20);
}

TEST_F(HttpServerTest, WhoHasNoTokenMayNotHoldAConnection) {
  Serve();
  const std::string host =
      fmt::format("Host: 127.0.0.1:{}\r\n", server_->port());
  for (const std::string& request :
       {"GET / HTTP/1.1\r\n" + host + "\r\n",
        "GET /metrics HTTP/1.1\r\n" + host + "\r\n",
        std::string("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        "HEAD / HTTP/1.1\r\n" + host + "\r\n"}) {
    EXPECT_THAT(Ask(request), HasSubstr("\r\nConnection: close\r\n"))
        << request;
  }
}

TEST_F(HttpServerTest, OneConnectionTooManyIsToldSo) {
  Serve({.connections = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->Send(Head("GET /api/v1/stream") + "\r\n");
    clients.back()->ReadUntil("{\"n\":1}");
  }
  Client third(server_->port());
  EXPECT_THAT(third.ReadAll(), StartsWith("HTTP/1.1 503 "));
  clients.clear();
  EXPECT_TRUE(Eventually([&] {
    Show("{}");
    return Lives();
  }));
}

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Of the heap. What the process has resident would also count what an
// AddressSanitizer holds back of freed memory.
size_t AllocatedBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#endif
}

TEST_F(HttpServerTest, AThousandConnectionsLeaveNothingBehind) {
  Serve();
  const auto a_hundred = [&] {
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(Lives());
      {
        Client streaming(server_->port());
        streaming.Send(Head("GET /api/v1/stream") + "\r\n");
        streaming.ReadUntil("{\"n\":1}");
      }
      Ask("nonsense\r\n\r\n");
      Client silent(server_->port());
      EXPECT_TRUE(Eventually([&] {
        server_->Wake();
        return streams_ == 0;
      }));
    }
  };
  // What a first use allocates for good is there after these.
  for (int i = 0; i < 2; ++i) a_hundred();
  EXPECT_TRUE(Eventually([&] { return streams_ == 0; }));
  const size_t descriptors = OpenDescriptors();
  const size_t bytes = AllocatedBytes();
  for (int i = 0; i < 10; ++i) a_hundred();
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= descriptors; }))
      << OpenDescriptors() << " instead of " << descriptors;
  // A connection that was not freed has a buffer of 72 KiB: 1,000 of them.
  EXPECT_TRUE(Eventually([&] { return AllocatedBytes() < bytes + (1 << 20); }))
      << AllocatedBytes() << " bytes instead of " << bytes;
}

}  // namespace
}  // namespace carillon::dashboard
