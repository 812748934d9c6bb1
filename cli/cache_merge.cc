// `moetune cache merge` and `import`: what other files hold, into one cache.
#include "base/error.h"
#include "cache/merge.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/record_rules.h"

namespace moetune {
namespace {

int merge_files(const std::filesystem::path& into, const std::vector<std::string>& words, MergeOrder order,
                Output& output) {
  const std::vector<std::filesystem::path> files(words.begin(), words.end());
  const MergeResult done = merge_caches(into, files, record_rules(), order);
  output.result() << into.string() << ": " << counted_text(done.winners_added, "winner") << " added, "
                  << done.winners_replaced << " replaced by " << (order == MergeOrder::later ? "later" : "better")
                  << " ones, " << done.winners_kept << " kept, " << done.winners_equal << " the same; "
                  << counted_text(done.trials_taken, "trial") << " taken from " << counted_text(done.files, "file")
                  << "\n";
  output.document({{"cache", into.string()},
                   {"files", words},
                   {"winners_added", done.winners_added},
                   {"winners_replaced", done.winners_replaced},
                   {"winners_kept", done.winners_kept},
                   {"winners_equal", done.winners_equal},
                   {"trials", done.trials_taken}});
  return kDone;
}

}  // namespace

int merge_caches(const CacheArguments& arguments, Output& output) {
  if (!arguments.cache.path.empty())
    throw BadInput("--cache: merge names its cache as the first word; import takes --cache");
  return merge_files(arguments.operand, arguments.words, arguments.later ? MergeOrder::later : MergeOrder::faster,
                     output);
}

int import_into_cache(const CacheArguments& arguments, Output& output) {
  std::vector<std::string> files = arguments.words;
  files.insert(files.begin(), arguments.operand);
  return merge_files(arguments.cache.file(), files, MergeOrder::faster, output);
}

}  // namespace moetune
