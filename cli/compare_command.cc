#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "kernels/registry.h"
#include "report/compared_side.h"

namespace moetune {
namespace {

class CompareCommand : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override { return "which winners of two caches, dates, GPUs or searches differ"; }
  std::string_view details() const override {
    return "A and B are each a cache or pack file, or a part of --cache: its winners at the end of a day\n"
           "(2026-11-22, UTC), of gpu:NAME (a part of a GPU's name), or of key:N (a workload's key).\n"
           "A difference is significant if it is larger than the stored intervals explain (docs/report.md).\n"
           "Exit code 4 with --exit-code: something is significantly slower in B.\n";
  }
  void declare(OptionTable& table) override {
    table.positional("A", a_, true, "the one side: before, or this GPU");
    table.positional("B", b_, true, "the other side: after, or another GPU");
    declare_cache_path(table, cache_);
    table.flag("significant", significant_, "show only differences that are significant");
    table.flag("exit-code", exit_code_, "exit with 4 if something is significantly slower in B");
  }
  int run(Output& output, std::stop_token) override;

 private:
  std::string a_, b_;
  CacheChoice cache_;
  bool significant_ = false, exit_code_ = false;
};

std::vector<Entry> entries_of(const ComparedSide& side, const CacheChoice& choice) {
  CacheChoice own = choice;
  if (side.kind == ComparedSide::Kind::file) {
    own.path = side.text;
    if (own.path.empty()) throw BadInput("file: takes the name of a cache or a pack");
    if (std::error_code unknown; !std::filesystem::exists(own.path, unknown) && !unknown)
      throw BadInput("there is no file " + own.path + "; a side is a cache or pack, a date, gpu:NAME or key:N");
  }
  const std::unique_ptr<Cache> cache = open_named_cache(own);
  if (cache == nullptr) {
    if (side.kind == ComparedSide::Kind::file) return {};
    throw BadInput("nothing is tuned yet in " + own.file().string() + ", so there is nothing to compare");
  }
  return read_side(side, *cache);
}

std::string change_text(const ComparedPair& pair) {
  return format("%+.1f%%", 100 * (1 / pair.ratio - 1));  // of the time
}

Document entry_document(const Entry& entry) {
  return {{"workload", entry.workload},
          {"kernel", entry.kernel},
          {"problem", entry.problem},
          {"hardware", entry.hardware_name},
          {"config", entry.config},
          {"time_us", number_or_null(entry.time_us)},
          {"interval_us", {number_or_null(entry.low_us), number_or_null(entry.high_us)}},
          {"contended", entry.contended},
          {"stored_at", text_or_null(entry.stored_at)}};
}

Document comparison_document(const Comparison& comparison) {
  Document pairs = Document::array(), only_a = Document::array(), only_b = Document::array();
  for (const ComparedPair& pair : comparison.pairs) {
    pairs.push_back({{"a", entry_document(pair.a)},
                     {"b", entry_document(pair.b)},
                     {"speedup", pair.ratio},
                     {"p", pair.p},
                     {"verdict", verdict_name(pair.verdict)}});
  }
  for (const Entry& entry : comparison.only_a) only_a.push_back(entry_document(entry));
  for (const Entry& entry : comparison.only_b) only_b.push_back(entry_document(entry));
  return {{"faster", comparison.count(Verdict::faster)},
          {"slower", comparison.count(Verdict::slower)},
          {"same", comparison.count(Verdict::same)},
          {"unsure", comparison.count(Verdict::unsure)},
          {"speedup", number_or_null(comparison.mean_ratio)},
          {"pairs", std::move(pairs)},
          {"only_a", std::move(only_a)},
          {"only_b", std::move(only_b)}};
}

std::set<std::string> hardware_of(const std::vector<Entry>& entries) {
  std::set<std::string> names;
  for (const Entry& entry : entries) names.insert(entry.hardware);
  return names;
}

// Two files that have no GPU in common can only be of different ones.
bool share_no_hardware(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  const std::set<std::string> left = hardware_of(a), right = hardware_of(b);
  return !left.empty() && !right.empty() &&
         std::none_of(left.begin(), left.end(), [&](const std::string& one) { return right.contains(one); });
}

bool is_significant(const ComparedPair& pair) {
  return pair.verdict == Verdict::faster || pair.verdict == Verdict::slower;
}

Paint paint_of_verdict(Verdict verdict) {
  if (verdict == Verdict::faster) return Paint::good;
  if (verdict == Verdict::slower) return Paint::bad;
  return verdict == Verdict::unsure ? Paint::warning : Paint::none;
}

void print_comparison(const Comparison& comparison, bool significant, const Output& output) {
  const std::size_t columns = output.page_columns();
  Table table({"kernel", "problem", "A", "B", "B's time", "B is", "hardware"}, {2, 3, 4});
  std::size_t shown = 0;
  for (const ComparedPair& pair : comparison.pairs) {
    if (significant && !is_significant(pair)) continue;
    const Entry& a = pair.a;
    const std::string problem = columns == 0 || a.problem.empty() ? a.problem : brief_problem(a.kernel, a.problem);
    const bool same_hardware = a.hardware_name == pair.b.hardware_name;
    table.add(
        {a.kernel, problem.empty() ? "-" : problem, time_text(a.time_us), time_text(pair.b.time_us), change_text(pair),
         verdict_name(pair.verdict), same_hardware ? a.hardware_name : a.hardware_name + ", " + pair.b.hardware_name},
        paint_of_verdict(pair.verdict));
    ++shown;
  }
  if (shown > 0) output.painted() << table.text("", columns, output.colours()) << "\n";
  const auto count = [&](Verdict verdict) { return static_cast<std::int64_t>(comparison.count(verdict)); };
  std::string text = counted_text(static_cast<std::int64_t>(comparison.pairs.size()), "pair");
  if (!comparison.pairs.empty()) {
    text += format(": B is significantly faster in %lld, slower in %lld, the same in %lld, unsure in %lld; ",
                   static_cast<long long>(count(Verdict::faster)), static_cast<long long>(count(Verdict::slower)),
                   static_cast<long long>(count(Verdict::same)), static_cast<long long>(count(Verdict::unsure)));
    text += format("%.3f× as fast in the geometric mean", comparison.mean_ratio);
  }
  output.result() << paragraph(text + ".", columns);
  if (!comparison.only_a.empty() || !comparison.only_b.empty())
    output.result() << format("Only in A: %zu. Only in B: %zu.\n", comparison.only_a.size(), comparison.only_b.size());
}

int CompareCommand::run(Output& output, std::stop_token) {
  using Kind = ComparedSide::Kind;
  const ComparedSide a = parse_side(a_), b = parse_side(b_);
  const std::vector<Entry> left = entries_of(a, cache_), right = entries_of(b, cache_);
  Comparison comparison;
  if (a.kind == Kind::search && b.kind == Kind::search) {
    if (left.front().kernel != right.front().kernel || left.front().problem != right.front().problem)
      output.warn("The two searches are of different problems: compare with care.");
    comparison = compare_searches(left.front(), right.front());
  } else {
    const bool across = a.kind == Kind::gpu || b.kind == Kind::gpu || share_no_hardware(left, right);
    comparison = compare_entries(left, right, across);
  }
  print_comparison(comparison, significant_, output);
  Document document = {{"a", a_}, {"b", b_}};
  document.update(comparison_document(comparison));
  output.document(document);
  return exit_code_ && comparison.count(Verdict::slower) > 0 ? kChanged : kDone;
}

}  // namespace

std::unique_ptr<Command> make_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace moetune
