// `moetune cache merge` and `import`: what other files hold, into one cache.
#include "base/error.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/record_rules.h"

namespace moetune {
namespace {

void print_duels(const std::vector<Duel>& duels, Output& output) {
  if (duels.empty()) return;
  Table table({"key", "kernel", "problem", "winner", "interval", "rival", "interval"}, {0});
  const auto interval = [](double low, double high) { return time_text(low) + " to " + time_text(high); };
  for (const Duel& duel : duels) {
    const WorkloadKey& key = duel.workload.key;
    table.add({std::to_string(duel.workload.id), key.kernel, shown_problem(key.kernel, key.problem, output),
               duel.winner_config, interval(duel.winner_low_us, duel.winner_high_us), duel.rival_config,
               interval(duel.rival_low_us, duel.rival_high_us)});
  }
  output.result() << "\n"
                  << counted_text(static_cast<std::int64_t>(duels.size()), "pair")
                  << " too close to call without a duel:\n"
                  << table.text("", output.columns());
}

int merge_files(const std::filesystem::path& into, const std::vector<std::string>& words, MergeOrder order,
                Output& output) {
  const std::vector<std::filesystem::path> files(words.begin(), words.end());
  const MergeResult done = Cache::merge(into, files, record_rules(), order);
  output.result() << into.string() << ": " << counted_text(done.winners_added, "winner") << " added, "
                  << done.winners_replaced << " replaced by "
                  << (order == MergeOrder::later ? "later" : "better") << " ones, " << done.winners_kept
                  << " kept, " << done.winners_equal << " the same; "
                  << counted_text(done.trials_taken, "trial") << " taken from "
                  << counted_text(done.files, "file") << "\n";
  print_duels(done.duels, output);
  output.document({{"cache", into.string()},
                   {"files", words},
                   {"winners_added", done.winners_added},
                   {"winners_replaced", done.winners_replaced},
                   {"winners_kept", done.winners_kept},
                   {"winners_equal", done.winners_equal},
                   {"trials", done.trials_taken},
                   {"duels", duels_document(done.duels)}});
  return kDone;
}

}  // namespace

Document duels_document(const std::vector<Duel>& duels) {
  Document list = Document::array();
  for (const Duel& duel : duels) {
    list.push_back(
        {{"key", duel.workload.id},
         {"kernel", duel.workload.key.kernel},
         {"problem", duel.workload.key.problem},
         {"hardware", duel.workload.key.hardware.name},
         {"winner", duel.winner_config},
         {"winner_us", duel.winner_us},
         {"winner_interval_us", {number_or_null(duel.winner_low_us), number_or_null(duel.winner_high_us)}},
         {"rival", duel.rival_config},
         {"rival_us", duel.rival_us},
         {"rival_interval_us", {number_or_null(duel.rival_low_us), number_or_null(duel.rival_high_us)}},
         {"rival_stored_at", duel.rival_stored_at}});
  }
  return list;
}

int merge_caches(const CacheArguments& arguments, Output& output) {
  if (!arguments.cache.path.empty())
    throw BadInput("--cache: merge names its cache as the first word; import takes --cache");
  return merge_files(arguments.operand, arguments.words,
                     arguments.later ? MergeOrder::later : MergeOrder::faster, output);
}

int import_into_cache(const CacheArguments& arguments, Output& output) {
  std::vector<std::string> files = arguments.words;
  files.insert(files.begin(), arguments.operand);
  return merge_files(arguments.cache.file(), files, MergeOrder::faster, output);
}

}  // namespace moetune
