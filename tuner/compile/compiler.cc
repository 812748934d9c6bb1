#include "tuner/compile/compiler.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/lists.h"
#include "base/suggest.h"
#include "tuner/compile/cubin_state.h"
#include "tuner/compile/nvrtc_search.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

// By which rules builds are accepted (cubin_state.h): those that a cache holds of other rules are made again.
constexpr const char* kAccepted = "no state";

// The number in "sm_90a"; BadInput for a text of another form.
int architecture_number(const std::string& architecture) {
  const std::size_t digits_end = architecture.find_first_not_of("0123456789", 3);
  const std::string suffix = digits_end == std::string::npos ? "" : architecture.substr(digits_end);
  const std::size_t digits = std::min(digits_end, architecture.size()) - std::min<std::size_t>(3, architecture.size());
  if (!architecture.starts_with("sm_") || digits < 2 || digits > 3 ||
      (!suffix.empty() && suffix != "a" && suffix != "f")) {
    throw BadInput("'" + architecture + "' is no GPU architecture; it would be like sm_80 or sm_90a");
  }
  return std::stoi(architecture.substr(3));
}

void require_known(const NvrtcFacts& nvrtc, const std::string& architecture) {
  const int number = architecture_number(architecture);
  const std::vector<int>& known = nvrtc.architectures;
  if (std::find(known.begin(), known.end(), number) != known.end()) return;
  const std::string names = joined(known, ", ", [](int each) { return "sm_" + std::to_string(each); });
  throw BrokenEnvironment("NVRTC " + nvrtc.version + " (" + nvrtc.path + ") does not know " + architecture + ", only " +
                          names + "; install a newer CUDA toolkit or set MOETUNE_NVRTC to one");
}

// The line that says what is wrong, without the source excerpts around it.
std::string first_error(std::string_view log, const std::string& otherwise) {
  std::string_view first;
  for (const std::string_view line : split(log, '\n')) {
    if (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos) {
      return std::string(line);
    }
    if (first.empty()) first = line;
  }
  return first.empty() ? otherwise : std::string(first);
}

// "; the source has no entry 'gemmm', only gemm, add_up" if an instance is of a template that is not there.
std::string missing_entries(const std::vector<std::string>& instances, const std::vector<SourceFile>& files) {
  std::vector<std::string> names;
  for (const SourceFile& file : files) {
    for (std::string& name : global_functions(file.text)) names.push_back(std::move(name));
  }
  std::string missing;
  for (const std::string& instance : instances) {
    const std::string whole = instance.substr(0, instance.find('<'));
    const std::size_t scope = whole.rfind(':');
    const std::string name = whole.substr(scope == std::string::npos ? 0 : scope + 1);
    if (std::find(names.begin(), names.end(), name) == names.end())
      missing += "; " + unknown_name("entry", name, names);
  }
  return missing;
}

}  // namespace

struct Compiler::Impl {
  Options options;
  std::shared_ptr<CompileProcesses> processes;
  std::string toolchain;

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const std::vector<SourceFile>>> sources;  // guarded by mutex

  std::shared_ptr<const std::vector<SourceFile>> sources_of(const std::string& path) {
    const std::lock_guard lock(mutex);
    auto& files = sources[path];
    if (files == nullptr)
      files = std::make_shared<const std::vector<SourceFile>>(collect_sources(path, options.reader));
    return files;
  }

  std::vector<std::string> nvrtc_options(const CompileUnit& unit) {
    std::vector<std::string> all = {"--gpu-architecture=" + options.architecture, "--std=c++17", "--ptxas-options=-v"};
    // A compile time that came out of a cache in ~/.nv would be no compile time; moetune's own cache is the
    // one that shows what it holds.
    if (processes->facts().has_disk_cache) all.emplace_back("--no-cache");
    for (const auto& [name, value] : unit.defines) all.push_back("--define-macro=" + name + "=" + value);
    if (includes_toolkit(*sources_of(unit.source))) {
      for (const std::string& folder : toolkit_headers(processes->facts().path))
        all.push_back("--include-path=" + folder);
    }
    return all;
  }

  std::string digest(const CompileUnit& unit) {
    DigestBuilder builder;
    builder.add(toolchain).add(kAccepted);
    for (const std::string& option : nvrtc_options(unit)) builder.add(option);
    for (const std::string& instance : unit.instances) builder.add("instance").add(instance);
    for (const SourceFile& file : *sources_of(unit.source)) builder.add(file.path).add(file.text);
    return builder.finish();
  }
};

Compiler::Compiler(Options options) : impl_(std::make_unique<Impl>()) {
  architecture_number(options.architecture);  // BadInput before anything is started
  impl_->options = std::move(options);
  impl_->processes =
      impl_->options.processes != nullptr ? impl_->options.processes : CompileProcesses::shared(impl_->options.load);
  require_known(impl_->processes->facts(), impl_->options.architecture);
  impl_->toolchain = "nvrtc " + impl_->processes->facts().version;
}

Compiler::~Compiler() = default;

const std::string& Compiler::architecture() const { return impl_->options.architecture; }
const std::string& Compiler::toolchain() const { return impl_->toolchain; }
unsigned Compiler::processes() const { return impl_->processes->most(); }
std::string Compiler::digest(const CompileUnit& unit) const { return impl_->digest(unit); }

Build Compiler::compile(const CompileUnit& unit, const std::stop_token& stop) const {
  const Clock::time_point begin = Clock::now();
  NvrtcResult result = impl_->processes->compile(
      {*impl_->sources_of(unit.source), impl_->nvrtc_options(unit), impl_->options.time_limit, unit.instances}, stop);

  using Status = NvrtcResult::Status;
  Build build;
  build.digest = impl_->digest(unit);
  build.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  build.log = std::move(result.log);
  build.repeatable =
      result.status == Status::ok || result.status == Status::rejected || result.status == Status::bad_option;
  if (result.status == Status::ok) {
    const bool has_toolkit = includes_toolkit(*impl_->sources_of(unit.source));
    build.message = why_stateful(result.cubin, has_toolkit ? kToolkitConstantBytes : kAllConstantBytes);
    if (!build.message.empty()) return build;
    build.outcome = Outcome::ok;
    build.cubin = std::move(result.cubin);
    build.entries = parse_ptxas_log(build.log);
  } else {
    const bool ended = result.status == Status::timed_out || result.status == Status::died;
    build.message = ended ? result.error : first_error(build.log, result.error);
    if (!ended) build.message += missing_entries(unit.instances, *impl_->sources_of(unit.source));
  }
  return build;
}

}  // namespace moetune
