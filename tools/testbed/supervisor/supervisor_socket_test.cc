#include "tools/testbed/supervisor/supervisor_socket.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/status.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequestServerTest : public ::testing::Test {
 protected:
  void Open(RequestServer::Limits limits = {}) {
    desk_ = std::make_unique<RequestServer>(limits);
    const absl::Status status = desk_->Open(path_);
    ASSERT_TRUE(status.ok()) << status;
  }
  // A client whose actions the test decides.
  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    return fd;
  }
  static bool Send(const UniqueFd& fd, const std::string& text) {
    return send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What has arrived and, at the end of the connection, "<end>".
  static std::string Received(const UniqueFd& fd) {
    char bytes[4096];
    std::string text;
    for (;;) {
      const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got > 0) {
        text.append(bytes, got);
        continue;
      }
      const bool ended = got == 0 || (errno != EAGAIN && errno != EINTR);
      return text + (ended ? "<end>" : "");
    }
  }
  std::vector<RequestServer::Request> TakeOne() {
    std::vector<RequestServer::Request> requests;
    EXPECT_TRUE(Eventually([&] {
      requests = desk_->Take();
      return !requests.empty();
    }));
    return requests;
  }
  // Waits as a supervisor does.
  size_t Wait(milliseconds timeout) {
    std::vector<pollfd> fds;
    desk_->AddTo(fds);
    return poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  }

  TestFolder folder_;
  const std::string path_ = folder_.path() + "/s.sock";
  std::unique_ptr<RequestServer> desk_;
};

TEST_F(RequestServerTest, IsOpenToItsOwnerOnly) {
  Open();
  struct stat facts;
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
  RequestServer second;
  EXPECT_EQ(second.Open(path_).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(second.Open(std::string(108, 's')).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RequestServerTest, RefusesAnotherUser) {
  RequestServer::Limits limits;
  limits.user = geteuid() + 1;
  Open(limits);
  const auto client = Connect();
  EXPECT_TRUE(Send(client, "{}\n"));
  EXPECT_THAT(desk_->Take(), IsEmpty());
  EXPECT_THAT(Received(client),
              HasSubstr(fmt::format("uid {} may not steer it", geteuid())));
}

TEST_F(RequestServerTest, TakesARequestThatComesInPieces) {
  Open();
  const auto client = Connect();
  for (const char* piece : {"{\"a\"", ": [1, ", "2]}"}) {
    EXPECT_TRUE(Send(client, piece));
    EXPECT_THAT(desk_->Take(), IsEmpty());
  }
  EXPECT_TRUE(Send(client, "\nwhat comes later counts for nothing\n"));
  const auto requests = TakeOne();
  EXPECT_EQ(requests[0].json, Json::parse(R"({"a": [1, 2]})"));
  desk_->Say(requests[0].id, "one moment");
  desk_->Done(requests[0].id, {{"b", 3}});
  EXPECT_EQ(Received(client),
            "{\"say\":\"one moment\"}\n{\"done\":{\"b\":3}}\n<end>");
  desk_->Say(requests[0].id, "to nobody");
}

TEST_F(RequestServerTest, RefusesNonsense) {
  Open();
  for (const std::string& text :
       {std::string("\n"), std::string("[]\n"), std::string("{\n"),
        std::string("\x00\xff\n", 3), std::string(4000, '[') + "\n"}) {
    const auto client = Connect();
    EXPECT_TRUE(Send(client, text));
    EXPECT_THAT(desk_->Take(), IsEmpty());
    EXPECT_THAT(Received(client), HasSubstr("the request is no JSON object"));
  }
}

TEST_F(RequestServerTest, RefusesTooLongARequestHoweverItEnds) {
  Open();
  for (const char* end : {"", "\n"}) {
    const auto client = Connect();
    EXPECT_TRUE(Send(client, "\"" + std::string(8192, 'x') + "\"" + end));
    EXPECT_THAT(desk_->Take(), IsEmpty());
    EXPECT_THAT(Received(client),
                HasSubstr("the request has more than 8192 bytes"));
  }
}

TEST_F(RequestServerTest, DropsWhoIsSlowToAsk) {
  RequestServer::Limits limits;
  limits.request_time = milliseconds(50);
  Open(limits);
  EXPECT_FALSE(desk_->NextDeadline());
  const auto client = Connect();
  EXPECT_TRUE(Send(client, "{"));
  EXPECT_THAT(desk_->Take(), IsEmpty());
  ASSERT_TRUE(desk_->NextDeadline());
  EXPECT_LE(*desk_->NextDeadline(),
            std::chrono::steady_clock::now() + milliseconds(50));
  EXPECT_TRUE(Eventually([&] {
    desk_->Take();
    return Received(client) == "<end>";
  }));
  EXPECT_FALSE(desk_->NextDeadline());
}

// The others wait in the queue, and the server does not spin meanwhile.
TEST_F(RequestServerTest, ServesOthersOnceTheSlowHaveBeenDropped) {
  RequestServer::Limits limits;
  limits.connections = 2;
  limits.request_time = milliseconds(300);
  Open(limits);
  const UniqueFd slow[] = {Connect(), Connect()};
  EXPECT_THAT(desk_->Take(), IsEmpty());
  const auto good = Connect();
  EXPECT_TRUE(Send(good, "{}\n"));
  EXPECT_EQ(Wait(milliseconds(1)), 0u);
  EXPECT_THAT(TakeOne(), SizeIs(1));
  for (const auto& fd : slow) EXPECT_EQ(Received(fd), "<end>");
}

TEST_F(RequestServerTest, DoesNotLookAtWhoHasAsked) {
  Open();
  auto client = Connect();
  EXPECT_TRUE(Send(client, "{}\n"));
  const uint64_t id = TakeOne()[0].id;
  EXPECT_TRUE(Send(client, "more\n"));
  EXPECT_EQ(Wait(milliseconds(1)), 0u);
  EXPECT_FALSE(desk_->NextDeadline());
  client.reset();
  EXPECT_EQ(Wait(milliseconds(1)), 0u);
  desk_->Done(id, {});
}

TEST_F(RequestServerTest, DropsWhoDoesNotRead) {
  Open();
  const auto client = Connect();
  EXPECT_TRUE(Send(client, "{}\n"));
  const uint64_t id = TakeOne()[0].id;
  // The text is larger than the socket's buffer, and must arrive all the same.
  for (int i = 0; i < 64; ++i) desk_->Say(id, std::string(64 << 10, 'x'));
  const std::string text = Received(client);
  EXPECT_LT(text.size(), size_t{64 * 64} << 10);
  EXPECT_TRUE(text.ends_with("<end>"));
}

class AskSupervisorTest : public RequestServerTest {
 protected:
  // Asks in a thread while `serve` runs the server.
  absl::StatusOr<Json> Ask(
      SupervisorQuestion question,
      const std::function<void(const RequestServer::Request&)>& serve) {
    question.socket = path_;
    question.request = {{"please", true}};
    question.say = [this](const std::string& line) {
      std::lock_guard lock(mutex_);
      said_.push_back(line);
    };
    absl::StatusOr<Json> answer;
    std::thread client([&] { answer = AskSupervisor(question); });
    serve(TakeOne()[0]);
    client.join();
    return answer;
  }

  size_t said_count() {
    std::lock_guard lock(mutex_);
    return said_.size();
  }

  std::mutex mutex_;  // of said_
  std::vector<std::string> said_;
};

TEST_F(AskSupervisorTest, KeepsNarrationToItselfWhenItIsSoonOver) {
  Open();
  const auto answer = Ask({}, [&](const RequestServer::Request& request) {
    EXPECT_EQ(request.json, Json({{"please", true}}));
    desk_->Say(request.id, "one moment");
    desk_->Done(request.id, {{"n", 1}});
  });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, Json({{"n", 1}}));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(AskSupervisorTest, PassesNarrationOnWhenItTakesLong) {
  Open();
  const auto answer = Ask(
      {.quiet = milliseconds(20)}, [&](const RequestServer::Request& request) {
        desk_->Say(request.id, "one");
        desk_->Say(request.id, "two");
        EXPECT_TRUE(Eventually([&] { return said_count() == 2; }));
        desk_->Done(request.id, {});
      });
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(said_, ElementsAre("one", "two"));
}

TEST_F(AskSupervisorTest, BringsTheSupervisorsErrorsWhole) {
  Open();
  const auto answer = Ask({}, [&](const RequestServer::Request& request) {
    desk_->Failed(request.id,
                  WithHint(absl::NotFoundError("no such thing"), "look"));
  });
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(answer.status().message(), "no such thing");
  EXPECT_EQ(HintOf(answer.status()), "look");
}

TEST_F(AskSupervisorTest, DoesNotWaitForASupervisorThatIsGone) {
  Open();
  const auto answer =
      Ask({}, [&](const RequestServer::Request&) { desk_->Close(); });
  EXPECT_EQ(answer.status(),
            absl::UnavailableError("the supervisor went away before it was "
                                   "done"));
  const auto nobody = AskSupervisor({.socket = path_});
  EXPECT_EQ(nobody.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nobody.status().message()),
              HasSubstr("the supervisor does not listen on " + path_));
}

TEST_F(AskSupervisorTest, WaitsWithABoundForAnyWordAndForTheLast) {
  Open();
  const auto mute = Ask({.first_word = milliseconds(50)},
                        [](const RequestServer::Request&) {});
  EXPECT_EQ(mute.status(),
            absl::DeadlineExceededError(
                "the supervisor does not answer (0.05 s waited)"));
  const auto endless = Ask({.limit = milliseconds(100)},
                           [&](const RequestServer::Request& request) {
                             desk_->Say(request.id, "one moment");
                           });
  EXPECT_EQ(endless.status(),
            absl::DeadlineExceededError("the supervisor has not said that it "
                                        "is done within 0.10 s"));
}

TEST_F(AskSupervisorTest, EndsWhenItIsInterrupted) {
  StopSignals interrupt;
  Open();
  const auto answer =
      Ask({.interrupt = &interrupt},
          [](const RequestServer::Request&) { kill(getpid(), SIGINT); });
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(AskSupervisorTest, RefusesAnAnswerThatItDoesNotUnderstand) {
  for (const char* line :
       {"{}", "nonsense", R"({"say": 3})", R"({"failed": {"code": 5}})",
        R"({"failed": {"code": 0, "message": "", )"
        R"("hint": ""}})"}) {
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    unlink(path_.c_str());
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    absl::StatusOr<Json> answer;
    std::thread client([&] { answer = AskSupervisor({.socket = path_}); });
    const UniqueFd fd(accept(listener.get(), nullptr, nullptr));
    EXPECT_TRUE(Send(fd, std::string(line) + "\n"));
    client.join();
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInternal) << line;
  }
}

}  // namespace
}  // namespace carillon::testbed
