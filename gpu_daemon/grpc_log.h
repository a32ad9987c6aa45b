// Leads what gRPC logs into gpud's log.
#ifndef CARILLON_GPU_DAEMON_GRPC_LOG_H_
#define CARILLON_GPU_DAEMON_GRPC_LOG_H_

namespace carillon::gpud {

// What gRPC has to say goes into gpud's log, as warnings, a few each second: it
// has a line for every connection that does not speak TLS, and strangers must
// not fill the log. To be called once, before gRPC is used. Where gRPC would abort
// for want of a thread, std::get_new_handler() is called.
void LimitGrpcLog();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_GRPC_LOG_H_
