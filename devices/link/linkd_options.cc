#include "devices/link/linkd_options.h"

#include <string_view>

#include "base/clock.h"

namespace carillon::link {

std::vector<Option> OptionTable(LinkdOptions& options) {
  const auto text = [](std::string_view flag, std::string* field,
                       std::string_view help, bool required = true) {
    return Option{.flag = flag,
                  .type = OptionType::kText,
                  .field = field,
                  .min = 1,
                  .max = 64,
                  .help = help,
                  .required = required};
  };
  const auto path = [](std::string_view flag, std::string_view key,
                       std::string* field, std::string_view help) {
    Option option = PathOption(flag, key, field, help);
    option.section = kTlsSection;
    option.required = true;
    return option;
  };
  const auto seconds = [](std::string_view flag, std::string_view key,
                          Nanoseconds* field, uint64_t max,
                          std::string_view help) {
    Option option = IntegerOption(flag, key, field, 1, max, help);
    option.unit = 1'000'000'000;
    return option;
  };
  return {
      text("--listen", &options.listen,
           "HOST:PORT where the other host's gpud finds it, HOST in numbers, "
           "port 0: any free one"),
      text("--host", &options.host, "this host's name in its certificate"),
      text("--peer", &options.peer, "the other host's name in its certificate"),
      text("--testbed", &options.testbed,
           "the testbed's name, which is the other host's, too", false),
      path("--tls-cert", "certificate", &options.tls.certificate,
           "this host's certificate for links, PEM"),
      path("--tls-key", "key", &options.tls.key,
           "its key, PEM, without a passphrase"),
      path("--tls-ca", "ca", &options.tls.ca,
           "whose certificate the other host shows, PEM"),
      ChoiceOption("--engine", "engine", &options.engine.name,
                   {mesh::kTlsEngine, mesh::kUcxEngine},
                   "what carries the events, the same on both hosts; ucx is "
                   "not encrypted, and needs trusted"),
      BooleanOption("--trusted", "trusted", &options.engine.trusted,
                    "say it where everybody on the hosts' network is trusted: "
                    "they can read and forge what ucx carries"),
      seconds("--timeout", "timeout", &options.times.timeout, 60,
              "after so many seconds without a sign of life a connection is "
              "cut, and made again"),
      seconds("--lease", "lease", &options.times.lease, 86400,
              "after so many seconds without a link its events in flight end "
              "as aborted"),
  };
}

}  // namespace carillon::link
