#include "cli/progress.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <iostream>
#include <sstream>

#include "tests/cli/tool.h"

using namespace moetune::testing;
using namespace std::chrono_literals;

namespace {

// What goes to stderr while one lives.
class Captured {
 public:
  Captured() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~Captured() { std::cerr.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

template <typename What>
void report_to(moetune::Progress& progress, const What& what) {
  progress.handle({0, what});
}

moetune::SearchStarted of_budget(std::size_t budget, double time_budget_s = 0) {
  return {.legal = 100, .budget = budget, .time_budget_s = time_budget_s, .work = {}};
}

// The terminal's end of a pseudo-terminal, and all that was written to it.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    REQUIRE(master_ >= 0);
    REQUIRE(grantpt(master_) == 0);
    REQUIRE(unlockpt(master_) == 0);
    keep_open_ = open(name().c_str(), O_RDWR | O_NOCTTY);
    REQUIRE(keep_open_ >= 0);
  }
  ~Terminal() {
    close(keep_open_);
    close(master_);
  }
  std::string name() const { return ptsname(master_); }
  std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t got; (got = read(master_, part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int master_, keep_open_ = -1;
};

// What a short search writes to a terminal of this kind.
std::string on_terminal(const std::string& kind) {
  Tool tool(std::map<std::string, std::string>{{"TERM", kind}});
  const std::string recording = tool.write_recording();
  const Terminal terminal;
  const auto process =
      tool.start_program({"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>" + terminal.name(), tool.binary(), "search",
                          "--device", "replay:" + recording, "--budget", "5"});
  CHECK(process->wait().code == 0);
  return terminal.text();
}

}  // namespace

TEST_CASE("the line keeps moving while nothing comes to an end, on a terminal and in a log") {
  for (const bool redraws : {false, true}) {
    CAPTURE(redraws);
    const Captured captured;
    const moetune::Output output(false);
    {
      moetune::Progress progress(output, {.redraws = redraws, .log_every = 50ms});
      report_to(progress, moetune::PhaseChanged{moetune::Phase::preparing});
      report_to(progress, of_budget(7));
      report_to(progress, moetune::PhaseChanged{moetune::Phase::searching});
      std::this_thread::sleep_for(redraws ? 2500ms : 400ms);
    }
    const std::string text = captured.text();
    CHECK(count(text, "0/7") >= 3);
    CHECK(count(text, " so far") >= 3);
    CHECK(contains(text, "\033[K") == redraws);
    if (redraws) CHECK(contains(text, "0:02 so far"));
  }
}

TEST_CASE("before the search begins the phase and its time are the line") {
  const Captured captured;
  const moetune::Output output(false);
  {
    moetune::Progress progress(output, {.redraws = false, .log_every = 20ms});
    report_to(progress, moetune::PhaseChanged{moetune::Phase::preparing});
    std::this_thread::sleep_for(200ms);
  }
  CHECK(count(captured.text(), "preparing …  0:00 so far\n") >= 2);
}

TEST_CASE("the time left is said once there is a trial to tell it from, or a limit") {
  using namespace moetune;
  const Trial trial{.result = {.measurement = {.median_us = 5}}};
  TrialCounts none, one;
  one[Outcome::ok] = 1;
  // What is logged of a search of ten trials after these.
  const auto logged = [&](const TrialCounts& counts, double limit_s) {
    const Captured captured;
    const Output output(false);
    {
      Progress progress(output, {.redraws = false, .log_every = 20ms});
      report_to(progress, of_budget(10, limit_s));
      report_to(progress, PhaseChanged{Phase::searching});
      report_to(progress, TrialEnded{trial, counts, nullptr});
      std::this_thread::sleep_for(200ms);
    }
    return captured.text();
  };
  CHECK(contains(logged(none, 0), "0 ok  0:00 so far\n"));
  CHECK(contains(logged(none, 7200), "0 ok  0:00 so far, 2:00:00 left\n"));
  CHECK(contains(logged(one, 0), "1 ok  0:00 so far, 0:0"));
}

TEST_CASE("nothing is written once the progress has finished") {
  const Captured captured;
  const moetune::Output output(false);
  moetune::Progress progress(output, {.redraws = true, .log_every = 10ms});
  report_to(progress, of_budget(7));
  report_to(progress, moetune::PhaseChanged{moetune::Phase::searching});
  progress.finished();
  const std::string before = captured.text();
  std::this_thread::sleep_for(1200ms);
  CHECK(captured.text() == before);
}

TEST_CASE("a second search begins afresh, and a warning goes above the line") {
  using namespace moetune;
  const Captured captured;
  const Output output(false);
  Progress progress(output, {.redraws = true});
  TrialCounts counts;
  counts[Outcome::ok] = 3;
  const Trial trial{.result = {.measurement = {.median_us = 5}}};
  report_to(progress, of_budget(7));
  report_to(progress, PhaseChanged{Phase::searching});
  report_to(progress, TrialEnded{trial, counts, &trial});
  const TuneResult result;
  report_to(progress, SearchEnded{result});
  const std::string text = "a sentence";
  report_to(progress, Warning{WarningKind::cache, text});
  report_to(progress, of_budget(9));
  report_to(progress, PhaseChanged{Phase::searching});
  progress.finished();
  CHECK(contains(captured.text(), "\033[Ka sentence\n"));
  CHECK(contains(captured.text(), "0/9"));
  CHECK_FALSE(contains(captured.text(), "3/9"));
}

TEST_CASE("a terminal gets a live line, and one that cannot redraw gets no escapes") {
  CHECK(contains(on_terminal("xterm"), "\033[K"));
  for (const std::string kind : {"dumb", ""}) {
    CAPTURE(kind);
    const std::string text = on_terminal(kind);
    CHECK(contains(text, "legal configurations"));
    CHECK_FALSE(contains(text, "\033"));
  }
}
