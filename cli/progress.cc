#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/text.h"

namespace moetune {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kLogEvery{10};

std::size_t terminal_columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string outcomes_text(const TrialCounts& counts) {
  const auto failed = counts[Outcome::compile_failed] + counts[Outcome::launch_failed] +
                      counts[Outcome::timed_out] + counts[Outcome::crashed];
  std::string text = format("%zu ok", counts[Outcome::ok]);
  const auto add = [&](std::size_t count, const char* name) {
    if (count > 0) text += format(", %zu %s", count, name);
  };
  add(counts[Outcome::too_slow], "too slow");
  add(failed, "failed");
  add(counts[Outcome::wrong_result], "wrong");
  add(counts[Outcome::pruned], "pruned");
  add(counts.resumed, "resumed");
  return text;
}

std::string trial_text(const Trial& trial, std::size_t number) {
  const TrialResult& result = trial.result;
  std::string text = format("%5zu  %-14s  ", number, std::string(outcome_name(result.outcome)).c_str());
  text += has_time(result.outcome) ? time_text(result.measurement.median_us) : result.message;
  return text + "  " + trial.config.text() + (trial.resumed ? "  (resumed)" : "");
}

}  // namespace

Progress::Progress(const Output& output, Settings settings)
    : output_(output), settings_(settings), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { erase(); }

void Progress::started(std::size_t legal, std::size_t budget) {
  erase();
  output_.note(count_text(static_cast<double>(legal)) + " legal configurations, budget " +
               count_text(static_cast<double>(budget)) + " trials.");
  begin_ = last_ = Clock::now();
}

void Progress::trial_done(const Trial& trial, const TrialCounts& counts, const Trial* best) {
  if (settings_.verbose) {
    output_.note(trial_text(trial, counts.total()));
    return;
  }
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLogEvery))) return;
  last_ = now;
  const std::string text = line(counts, best, seconds(now - begin_));
  if (terminal_) {
    draw(text);
  } else {
    output_.note(text);
  }
}

void Progress::phase(const std::string& name) {
  erase();
  if (terminal_) {
    draw(name + " …");
  } else if (settings_.verbose) {
    output_.note(name);
  }
}

double Progress::seconds_left(const TrialCounts& counts, double elapsed) const {
  const std::size_t fresh = counts.total() - std::min(counts.total(), counts.resumed);
  double left = 0;
  if (fresh > 0 && settings_.budget > counts.total()) {
    left = elapsed / static_cast<double>(fresh) * static_cast<double>(settings_.budget - counts.total());
  }
  return settings_.time_budget_s > 0 ? std::min(left, std::max(0.0, settings_.time_budget_s - elapsed))
                                     : left;
}

std::string Progress::line(const TrialCounts& counts, const Trial* best, double elapsed) const {
  std::string text = format("%zu/%zu", counts.total(), settings_.budget);
  if (best != nullptr) {
    const double time = best->result.measurement.median_us;
    text += "  best " + time_text(time);
    if (settings_.bytes > 0) text += " (" + rate_text(settings_.bytes / time * 1e-6) + ")";
  }
  if (elapsed > 0) text += format("  %.1f trials/s", static_cast<double>(counts.total()) / elapsed);
  return text + "  " + outcomes_text(counts) + "  " + duration_text(seconds_left(counts, elapsed)) + " left";
}

void Progress::draw(const std::string& text) {
  output_.notes() << "\r\033[K" << fit(text, terminal_columns() - 1) << std::flush;
  drawn_ = true;
}

void Progress::erase() {
  if (drawn_) output_.notes() << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace moetune
