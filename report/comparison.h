// Two sets of winners beside each other (`moetune compare A B`): which differences are more than noise.
//
// Method. A stored time is a median with a 95% interval. The standard error of its logarithm is the interval's
// width over 2 x 1.96; kDrift is added in quadrature for what no interval within one search sees: clocks, temperature
// and the state of memory differ from run to run (seven equal searches in docs/performance.md ended with times whose
// standard deviation is 0.15%). z = ln(a/b) / sqrt(se_a^2 + se_b^2) gives a two-sided p by the normal
// distribution. Over all pairs Benjamini and Hochberg's procedure (1995) keeps the share of false alarms among what is
// called significant at kFalseAlarms or below. A difference must also exceed kLeastDifference, the width of a tie in a
// search's duel: below it nobody would choose differently. Contended times are never significant.
//
// Plain data and pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"

namespace moetune {

inline constexpr double kDrift = 0.003, kFalseAlarms = 0.05, kLeastDifference = 0.003;

// A winner as it is compared.
struct Entry {
  std::int64_t workload = 0;
  std::string kernel, problem, hardware;  // hardware: HardwareKey::text
  Timing timing = Timing::overlapped;     // which question its time answers
  std::string hardware_name, config, stored_at;
  double time_us = 0, low_us = 0, high_us = 0;
  bool contended = false;
};

enum class Verdict { faster, slower, same, unsure };  // B against A; unsure: no interval, or contended

struct ComparedPair {
  Entry a, b;
  double ratio = 0;  // time of A over time of B: above 1, B is faster
  double p = 1;      // of a difference this large if there is none; 1 if it cannot be told
  Verdict verdict = Verdict::unsure;
};

struct Comparison {
  std::vector<ComparedPair> pairs;  // in the order of A
  std::vector<Entry> only_a, only_b;
  double mean_ratio = 0;  // geometric mean over the pairs; 0 without any

  std::size_t count(Verdict verdict) const;
};

// Pairs entries of equal kernel, problem, timing and hardware; with `across_hardware` of any hardware. If several are
// equal, the one stored last counts. Entries without a time are left out.
Comparison compare_entries(const std::vector<Entry>& a, const std::vector<Entry>& b, bool across_hardware);

// Pairs one with one, whatever they are of.
Comparison compare_searches(const Entry& a, const Entry& b);

const char* verdict_name(Verdict verdict);  // "faster"

}  // namespace moetune
