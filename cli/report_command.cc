#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/replace_file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/report_text.h"
#include "cli/text.h"
#include "jobs/stored/stored_results.h"
#include "kernels/registry.h"
#include "replay/shipped.h"
#include "report/ncu_csv.h"
#include "report/page.h"
#include "report/report_document.h"
#include "report/served_shapes.h"
#include "report/t4.h"

namespace moetune {
namespace {

class ReportCommand : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "show the best of every tuned workload"; }
  std::string_view details() const override {
    return "A time with * is a trial's: nothing was compiled for it, or its search did not end, so there is "
           "no cubin to\n"
           "run. A time with ! is contended: somebody else used the GPU meanwhile; the next search measures again.\n"
           "\"default\" and \"before\" are speed-ups over the default configuration and the earlier winner.\n"
           "Of one shape, KERNEL --batch 16 --context 4096, it shows what a server launches there on each GPU: the\n"
           "choice of a range table, or the shape's own winner. docs/report.md explains the rest.\n";
  }
  void declare(OptionTable& table) override {
    declare_workload(table, workload_, false);
    declare_cache_path(table, cache_);
    declare_selection(table, selection_);
    table.flag("details", details_, "each workload with its configuration, however many there are");
    table.text("html", "FILE", html_, "one page with charts and tables, which needs no network");
    table.text("csv", "FILE", csv_, "a line for each workload, for spreadsheets; cells of range tables in FILE-ranges");
    table.text("ncu", "FILE", ncu_,
               "of one shape: what Nsight Compute found of it, its CSV as `bench --ncu` has it written");
    table.text("t4", "FOLDER", t4_, "the trials, a T4 file for each workload (Kernel Tuner, autotuning_methodology)");
  }
  int run(Output& output, std::stop_token) override;

 private:
  bool writes_files() const { return html_ || csv_ || t4_; }
  void write_files(const Report& report, const Cache* cache, Output& output, Document& document) const;
  std::size_t write_t4(const Report& report, const Cache* cache) const;
  void say_empty(const std::string& path, const Output& output) const;

  Report read(const Cache* cache, bool brief, std::stop_token stop) const;
  int show_shape(const Cache* cache, const std::string& path, Output& output) const;

  WorkloadSpec workload_;
  std::optional<std::string> html_, csv_, t4_, ncu_;
  bool details_ = false;
  Selection selection_;
  CacheChoice cache_;
};

constexpr std::size_t kMostStalls = 3;  // that a row of text names

bool has_recording(const std::string& kernel) {
  const std::vector<ShippedRecording> all = list_shipped_recordings();
  return std::any_of(all.begin(), all.end(), [&](const ShippedRecording& one) { return one.header.kernel == kernel; });
}

void require_path(const std::optional<std::string>& path, const char* field) {
  if (path && path->empty()) throw BadField(field, "takes no empty value; name a file");
}

void ReportCommand::say_empty(const std::string& path, const Output& output) const {
  const std::string& kernel = selection_.kernel;
  if (!selection_.hardware.empty() || selection_.stale) {
    output.result() << "Nothing of what is asked for is in " << path << ".\n";
    return;
  }
  output.result() << (kernel.empty() ? "Nothing" : "Nothing of " + kernel) << " is tuned yet in " << path
                  << ".\nStart with: moetune search " << (kernel.empty() ? "decode_attention" : kernel)
                  << " --budget 200\n";
  if (kernel.empty() || has_recording(kernel)) return;
  output.result() << "That needs a GPU. Without one `moetune compile " << kernel << "` compiles it, and\n"
                  << "`moetune search decode_attention` replays a recording.\n";
}

std::size_t ReportCommand::write_t4(const Report& report, const Cache* cache) const {
  namespace fs = std::filesystem;
  const fs::path folder = *t4_;
  fs::create_directories(folder);
  std::size_t files = 0;
  for (const WorkloadReport& one : report.workloads) {
    const std::vector<TrialRecord> trials = cache->trials.of(one.stored.workload.id);
    if (trials.empty()) continue;
    const std::string text =
        t4_document(one.key(), trials).dump(1, ' ', false, Document::error_handler_t::replace) + "\n";
    replace_file(folder / t4_file_name(one.stored.workload), text);
    ++files;
  }
  return files;
}

void ReportCommand::write_files(const Report& report, const Cache* cache, Output& output, Document& document) const {
  const auto written = [&](const char* field, const std::string& path, const std::string& what) {
    output.result() << path << ": " << what << "\n";
    document[field] = path;
  };
  if (html_) {
    const std::string page = report_page(report);
    replace_file(*html_, page);
    written("html", *html_, bytes_text(static_cast<double>(page.size())) + ", to open in a browser");
  }
  if (csv_) {
    replace_file(*csv_, report_csv(report));
    written("csv", *csv_, counted_text(static_cast<std::int64_t>(report.workloads.size()), "workload"));
    if (!report.ranges.empty()) {
      std::filesystem::path cells = *csv_;
      cells.replace_filename(cells.stem().string() + "-ranges" + cells.extension().string());
      replace_file(cells, report_ranges_csv(report));
      written("csv_ranges", cells.string(), "the cells of the range tables");
    }
  }
  if (t4_) written("t4", *t4_, counted_text(static_cast<std::int64_t>(write_t4(report, cache)), "T4 file"));
}

std::string share_text(const std::optional<double>& percent) { return percent ? format("%.1f%%", *percent) : "-"; }

// Shows what Nsight Compute found, beside what the cache has.
Document show_ncu(const std::string& file, Output& output) {
  Table table({"launch", "time", "occupancy", "at most", "SM", "memory", "DRAM", "L2", "L1", "warps wait for"},
              {1, 2, 3, 4, 5, 6, 7, 8});
  Document launches = Document::array();
  for (const NcuLaunch& one : read_ncu_csv(file)) {
    std::string stalls;
    Document all = Document::object();
    for (std::size_t i = 0; i < one.stalls.size(); ++i) {
      const auto& [reason, warps] = one.stalls[i];
      all[reason] = warps;
      if (i < kMostStalls) stalls += (i == 0 ? "" : ", ") + reason + format(" %.2f", warps);
    }
    const NcuLaunch& n = one;
    table.add({n.kernel, time_text(n.time_us.value_or(0)), share_text(n.occupancy), share_text(n.most_occupancy),
               share_text(n.sm), share_text(n.memory), share_text(n.dram), share_text(n.l2), share_text(n.l1), stalls});
    launches.push_back({{"kernel", n.kernel},
                        {"time_us", number_or_null(n.time_us)},
                        {"occupancy_percent", number_or_null(n.occupancy)},
                        {"most_occupancy_percent", number_or_null(n.most_occupancy)},
                        {"sm_percent", number_or_null(n.sm)},
                        {"memory_percent", number_or_null(n.memory)},
                        {"dram_percent", number_or_null(n.dram)},
                        {"l2_percent", number_or_null(n.l2)},
                        {"l1_percent", number_or_null(n.l1)},
                        {"stalled_warps", std::move(all)}});
  }
  output.result() << "Nsight Compute, " << file << ":\n" << table.text("  ", output.columns());
  return launches;
}

// Shows the cache's choice for one shape, on each hardware that it knows.
int ReportCommand::show_shape(const Cache* cache, const std::string& path, Output& output) const {
  if (selection_.kernel.empty()) throw BadInput("which KERNEL? --problem and --preset are of one kernel's shape");
  if (writes_files()) throw BadInput("--html, --csv and --t4 are of all workloads; leave out the shape");
  const Kernel& kernel = find_kernel(selection_.kernel);
  const Problem problem = problem_of(kernel, workload_);
  Document document = {{"cache", path}, {"kernel", kernel.name()}, {"problem", problem.text()}};
  document["served"] = Document::array();
  Table table({"hardware", "serves", "time", "default", "from", "configuration"}, {2, 3});
  for (const ServedShape& one :
       cache == nullptr ? std::vector<ServedShape>() : served_shapes(*cache, kernel, problem)) {
    if (!is_selected(selection_, kernel.name(), one.hardware)) continue;
    const std::string from = one.cell.empty() ? "the default" : "its cell " + one.cell;
    table.add({hardware_title(one.hardware), one.table.empty() ? "winner " + std::to_string(one.workload) : one.table,
               time_text(one.time_us), one.speedup() > 0 ? format("%.2f×", one.speedup()) : "-",
               one.table.empty() ? one.note() : from, one.config});
    document["served"].push_back(served_document(one));
  }
  output.result() << kernel.name() << " " << problem.text() << "\n";
  if (document["served"].empty()) {
    output.result() << "Nothing in " << path << " serves it; start with: moetune search " << kernel.name()
                    << " --problem " << problem.text() << "\n";
  } else {
    table.give_way({"from"}, "  ", output.columns());
    output.result() << table.text("  ", output.columns());
  }
  if (ncu_) document["ncu"] = show_ncu(*ncu_, output);
  output.document(document);
  return kDone;
}

Report ReportCommand::read(const Cache* cache, bool brief, std::stop_token stop) const {
  ReportRequest request{.selection = selection_, .brief = brief, .stop = stop};
  // Bounded for text, whose shares of parameters need no more; a page shows trials.
  if (!writes_files()) request.most_trials = 8'000;
  request.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return read_report(cache, request);
}

int ReportCommand::run(Output& output, std::stop_token stop) {
  require_path(html_, "html");
  require_path(csv_, "csv");
  require_path(t4_, "t4");
  require_path(ncu_, "ncu");
  if (workload_.kernel && !selection_.kernel.empty() && *workload_.kernel != selection_.kernel)
    throw BadInput("KERNEL and --kernel name two kernels; give one of them");
  if (workload_.kernel) selection_.kernel = *workload_.kernel;
  if (workload_.kernel && workload_.kernel->empty()) find_kernel("");  // says which there are
  const std::unique_ptr<Cache> cache = open_named_cache(cache_);
  const std::string path = cache != nullptr ? cache->path().string() : cache_.file().string();
  if (ncu_ && !workload_.names_problem())
    throw BadInput("--ncu is of one shape; name it by KERNEL and --problem, --preset or dimensions");
  if (workload_.names_problem()) return show_shape(cache.get(), path, output);
  Report report = read(cache.get(), !writes_files() && !output.json(), stop);
  if (stop.stop_requested()) return kDone;  // the command line knows the signal's exit code
  report.cache = path;
  Document document = output.json() ? report_document(report) : Document::object();
  if (report.workloads.empty() && report.ranges.empty()) {
    say_empty(path, output);
  } else if (!writes_files()) {
    const bool all = details_ || selection_.limit > 0 || !output.has_screen();
    print_report(report, details_ ? Details::always : Details::as_fits, all ? 0 : kMostRows, output);
  }
  for (const WorkloadReport& one : report.workloads) {
    if (!one.stored.damage.empty()) output.warn(one.stored.damage);
  }
  for (const std::string& sentence : report.damaged_tables) output.note(sentence);
  write_files(report, cache.get(), output, document);
  output.document(document);
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace moetune
