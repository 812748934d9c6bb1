#include <optional>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/tuned_text.h"
#include "workloads/prepare.h"

namespace moetune {
namespace {

class PrepareCommand : public Command {
 public:
  std::string_view name() const override { return "prepare"; }
  std::string_view summary() const override {
    return "tune what a server will open for a model and nothing serves yet";
  }
  std::string_view details() const override {
    return "Reads the model's config.json, lists the families of kernels that the server opens, asks the runtime\n"
           "which of them the packs and the cache serve, and tunes the others, heaviest first. The same command goes\n"
           "on where it was stopped. Layers that are not understood, and parts that stay the server's own, are named\n"
           "on stderr. Exit code 4 if nothing serves one of the families in the end (docs/workloads.md).\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  void read_options();

  std::string model_, kv_ = "same";
  std::optional<std::string> packs_;
  ServingOptions serving_;
  std::uint64_t page_ = 0, drafts_ = 0, tokens_ = ServerShape{}.most_tokens;
  PrepareRequest request_;
};

void PrepareCommand::declare(OptionTable& table) {
  SearchRequest& search = request_.tune.search;
  request_.tune.time_s = 600;
  table.positional("MODEL", model_, true, "a model's config.json or params.json, or its folder");
  table.word("server", "SERVER", request_.shape.server, server_names(), "the server that will open the families");
  table.without_setting({"server"});
  declare_serving(table, serving_);
  table.word("kv", "TYPE", kv_, {"same", "fp8"}, "the type of keys and values in the cache: the model's, or e4m3");
  table.whole("page", page_, 0, 1024, "tokens a KV page; 0: as the server has it");
  table.whole("drafts", drafts_, 0, 7, "tokens that are drafted for a sequence, and verified in one step");
  table.whole("tokens", tokens_, 1, std::uint64_t{1} << 20, "new tokens of a step at most, of all sequences");
  table.span("time", request_.tune.time_s, "end after that time; the same command goes on");
  table.flag("dry-run", request_.dry_run, "list what serves, and tune nothing");
  table.text("packs", "PATH", packs_, "a pack, or a folder of packs, in place of the installed ones");
  table.whole("budget", search.settings.budget, 1, 1'000'000'000, "trials of the first search of a family");
  declare_gpu(table, search.target.device);
  declare_cache_path(table, search.target.cache);
  declare_threads(table, search.threads);
  table.span("quiet-wait", search.settings.quiet_wait_s, kQuietWaitDoc);
}

void PrepareCommand::read_options() {
  if (request_.shape.server.empty()) throw BadInput("which server? --server vllm, sglang or transformers");
  request_.model = model_;
  request_.shape.serving = serving_.shape();
  if (page_ > 0) request_.shape.page = static_cast<std::int64_t>(page_);
  request_.shape.most_tokens = static_cast<std::int64_t>(tokens_);
  request_.shape.narrow_kv = kv_ == "fp8";
  request_.shape.drafts = static_cast<std::int64_t>(drafts_);
  request_.tune.range_timing = Timing::chained;
  std::error_code error;
  if (packs_ && !std::filesystem::exists(*packs_, error))
    throw BadField("packs", "there is no pack and no folder " + *packs_);
  request_.packs = packs_ ? std::vector<std::filesystem::path>{*packs_} : installed_packs();
}

std::string served_text(const std::optional<ServedFamily>& served) {
  if (!served) return "not known";
  if (!served->why_none.empty()) return "nothing";
  std::string text =
      served->is_tuned() ? "tuned" : format("defaults; %zu of %zu shapes tuned", served->tuned, served->shapes);
  if (served->inherited) text += ", on " + served->hardware.substr(0, served->hardware.find(",cc="));
  return text;
}

void print_families(const PrepareResult& result, const Output& output) {
  Table table({"kernel", "family", "over", "serves"});
  for (const PreparedFamily& family : result.families) {
    const auto& now = family.now();
    const bool is_missing = now && !now->why_none.empty();
    table.add({family.range.kernel, shown_family(family.range.kernel, family.family, output), family.range.over,
               served_text(now)},
              is_missing               ? Paint::bad
              : now && now->is_tuned() ? Paint::good
                                       : Paint::none);
  }
  if (!result.families.empty()) output.painted() << table.text("", output.columns(), output.colours());
}

void print_end(const PrepareResult& result, bool tunes, const Output& output) {
  std::size_t tuned = 0, defaults = 0, unserved = 0;
  for (const PreparedFamily& family : result.families) {
    const auto& now = family.now();
    if (!now) continue;
    if (now->why_none.empty()) {
      ++(now->is_tuned() ? tuned : defaults);
      continue;
    }
    ++unserved;
    output.warn("Nothing serves " + family.range.kernel + " " +
                shown_family(family.range.kernel, family.family, output) + ": " +
                (family.why.empty() ? now->why_none : family.why));
  }
  if (unserved > 0 && !tunes) output.warn("what nothing serves is tuned without --dry-run");
  output.result() << (result.families.size() == 1 ? "1 family" : format("%zu families", result.families.size()))
                  << (!result.gpu ? ": what serves them is not known without a GPU"
                      : !result.is_known()
                          ? ": what serves them is not known"
                          : format(": %zu tuned, %zu by defaults, %zu unserved", tuned, defaults, unserved))
                  << (tunes && result.out_of_time ? "; the time was up: the same command goes on" : "") << "\n";
}

int PrepareCommand::run(Output& output, std::stop_token stop) {
  read_options();
  Progress progress(output, {});
  const auto listed = [&](const PrepareResult& result) {
    for (const std::string& note : result.notes) output.warn(result.model + ": " + note);
    for (const std::string& warning : result.warnings) output.warn(warning);
    if (!result.why_no_gpu.empty()) output.warn(result.why_no_gpu);
    print_families(result, output);
  };
  const PointListener ended = [&](const TunedPoint& tuned) {
    progress.finished();
    output.result() << tuned_text(tuned, output) << std::endl;
  };
  const RangeListener range_ended = [&](const TunedRange& tuned) {
    progress.finished();
    if (tuned.state != TunedState::already) output.result() << tuned_text(tuned) << std::endl;
  };
  const PrepareResult result =
      prepare(request_, {.events = {.listener = progress.listener()}, .stop = stop}, listed, ended, range_ended);
  progress.finished();
  const bool tuned_any =
      std::ranges::any_of(result.families, [](const PreparedFamily& family) { return family.after.has_value(); });
  if (tuned_any) print_families(result, output);
  print_end(result, !request_.dry_run, output);
  Document document = {{"model", model_}, {"server", request_.shape.server}};
  document.update(prepare_document(result));
  output.document(document);
  if (result.families.empty()) return kNothingFound;
  return result.unserved() > 0 ? kChanged : kDone;
}

}  // namespace

std::unique_ptr<Command> make_prepare_command() { return std::make_unique<PrepareCommand>(); }

}  // namespace moetune
