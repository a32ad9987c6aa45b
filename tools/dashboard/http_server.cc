#include "tools/dashboard/http_server.h"

#include <fmt/format.h>
#include <unistd.h>

// Boost 1.74's Asio needs std::exchange, and does not include it.
#include <utility>
//
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tools/dashboard/access.h"

namespace carillon::dashboard {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::ip::tcp;

constexpr size_t kPiece = 64 << 10;
// What a stream leaves with the kernel: all of it is older than the newest.
constexpr int kStreamBuffer = 64 << 10;
// A stream says so often that it lives, which also finds clients that have gone.
constexpr std::chrono::seconds kSignOfLife{5};
constexpr std::chrono::milliseconds kAfterFailedAccept{100};

std::vector<std::string> Values(const http::fields& fields,
                                std::string_view name) {
  std::vector<std::string> values;
  const auto [begin, end] = fields.equal_range({name.data(), name.size()});
  for (auto field = begin; field != end; ++field) {
    values.emplace_back(field->value());
  }
  return values;
}

Request ToRequest(http::request<http::string_body> message) {
  return {.method = std::string(message.method_string()),
          .target = std::string(message.target()),
          .hosts = Values(message, "Host"),
          .authorizations = Values(message, "Authorization"),
          .origins = Values(message, "Origin"),
          .fetch_sites = Values(message, "Sec-Fetch-Site"),
          .content_types = Values(message, "Content-Type"),
          .body = std::move(message.body())};
}

// For what Beast itself refuses; 0: nobody is there to read an answer.
int StatusOf(const beast::error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit) return 431;
  if (error == http::error::end_of_stream ||
      error.category() != make_error_code(http::error::bad_method).category()) {
    return 0;
  }
  return 400;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(tcp::endpoint endpoint, HttpLimits limits)
      : limits_(limits),
        acceptor_(io_, endpoint),
        answers_(limits.connections) {}

  ~Impl() { Stop(); }

  void Stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    answers_.join();
  }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void Serve(HttpHandler handler) {
    handler_ = std::move(handler);
    net::co_spawn(io_, Accept(), net::detached);
    thread_ = std::thread([this] { io_.run(); });
  }

  void Wake() {
    net::post(io_, [this] {
      for (net::steady_timer* const sleeper : sleepers_) sleeper->cancel();
    });
  }

 private:
  using Stream = beast::tcp_stream;

  net::awaitable<void> Accept() {
    for (;;) {
      beast::error_code error;
      tcp::socket socket = co_await acceptor_.async_accept(
          net::redirect_error(net::use_awaitable, error));
      if (error) {  // no descriptor left, for example
        net::steady_timer timer(io_, kAfterFailedAccept);
        co_await timer.async_wait(
            net::redirect_error(net::use_awaitable, error));
        continue;
      }
      net::co_spawn(io_, Converse(Stream(std::move(socket))), net::detached);
    }
  }

  // Serves a connection to its end.
  net::awaitable<void> Converse(Stream stream) {
    const Counted counted(&connections_);
    const bool full = connections_ > limits_.connections;
    beast::error_code error;
    stream.socket().set_option(tcp::no_delay(true), error);
    if (full) {
      co_await Send(stream, Error(503, "too many connections"), false, error);
    }
    beast::flat_buffer buffer(limits_.header_bytes + limits_.body_bytes);
    for (bool open = !full; open;) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(limits_.header_bytes);
      parser.body_limit(limits_.body_bytes);
      stream.expires_after(limits_.request_time);
      co_await http::async_read(stream, buffer, parser,
                                net::redirect_error(net::use_awaitable, error));
      if (error) {
        const int status = StatusOf(error);
        error.clear();
        if (status != 0) {
          co_await Send(stream, Error(status, "no request that this takes"),
                        false, error);
        }
        break;
      }
      bool keep = parser.get().keep_alive();
      const Request request = ToRequest(parser.release());
      Response response = co_await Answer(request);
      if (request.method == "HEAD") response.parts.clear();
      // Who has no token may not hold a connection for longer than a request.
      keep = keep && response.trusted;
      open = co_await Send(stream, response, keep, error);
      if (open && response.stream) co_await Follow(stream);
      open = open && keep && !response.stream && !error;
    }
    stream.socket().shutdown(tcp::socket::shutdown_both, error);
  }

  // In another thread: an answer may wait for gpud.
  net::awaitable<Response> Answer(const Request& request) {
    co_return co_await net::co_spawn(answers_.get_executor(),
                                     AnswerHere(request), net::use_awaitable);
  }
  net::awaitable<Response> AnswerHere(const Request& request) {
    co_return handler_.answer(request);
  }

  // In another thread, too: it may wait for a disk.
  static net::awaitable<ssize_t> ReadPiece(const OpenFile& file, size_t from,
                                           std::vector<char>& piece) {
    co_return pread(file.fd.get(), piece.data(), piece.size(),
                    static_cast<off_t>(from));
  }

  // Returns whether it was sent. Of a stream only the header.
  net::awaitable<bool> Send(Stream& stream, const Response& response, bool keep,
                            beast::error_code& error) {
    http::response<http::empty_body> message;
    message.result(static_cast<unsigned>(response.status));
    message.version(11);
    message.set(http::field::content_type,
                {response.content_type.data(), response.content_type.size()});
    for (const auto& [name, value] : CommonHeaders()) {
      message.set(beast::string_view(name.data(), name.size()),
                  beast::string_view(value.data(), value.size()));
    }
    for (const auto& [name, value] : response.headers) {
      message.set(beast::string_view(name.data(), name.size()), value);
    }
    if (response.stream) {
      message.chunked(true);
    } else {
      size_t length = 0;
      for (const SharedText& part : response.parts) length += part->size();
      if (response.file != nullptr) length += response.file->bytes;
      message.content_length(length);
    }
    message.keep_alive(keep && !response.stream);
    http::response_serializer<http::empty_body> serializer(message);
    stream.expires_after(limits_.write_time);
    co_await http::async_write_header(
        stream, serializer, net::redirect_error(net::use_awaitable, error));
    const auto end = std::chrono::steady_clock::now() + limits_.response_time;
    const auto allow_piece = [&] {
      stream.expires_at(
          std::min(end, std::chrono::steady_clock::now() + limits_.write_time));
    };
    for (const SharedText& part : response.parts) {
      for (size_t sent = 0; sent < part->size() && !error; sent += kPiece) {
        allow_piece();
        co_await net::async_write(
            stream,
            net::buffer(part->data() + sent,
                        std::min(kPiece, part->size() - sent)),
            net::redirect_error(net::use_awaitable, error));
      }
    }
    std::vector<char> piece;
    const size_t bytes = response.file == nullptr ? 0 : response.file->bytes;
    for (size_t sent = 0; sent < bytes && !error; sent += piece.size()) {
      piece.resize(std::min(kPiece, bytes - sent));
      const ssize_t got = co_await net::co_spawn(
          answers_.get_executor(), ReadPiece(*response.file, sent, piece),
          net::use_awaitable);
      // The length is out already: only a connection that ends tells of it.
      if (got <= 0) co_return false;
      piece.resize(static_cast<size_t>(got));
      allow_piece();
      co_await net::async_write(stream, net::buffer(piece),
                                net::redirect_error(net::use_awaitable, error));
    }
    co_return !error;
  }

  // Sends the newest text whenever there is one: who reads slowly skips.
  net::awaitable<void> Follow(Stream& stream) {
    const StreamCount count(this);
    net::steady_timer timer(io_);
    const Sleeper sleeper(&sleepers_, &timer);
    uint64_t number = 0;
    beast::error_code error;
    stream.socket().set_option(tcp::socket::send_buffer_size(kStreamBuffer),
                               error);
    for (;;) {
      std::string event = ":\n\n";
      if (const SharedText text = handler_.newest(&number)) {
        event = fmt::format("id: {}\ndata: {}\n\n", number, *text);
      }
      stream.expires_after(limits_.write_time);
      co_await net::async_write(stream, http::make_chunk(net::buffer(event)),
                                net::redirect_error(net::use_awaitable, error));
      if (error) co_return;
      uint64_t newer = number;
      if (handler_.newest(&newer) != nullptr) continue;
      timer.expires_after(kSignOfLife);
      co_await timer.async_wait(net::redirect_error(net::use_awaitable, error));
    }
  }

  struct Counted {
    explicit Counted(size_t* of) : count(of) { ++*count; }
    ~Counted() { --*count; }
    size_t* const count;
  };
  struct StreamCount {
    explicit StreamCount(Impl* of) : impl(of) {
      impl->handler_.streams_changed(++impl->streams_);
    }
    ~StreamCount() {
      --impl->streams_;
      // Not while the server is taken down: its handler may be gone.
      if (!impl->io_.stopped()) impl->handler_.streams_changed(impl->streams_);
    }
    Impl* const impl;
  };
  struct Sleeper {
    Sleeper(std::set<net::steady_timer*>* all, net::steady_timer* one)
        : sleepers(all), timer(one) {
      sleepers->insert(timer);
    }
    ~Sleeper() { sleepers->erase(timer); }
    std::set<net::steady_timer*>* const sleepers;
    net::steady_timer* const timer;
  };

  const HttpLimits limits_;
  // Of the thread of `io_`. They outlive it: connections that it drops count
  // themselves.
  HttpHandler handler_;
  size_t connections_ = 0;
  size_t streams_ = 0;
  std::set<net::steady_timer*> sleepers_;

  net::io_context io_{1};
  tcp::acceptor acceptor_;
  net::thread_pool answers_;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(
    uint16_t port, HttpLimits limits) {
  try {
    return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Impl>(
        tcp::endpoint(net::ip::address_v4::loopback(), port), limits)));
  } catch (const boost::system::system_error& error) {
    return absl::UnavailableError(
        fmt::format("cannot listen on 127.0.0.1:{}: {}", port, error.what()));
  }
}

uint16_t HttpServer::port() const { return impl_->port(); }
void HttpServer::Serve(HttpHandler handler) {
  impl_->Serve(std::move(handler));
}
void HttpServer::Wake() { impl_->Wake(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace carillon::dashboard
