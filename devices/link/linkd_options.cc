#include "devices/link/linkd_options.h"

#include <string_view>

namespace carillon::link {

std::vector<Option> OptionTable(LinkdOptions& options) {
  const auto text = [](std::string_view flag, std::string* field,
                       std::string_view help, bool required = true) {
    return Option{.flag = flag,
                  .key = flag.substr(2),
                  .type = OptionType::kText,
                  .field = field,
                  .min = 1,
                  .max = 64,
                  .help = help,
                  .required = required};
  };
  const auto path = [](std::string_view flag, std::string* field,
                       std::string_view help) {
    Option option = PathOption(flag, flag.substr(2), field, help);
    option.required = true;
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
      path("--tls-cert", &options.tls.certificate,
           "this host's certificate for links, PEM"),
      path("--tls-key", &options.tls.key, "its key, PEM, without a passphrase"),
      path("--tls-ca", &options.tls.ca,
           "whose certificate the other host shows, PEM"),
  };
}

}  // namespace carillon::link
