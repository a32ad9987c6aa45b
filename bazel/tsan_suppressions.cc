// Debian's gRPC, ZeroMQ, UCX and what they are made of are not instrumented:
// ThreadSanitizer sees what they read and write through libc, and none of the
// locks that they hold meanwhile. So what such a library does itself is not
// reported, nor what its inline code in our programs passes to it.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libabsl\n"
         "race:libupb\n"
         "race:libprotobuf\n"
         "race:libcrypto\n"
         "race:libssl\n"
         "race:libzmq\n"
         "race:libuc\n"
         "race:libgrpc.so\n"
         // Not the whole of libgrpc++, which calls the services' handlers.
         "race:grpc::internal::CallOpSet\n"
         "race:grpc::internal::CallbackBidiHandler\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl\n"
         "race:grpc::ServerContextBase::CompletionOp\n"
         "race:grpc::AuthMetadataProcessorAyncWrapper\n"
         "race:grpc::Server::CallbackRequest\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         // A descriptor's number comes again after gRPC has closed it unseen.
         "race_top:accept4\n"
         "race_top:pipe2\n"
         "race_top:socketpair\n"
         // A GPU, here a simulated one, reads an entry while its device writes it,
         // and uses what says that it is whole (docs/decisions/016-an-entry-with-its-doorbell.md).
         "race:carillon::shm::DeviceRing::Commit\n"
         "race:carillon::gpud::cuda::CudaBackendFixture::Commit\n"
         // The hostile device changes what it rings, on purpose.
         "race:carillon::testing::WireRing\n";
}
