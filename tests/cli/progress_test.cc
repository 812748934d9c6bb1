#include "cli/progress.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <mutex>
#include <regex>

#include "tests/cli/tool.h"

using namespace moetune::testing;
using namespace std::chrono_literals;

namespace {

// What goes to stderr while one lives, from any thread.
class Captured : private std::streambuf {
 public:
  Captured() : before_(std::cerr.rdbuf(this)) {}
  ~Captured() override { std::cerr.rdbuf(before_); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool comes_to_show(const std::string& pattern, int times = 1) const {
    return within_a_while([this, times, wanted = std::regex(pattern)] {
      const std::string all = text();
      return std::distance(std::sregex_iterator(all.begin(), all.end(), wanted), {}) >= times;
    });
  }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock(mutex_);
    text_.append(text, static_cast<std::size_t>(size));
    return size;
  }
  int_type overflow(int_type one) override {
    const char text = traits_type::to_char_type(one);
    return traits_type::eq_int_type(one, traits_type::eof()) ? 0 : static_cast<int_type>(xsputn(&text, 1));
  }

  mutable std::mutex mutex_;
  std::string text_;
  std::streambuf* before_;
};

template <typename What>
void report_to(moetune::Progress& progress, const What& what) {
  progress.handle({0, what});
}

// Threads of this process.
std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
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
    for (ssize_t got; (got = read(master_, part, sizeof part)) > 0;) all.append(part, static_cast<std::size_t>(got));
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
  const auto process = tool.start_program({"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>" + terminal.name(), tool.binary(),
                                           "search", "--device", "replay:" + recording, "--budget", "5"});
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
      CHECK(captured.comes_to_show("0/7[^\r\n]* so far", 3));
      if (redraws) CHECK(captured.comes_to_show("0:(0[2-9]|[1-5][0-9]) so far"));
    }
    CHECK(contains(captured.text(), "\033[K") == redraws);
  }
}

TEST_CASE("before the search begins the phase and its time are the line") {
  const Captured captured;
  const moetune::Output output(false);
  {
    moetune::Progress progress(output, {.redraws = false, .log_every = 20ms});
    report_to(progress, moetune::PhaseChanged{moetune::Phase::preparing});
    CHECK(captured.comes_to_show("preparing [^\n]*  0:[0-5][0-9] so far\n", 2));
  }
}

TEST_CASE("the time left is said once there is a trial to tell it from, or a limit") {
  using namespace moetune;
  const Trial trial{.result = {.measurement = {.median_us = 5}}};
  TrialCounts none, one;
  one[Outcome::ok] = 1;
  // Whether this comes to be logged of a search of ten trials after these.
  const auto is_logged = [&](const std::string& pattern, const TrialCounts& counts, double limit_s) {
    const Captured captured;
    const Output output(false);
    Progress progress(output, {.redraws = false, .log_every = 20ms});
    report_to(progress, of_budget(10, limit_s));
    report_to(progress, PhaseChanged{Phase::searching});
    report_to(progress, TrialEnded{trial, counts, nullptr});
    const bool found = captured.comes_to_show(pattern);
    progress.finished();
    return found;
  };
  CHECK(is_logged("0 ok  0:[0-5][0-9] so far\n", none, 0));
  CHECK(is_logged("0 ok  0:[0-5][0-9] so far, (2:00:00|1:59:[0-5][0-9]) left\n", none, 7200));
  CHECK(is_logged("1 ok  0:[0-5][0-9] so far, 0:[0-5][0-9] left\n", one, 0));
}

TEST_CASE("nothing is left that could write once the progress has finished") {
  const Captured captured;
  const moetune::Output output(false);
  const std::ptrdiff_t before = threads();
  moetune::Progress progress(output, {.redraws = true});
  report_to(progress, of_budget(7));
  report_to(progress, moetune::PhaseChanged{moetune::Phase::searching});
  CHECK(within_a_while([&] { return threads() == before + 1; }));
  progress.finished();
  CHECK(within_a_while([&] { return threads() == before; }));
  CHECK(captured.text().ends_with("\033[K"));
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
