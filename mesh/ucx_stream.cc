#include "mesh/ucx_stream.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::mesh {
namespace {

// Of one message. UCX sends no larger one at once.
constexpr size_t kMessageBytes = 64 << 10;
// Messages that UCX has not sent yet.
constexpr size_t kMaxSending = 4;
// That bytes are read which have come, before UCX is to fetch more.
constexpr int kMaxProgress = 64;

std::string_view View(const void* bytes, size_t count) {
  return {static_cast<const char*>(bytes), count};
}

unsigned Other(UcxSide side) {
  return static_cast<unsigned>(side == UcxSide::kNear ? UcxSide::kFar
                                                      : UcxSide::kNear);
}

}  // namespace

std::string NewTicket() {
  std::string ticket(kTicketBytes, '\0');
  auto* const bytes = reinterpret_cast<unsigned char*>(ticket.data());
  // Without randomness there is no ticket: one that can be guessed is none.
  if (RAND_bytes(bytes, static_cast<int>(ticket.size())) != 1) ticket.clear();
  return ticket;
}

absl::StatusOr<std::unique_ptr<UcxStream>> UcxStream::Create(
    std::shared_ptr<UcxContext> context, UcxSide side) {
  std::unique_ptr<UcxStream> stream(new UcxStream(std::move(context), side));
  const UcxFunctions& ucx = stream->ucx_;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // The link's lock is held whenever two threads could use it.
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx.ucp_worker_create(stream->context_->handle(),
                                              &params, &stream->worker_);
  if (status != UCS_OK) return stream->Broken(status);
  ucp_am_handler_param_t handler{};
  handler.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  // What this end has sent cannot be sent back to it.
  handler.id = Other(side);
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = OnMessage;
  handler.arg = stream.get();
  status = ucx.ucp_worker_set_am_recv_handler(stream->worker_, &handler);
  if (status != UCS_OK) return stream->Broken(status);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucx.ucp_worker_get_address(stream->worker_, &address, &bytes);
  if (status != UCS_OK) return stream->Broken(status);
  stream->address_ = View(address, bytes);
  ucx.ucp_worker_release_address(stream->worker_, address);
  if (stream->address_.size() > kMaxUcxAddressBytes) {
    return absl::UnavailableError(
        fmt::format("UCX: an address of {} bytes: at most {}: name fewer "
                    "devices in UCX_NET_DEVICES",
                    stream->address_.size(), kMaxUcxAddressBytes));
  }
  return stream;
}

UcxStream::UcxStream(std::shared_ptr<UcxContext> context, UcxSide side)
    : context_(std::move(context)), ucx_(context_->ucx()), side_(side) {}

UcxStream::~UcxStream() {
  if (endpoint_ != nullptr) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* const closing = ucx_.ucp_ep_close_nbx(endpoint_, &params);
    // It asks the other end for nothing, and ends what is being sent.
    if (UCS_PTR_IS_PTR(closing)) {
      while (ucx_.ucp_request_check_status(closing) == UCS_INPROGRESS) {
        ucx_.ucp_worker_progress(worker_);
      }
      ucx_.ucp_request_free(closing);
    }
  }
  for (const Sending& sending : sending_) {
    while (ucx_.ucp_request_check_status(sending.request) == UCS_INPROGRESS) {
      ucx_.ucp_worker_progress(worker_);
    }
    ucx_.ucp_request_free(sending.request);
  }
  if (worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
}

absl::Status UcxStream::Broken(ucs_status_t status) const {
  return absl::UnavailableError(
      fmt::format("UCX: {}", ucx_.ucs_status_string(status)));
}

absl::Status UcxStream::Connect(const std::string& ticket,
                                const std::string& address, TlsStream* tls) {
  ticket_ = ticket;
  tls_ = tls;
  if (ticket_.size() != kTicketBytes) {
    return absl::UnavailableError("UCX: no ticket");
  }
  int descriptor = -1;
  ucs_status_t status = ucx_.ucp_worker_get_efd(worker_, &descriptor);
  if (status != UCS_OK) return Broken(status);
  poll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_) {
    return absl::UnavailableError(
        fmt::format("UCX: epoll: {}", std::strerror(errno)));
  }
  for (const int fd : {descriptor, tls->fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return absl::UnavailableError(
          fmt::format("UCX: epoll: {}", std::strerror(errno)));
    }
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t error) {
    static_cast<UcxStream*>(self)->error_ = error;
  };
  params.err_handler.arg = this;
  status = ucx_.ucp_ep_create(worker_, &params, &endpoint_);
  return status == UCS_OK ? absl::OkStatus() : Broken(status);
}

ucs_status_t UcxStream::OnMessage(void* self, const void* head,
                                  size_t head_bytes, void* data, size_t bytes,
                                  const ucp_am_recv_param_t* param) {
  // Such a one is not there yet, and no end of ours sends it.
  const bool is_promise = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  static_cast<UcxStream*>(self)->Take(View(head, is_promise ? 0 : head_bytes),
                                      View(data, bytes));
  return UCS_OK;
}

void UcxStream::Take(std::string_view head, std::string_view bytes) {
  Head has{};
  if (head.size() == sizeof(has)) std::memcpy(&has, head.data(), sizeof(has));
  if (head.size() != sizeof(has) || ticket_.size() != kTicketBytes ||
      CRYPTO_memcmp(has.ticket, ticket_.data(), kTicketBytes) != 0 ||
      has.number <= taken_) {
    ++refused_;
    return;
  }
  // One is missing, and will be: the connection is of no more use.
  if (has.number != taken_ + 1) {
    error_ = UCS_ERR_MESSAGE_TRUNCATED;
    return;
  }
  ++taken_;
  in_ += bytes;
}

void UcxStream::Progress() {
  for (int i = 0; i < kMaxProgress && in_.empty(); ++i) {
    if (ucx_.ucp_worker_progress(worker_) == 0) break;
  }
  sending_.remove_if([this](const Sending& sending) {
    const ucs_status_t status = ucx_.ucp_request_check_status(sending.request);
    if (status == UCS_INPROGRESS) return false;
    if (status != UCS_OK && error_ == UCS_OK) error_ = status;
    ucx_.ucp_request_free(sending.request);
    return true;
  });
}

absl::StatusOr<size_t> UcxStream::Read(std::span<char> to) {
  Progress();
  const size_t count = std::min(to.size(), in_.size() - in_at_);
  if (count > 0) {
    std::memcpy(to.data(), in_.data() + in_at_, count);
    in_at_ += count;
    if (in_at_ == in_.size()) {
      in_.clear();
      in_at_ = 0;
    }
    return count;
  }
  if (error_ != UCS_OK) return Broken(error_);
  // Nothing comes there any more but its end.
  char byte = 0;
  ASSIGN_OR_RETURN(const size_t got, tls_->Read({&byte, 1}));
  if (got == 0) return size_t{0};
  return absl::UnavailableError(
      "the other end sends by TLS what is to come by UCX");
}

absl::StatusOr<size_t> UcxStream::Write(std::string_view bytes) {
  if (error_ != UCS_OK) return Broken(error_);
  if (sending_.size() >= kMaxSending) return size_t{0};
  bytes = bytes.substr(0, kMessageBytes);
  Sending& sending = sending_.emplace_back();
  std::memcpy(sending.head.ticket, ticket_.data(), kTicketBytes);
  sending.head.number = sent_ + 1;
  sending.bytes = bytes;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  sending.request =
      ucx_.ucp_am_send_nbx(endpoint_, static_cast<unsigned>(side_),
                           &sending.head, sizeof(sending.head),
                           sending.bytes.data(), sending.bytes.size(), &params);
  if (UCS_PTR_IS_ERR(sending.request)) {
    error_ = UCS_PTR_STATUS(sending.request);
    sending_.pop_back();
    return Broken(error_);
  }
  // Null: UCX has it already.
  if (sending.request == nullptr) sending_.pop_back();
  ++sent_;
  return bytes.size();
}

bool UcxStream::MayWait(size_t) {
  // It says that it is busy while there is something to fetch.
  return in_.empty() && ucx_.ucp_worker_arm(worker_) == UCS_OK;
}

bool UcxStream::NeedsRead() const {
  return !in_.empty() || !sending_.empty() || error_ != UCS_OK;
}

// TLS's end is the connection's, and would overtake what UCX has to send.
void UcxStream::EndWriting() {}

bool UcxStream::Drain() {
  Progress();
  in_.clear();
  in_at_ = 0;
  return error_ != UCS_OK || tls_->Drain();
}

short UcxStream::poll_events() const { return POLLIN; }

}  // namespace carillon::mesh
