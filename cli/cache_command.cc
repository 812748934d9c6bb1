#include <limits>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/options.h"
#include "jobs/session/documents.h"

namespace moetune {
namespace {

struct CacheAction {
  std::string_view name;
  std::string_view operand;  // what its word is; empty for none
  std::string_view further;  // what its further words are; empty for none
  std::size_t fewest, most;  // further words
  Cache::Mode mode;
  int (*run)(const CacheArguments&, Cache&, Output&);
  int (*run_alone)(const CacheArguments&, Output&);  // instead, for what opens its files itself
  std::string_view words, doc;                       // for help
};

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

constexpr CacheAction kActions[] = {
    {"ls", "", "", 0, 0, Cache::Mode::read_only, list_cache, nullptr, "",
     "workloads and winners, with their keys, and range tables"},
    {"show", "KEY", "", 0, 0, Cache::Mode::read_only, show_cache, nullptr, "KEY",
     "one workload in full: configuration, launch plan, provenance"},
    {"check", "PACK", "", 0, 0, Cache::Mode::inspect, nullptr, check_named_cache, "[PACK]",
     "pages, tables, references, digests, and every trial and winner; exit code 3 if any is damaged; what was tuned "
     "with other sources and is not known any more is named, and is sound; with --trust, a pack must be signed by that "
     "key"},
    {"extract", "KEY", "FOLDER", 1, 1, Cache::Mode::read_only, extract_from_cache, nullptr, "KEY FOLDER",
     "writes one winner's cubin, launch plan and key into a new folder"},
    {"rm", "KEY", "", 0, 0, Cache::Mode::read_write, remove_from_cache, nullptr, "KEY",
     "removes a workload with its trials and its winner, or (table:N) a range table with its history"},
    {"export", "PACK", "", 0, 0, Cache::Mode::read_only, export_cache, nullptr, "PACK",
     "writes the winners with their cubins, and no trials, into a file for servers"},
    {"complete", "", "", 0, 0, Cache::Mode::read_write, complete_cache, nullptr, "",
     "compiles the cubins that range tables lack because the spaces' defaults have changed since; no GPU"},
    {"gc", "", "", 0, 0, Cache::Mode::read_write, shrink_cache, nullptr, "",
     "removes compiled builds that were not used for longest, and trials that were measured with other templates if "
     "today's have a winner; winners stay; --dry-run only counts"},
    {"history", "KEY", "", 0, 0, Cache::Mode::read_only, show_history, nullptr, "KEY",
     "the winners (of table:N the tables) that others replaced, with the reason; gc keeps the last eight"},
    {"rollback", "KEY", "GENERATION", 0, 1, Cache::Mode::read_write, roll_back_cache, nullptr, "KEY [GENERATION]",
     "makes that one, else the last, the winner again; a second rollback undoes the first"},
    {"merge", "INTO", "FILE", 1, kAnyNumber, Cache::Mode::create, nullptr, merge_caches, "INTO FILE...",
     "takes the winners and trials of other caches and packs into the cache INTO, which is made if it is new; of two "
     "winners of one problem the sound one stays, then the one whose interval ends lower, or if intervals overlap the "
     "later one; an unsound file changes nothing; with --later the one that was stored last stays, for a "
     "file that began with what INTO has"},
    {"import", "FILE", "FILE", 0, kAnyNumber, Cache::Mode::create, nullptr, import_into_cache, "FILE...",
     "the same into the cache of --cache"},
    {"sign", "PACK", "", 0, 0, Cache::Mode::read_only, nullptr, sign_cache, "PACK",
     "signs a pack with --key; the signature is PACK.sig (docs/sync.md)"},
    {"new-key", "FILE", "", 0, 0, Cache::Mode::read_only, nullptr, make_key, "FILE",
     "makes a secret key for signing and FILE.pub for those who are to trust it"},
};

const CacheAction& find_action(const std::string& name) {
  std::vector<std::string> names;
  for (const CacheAction& action : kActions) {
    if (action.name == name) return action;
    names.emplace_back(action.name);
  }
  throw BadInput(unknown_name("action", name, names));
}

class CacheCommand : public Command {
 public:
  std::string_view name() const override { return "cache"; }
  std::string_view summary() const override {
    return "list, check, complete, export, import, merge, sign and remove winners; go back to earlier ones";
  }
  std::vector<Action> actions() const override {
    std::vector<Action> actions;
    for (const CacheAction& action : kActions) actions.push_back({action.name, action.words, action.doc});
    return actions;
  }
  void declare(OptionTable& table) override {
    table.positional("ACTION", action_, true, "what to do, as below");
    table.positional("OPERAND", arguments_.operand, false,
                     "a workload's key, as ls prints it; for check, export, import, merge, sign and new-key: a path");
    table.words("WORD", arguments_.words,
                "for extract: the folder to make; for import and merge: files; for rollback: a generation");
    declare_cache_path(table, arguments_.cache);
    declare_selection(table, arguments_.selection, "ls, export: ");
    table.text("key", "FILE", arguments_.key, "sign: the secret key, of `cache new-key`");
    table.text("trust", "FILE", arguments_.trust, "check: the public key that a pack must be signed by");
    table.flag("recorded", arguments_.recorded,
               "export: winners of recordings too, which only a runtime opened for tests takes");
    table.flag("later", arguments_.later,
               "merge: of two sound records the later one stays, and not the faster: for a night's results");
    table.flag("dry-run", arguments_.dry_run, "gc: say what would be removed, and change nothing");
    table.whole("keep-builds", arguments_.keep_builds, 0, 1 << 20, "gc: MiB of builds to keep, the last used");
    table.positive("max-size", "MIB", "number of MiB", arguments_.max_size,
                   "gc: remove more builds until the file is no larger");
    table.only_after({"ls", "export"}, {"kernel", "hardware"});
    table.only_after({"ls"}, {"stale", "sort", "limit"});
    table.only_after({"export"}, {"recorded"});
    table.only_after({"sign"}, {"key"});
    table.only_after({"check"}, {"trust"});
    table.only_after({"merge"}, {"later"});
    table.only_after({"gc"}, {"dry-run", "keep-builds", "max-size"});
  }

  int run(Output& output, std::stop_token stop) override {
    const CacheAction& action = find_action(action_);
    arguments_.stop = std::move(stop);
    if (action.operand.empty() && !arguments_.operand.empty())
      throw BadInput("unexpected word '" + arguments_.operand + "' after " + action_);
    const bool may_be_missing = action.run_alone == check_named_cache;
    if (!action.operand.empty() && arguments_.operand.empty() && !may_be_missing)
      throw BadInput("which " + std::string(action.operand) + "? " + action_ + " needs one");
    require_words(action);
    if (action.run_alone != nullptr) return action.run_alone(arguments_, output);
    const std::unique_ptr<Cache> cache = open_named_cache(arguments_.cache, mode_of(action));
    if (cache == nullptr) return print_nothing_tuned(arguments_.cache, output);
    return action.run(arguments_, *cache, output);
  }

 private:
  void require_words(const CacheAction& action) const {
    const std::vector<std::string>& words = arguments_.words;
    if (words.size() < action.fewest) {
      throw BadInput("which " + std::string(action.further) + "? " + action_ + " needs one" +
                     (action.run == extract_from_cache ? " that does not exist yet" : ""));
    }
    if (words.size() > action.most) {
      const std::string_view before = action.most > 0 ? action.further : action.operand;
      throw BadInput("unexpected word '" + words[action.most] + "' after the " + std::string(before));
    }
  }

  Cache::Mode mode_of(const CacheAction& action) const {
    return arguments_.dry_run && action.run == shrink_cache ? Cache::Mode::read_only : action.mode;
  }

  std::string action_;
  CacheArguments arguments_;
};

}  // namespace

int print_nothing_tuned(const CacheChoice& cache, Output& output) {
  output.result() << "There is no cache yet at " << cache.file().string()
                  << ".\nStart with: moetune search decode_attention --budget 200\n";
  output.document({{"cache", cache.file().string()}, {"exists", false}, {"workloads", Document::array()}});
  return kDone;
}

std::unique_ptr<Command> make_cache_command() { return std::make_unique<CacheCommand>(); }

}  // namespace moetune
