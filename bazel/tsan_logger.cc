// Debian's spdlog is not instrumented: where a thread that logs first makes the
// default logger, ThreadSanitizer takes its use by another thread for a race. So
// it is made before there are threads.
#include <spdlog/spdlog.h>

namespace {

[[maybe_unused]] const spdlog::logger* const made =
    spdlog::default_logger_raw();

}  // namespace
