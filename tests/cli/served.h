// A `moetune serve` of the tests, as a process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/cli/tool.h"

namespace moetune::testing {

// `moetune serve` with more options; ends with the test.
class Served {
 public:
  Served(Tool& tool, const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", "--listen", "127.0.0.1:0", "--cache", tool.path(name + ".db")});
    process_ = tool.start(more);
    const bool listens = within_a_while([&] {
      const std::string text = process_->output();
      const std::size_t at = text.find("http://"), end = text.find("/ with", at);
      if (end != std::string::npos) url = text.substr(at, end - at);
      return !url.empty();
    });
    REQUIRE_MESSAGE(listens, process_->output());
  }
  ~Served() { process_->send(SIGTERM); }

  std::string url;

 private:
  std::unique_ptr<Process> process_;
};

}  // namespace moetune::testing
