#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/version.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "jobs/session/record_rules.h"
#include "jobs/stored/served_families.h"
#include "tuner/compile/compile_processes.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// A file that takes longer to check is checked by `cache check`.
constexpr std::int64_t kMostCheckedBytes = std::int64_t{1} << 30;

// The state of one thing on the machine. `trouble` names what keeps moetune from working; "" if nothing does.
struct Finding {
  std::string name, text, trouble;
  Document document;
};

class DoctorCommand : public Command {
 public:
  std::string_view name() const override { return "doctor"; }
  std::string_view summary() const override {
    return "say what moetune found on this machine: compiler, driver, cache, packs, variables";
  }
  std::string_view details() const override {
    return "Attach it to a report of a problem. Exit code 3 if something that is there does not work: a damaged cache "
           "or pack, a driver that fails, a configuration that cannot be read. A machine without a GPU or a compiler "
           "is no error.\n";
  }
  bool reads_settings() const override { return false; }
  void declare(OptionTable& table) override { declare_cache_path(table, cache_); }
  int run(Output& output, std::stop_token) override;

 private:
  Finding settings();
  Finding cache() const;

  CacheChoice cache_;
};

Finding build_finding() {
  const std::string commit(moetune::commit());
  return {"moetune",
          std::string(version()) + (commit.empty() ? "" : ", commit " + commit),
          "",
          {{"version", version()}, {"commit", text_or_null(commit)}}};
}

Finding compiler_finding() {
  try {
    const NvrtcFacts facts = CompileProcesses::shared()->facts();
    return {"NVRTC", facts.version + " from " + facts.path, "", {{"version", facts.version}, {"path", facts.path}}};
  } catch (const BrokenEnvironment& error) {
    return {"NVRTC", std::string("none: ") + error.what(), "", {{"why_none", error.what()}}};
  }
}

std::vector<Finding> driver_findings() {
  const CudaDeviceList list = list_cuda_devices();
  if (list.devices.empty()) {
    return {{"driver", list.why_empty, list.broken ? list.why_empty : "", {{"why_none", list.why_empty}}},
            {"NVML", "not asked, for want of a GPU", "", nullptr}};
  }
  Document gpus = Document::array();
  std::string names;
  bool nvml = false;
  for (const DeviceInfo& gpu : list.devices) {
    names += (names.empty() ? "" : ", ") + gpu.id + " " + gpu.key.name;
    gpus.push_back({{"id", gpu.id}, {"name", gpu.key.name}, {"uuid", gpu.uuid}});
    nvml = nvml || gpu.load || gpu.settings;
  }
  const std::string& driver = list.devices.front().key.driver;
  return {
      {"driver", driver + "; " + names, "", {{"version", driver}, {"gpus", gpus}}},
      {"NVML", nvml ? "answers" : "does not answer: clocks and other processes are unknown", "", {{"answers", nvml}}}};
}

// Adds the faults that check_cache() finds in an open file.
void examine(Cache& cache, Finding& finding) {
  const CacheSummary summary = summary_of(cache);
  finding.text += ", " + bytes_text(static_cast<double>(summary.file_bytes)) + ", " +
                  counted_text(summary.winners, "winner") + ", " + counted_text(summary.trials, "trial");
  finding.document.update({{"bytes", summary.file_bytes}, {"winners", summary.winners}, {"trials", summary.trials}});
  if (summary.file_bytes > kMostCheckedBytes) {
    finding.text += ", not checked for its size: moetune cache check";
    finding.document["sound"] = nullptr;
    return;
  }
  const std::vector<CacheProblem> problems = check_cache(cache, record_rules());
  finding.document["sound"] = problems.empty();
  if (problems.empty()) {
    finding.text += ", sound";
  } else {
    finding.trouble = counted_text(static_cast<std::int64_t>(problems.size()), "damaged record") +
                      ", the first: " + problems.front().where + ": " + problems.front().what;
  }
}

Finding file_finding(const std::string& name, const fs::path& file) {
  Finding finding{name, file.string(), "", {{"path", file.string()}}};
  try {
    Cache cache = Cache::open(file, Cache::Mode::inspect);
    examine(cache, finding);
    if (!cache.warning().empty()) finding.text += "; " + cache.warning();
  } catch (const std::runtime_error& error) {  // bad input, or a file that cannot be read
    finding.trouble = error.what();
    finding.document["sound"] = false;
  }
  return finding;
}

Finding DoctorCommand::cache() const {
  try {
    const fs::path file = cache_.file();
    std::error_code error;
    if (fs::exists(file, error) || error || !cache_.path.empty()) return file_finding("cache", file);
    return {"cache", file.string() + ", not there yet", "", {{"path", file.string()}, {"exists", false}}};
  } catch (const BrokenEnvironment& error) {  // no variable says where
    return {"cache", error.what(), "", {{"path", nullptr}}};
  }
}

Finding DoctorCommand::settings() {
  const std::optional<fs::path> path = settings_path();
  Finding finding{"settings",
                  path ? path->string() : "none: neither XDG_CONFIG_HOME nor HOME is set",
                  "",
                  {{"path", path ? Document(path->string()) : Document(nullptr)}}};
  try {
    Document values = Document::object();
    for (const Setting& setting : read_settings()) {
      finding.text += (values.empty() ? ": " : ", ") + setting.name + " = " + setting.value;
      values[setting.name] = setting.value;
      if (setting.name == "cache") cache_.usual = setting.value;
    }
    if (values.empty() && path) finding.text += ", not there or empty";
    finding.document["values"] = values;
  } catch (const BadInput& error) {
    finding.trouble = error.what();
  }
  return finding;
}

Finding variables_finding() {
  Finding finding{"variables", "", "", Document::object()};
  for (const auto& [names, doc] : environment_variables()) {
    std::istringstream list{std::string(names)};
    for (std::string name; std::getline(list >> std::ws, name, ',');) {
      const char* const value = environment_variable(name.c_str());
      if (value == nullptr) continue;
      finding.text += (finding.text.empty() ? "" : ", ") + name + "=" + value;
      finding.document[name] = value;
    }
  }
  if (finding.text.empty()) finding.text = "none";
  return finding;
}

int DoctorCommand::run(Output& output, std::stop_token) {
  std::vector<Finding> findings = {build_finding(), compiler_finding()};
  for (Finding& finding : driver_findings()) findings.push_back(std::move(finding));
  findings.push_back(settings());
  findings.push_back(cache());
  for (const fs::path& pack : installed_packs()) findings.push_back(file_finding("pack", pack));
  findings.push_back(variables_finding());
  Table table({});
  Document document = {{"packs", Document::array()}};
  Document troubles = Document::array();
  for (const Finding& finding : findings) {
    table.add({finding.name, finding.text});
    if (!finding.trouble.empty()) {
      table.add({"", "does not work: " + finding.trouble}, Paint::bad);
      troubles.push_back(finding.name + ": " + finding.trouble);
    }
    if (finding.name == "pack") {
      document["packs"].push_back(finding.document);
    } else {
      document[finding.name] = finding.document;
    }
  }
  document["troubles"] = troubles;
  output.painted() << table.text("", output.columns(), output.colours());
  output.document(document);
  return troubles.empty() ? kDone : kBrokenEnvironment;
}

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace moetune
