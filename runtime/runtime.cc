#include "runtime/runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/digest.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/lists.h"
#include "base/replace_file.h"
#include "base/suggest.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

std::atomic<std::uint64_t> next_id{1};

// The driver is opened once a process, by the first runtime. Not by call_once: an exception that passes through
// libc's pthread_once ends a process with a static libgcc.
void initialize_driver() {
  static const bool initialized = (cuda::initialize(), true);
  static_cast<void>(initialized);
}

int chosen_device(int wanted) {
  const int count = cuda::device_count();
  if (wanted == -1) return cuda::current_device().value_or(0);
  if (wanted >= 0 && wanted < count) return wanted;
  throw RuntimeError(MOETUNE_WRONG_DEVICE, "there is no device " + std::to_string(wanted) + "; the driver has " +
                                               std::to_string(count) + ", from 0 on (-1: the current one)");
}

// Asked of the driver once a process: some answers take it a millisecond.
DeviceInfo device_info(int ordinal) {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(ordinal);
  return found != known.end() ? found->second : known.emplace(ordinal, cuda::describe_device(ordinal)).first->second;
}

// The folder that this code was loaded from: the library's, or that of the program it is linked into.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&initialize_driver), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failure;
  return fs::canonical(info.dli_fname, failure).parent_path();
}

// Throws BadInput for a name that no family of the kernel has compiled in. Dimensions that say how test inputs are made
// change nothing.
void require_compiled_in(const Kernel& kernel, const Assignment& specialization) {
  std::vector<std::string> names;
  const Problem usual = kernel.parse("");
  for (const auto& [name, value] : kernel.specialization(usual)) names.push_back(name);
  for (const auto& [name, value] : specialization) {
    if (std::ranges::find(kernel.free_dimensions(), name) != kernel.free_dimensions().end())
      throw BadInput("the specialization: '" + name + "' is a free dimension of " + kernel.name() +
                     ", which each pick states; leave it out");
    if (std::ranges::find(names, name) == names.end() &&
        std::ranges::find(kernel.schema(), name, &Dimension::name) == kernel.schema().end())
      throw BadInput("the specialization: " + unknown_name("dimension of " + kernel.name(), name, names));
  }
}

// Any problem of the family that `text` names: it has the least extents.
Problem smallest_problem(const Kernel& kernel, const std::string& text) {
  Assignment specialization;
  if (!text.empty()) {
    for (const auto& [name, value] : split_assignment(text, "the specialization")) {
      const bool number = !value.empty() &&
                          std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
      if (number && value.size() > 18) throw BadInput("the specialization: " + name + "=" + value + " is too large");
      specialization.set(name, number ? Value::integer(std::stoll(value)) : Value::named(value, 0));
    }
  }
  Extents least;
  for (const std::string& name : kernel.free_dimensions()) {
    const auto dimension = std::ranges::find(kernel.schema(), name, &Dimension::name);
    least.push_back(dimension->minimum);
  }
  try {
    return kernel.problem_of(specialization, least);
  } catch (const BadInput&) {
    require_compiled_in(kernel, specialization);  // what is wrong may be a name that was never to be there
    throw;
  }
}

void add_new(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  std::unordered_set<std::string> known(warnings.begin(), warnings.end());
  for (const std::string& one : more) {
    if (known.insert(one).second) warnings.push_back(one);
  }
}

}  // namespace

TrustedKeys trusted_keys(std::vector<std::string> keys) {
  if (const char* const given = environment_variable("MOETUNE_TRUSTED_KEYS")) {
    const std::size_t before = keys.size();
    for (const std::string_view key : split(given, ':'))
      if (key.find_first_not_of(" \t") != key.npos) keys.emplace_back(key);
    if (keys.size() == before)
      throw BadInput("MOETUNE_TRUSTED_KEYS='" + std::string(given) +
                     "' names no key; it is FILE.pub:FILE.pub, or not set if every pack is trusted");
  }
  return TrustedKeys(keys);
}

const Kernel& named_kernel(const std::string& name) {
  try {
    return find_kernel(name);
  } catch (const BadInput& unknown) {
    throw RuntimeError(MOETUNE_UNKNOWN_NAME, unknown.what());
  }
}

std::vector<fs::path> default_paths() {
  std::vector<fs::path> paths;
  std::vector<fs::path> candidates;
  if (const std::optional<fs::path> cache = Cache::find_default_path()) candidates.push_back(*cache);
  if (const fs::path folder = own_folder(); !folder.empty()) {
    candidates.push_back(folder / "packs");
    candidates.push_back(folder.parent_path() / "share" / "moetune" / "packs");
  }
  for (const fs::path& path : candidates) {
    if (std::error_code absent; fs::exists(path, absent)) paths.push_back(path);
  }
  return paths;
}

Runtime::Runtime(const OpenOptions& options)
    : id_(next_id.fetch_add(1)),
      options_(options),
      trusted_(trusted_keys(options.trusted_keys)),
      experiment_(Experiment::from_environment()) {
  add_new(warnings_, open_layers().warnings());
  initialize_driver();
  const int ordinal = chosen_device(options.device);
  device_ = device_info(ordinal);
  context_ = std::make_unique<cuda::Context>(ordinal, cuda::Context::Current::no);
  use(remember({}));
}

// The driver unloads a module in the current context.
Runtime::~Runtime() {
  std::optional<cuda::CurrentContext> current;
  try {
    current.emplace(*context_);
  } catch (const cuda::CudaError&) {  // the driver is as good as gone, with all that was loaded
  }
  families_.clear();
}

Layers Runtime::open_layers() const {
  return Layers(options_.paths.empty() ? default_paths() : options_.paths, trusted_);
}

Family& Runtime::family(const std::string& kernel_name, const std::string& specialization) {
  const std::lock_guard lock(mutex_);
  const Kernel& kernel = named_kernel(kernel_name);
  Problem problem = smallest_problem(kernel, specialization);
  const std::string canonical = kernel.specialization(problem).text();
  for (Family& family : families_) {
    if (&family.kernel() == &kernel && family.specialization() == canonical) return family;
  }
  Layers layers = open_layers();
  std::vector<std::string> refused;
  const cuda::CurrentContext current(*context_);
  usages_.emplace_back();
  families_.emplace_back(kernel, std::move(problem),
                         FamilyContext{device_, usages_.back(), experiment_, options_.allow_recorded});
  const auto warn = [&] {
    add_new(warnings_, layers.warnings());
    add_new(warnings_, refused);
  };
  try {
    std::vector<const DispatchTable*> tables = gathered(families_, &Family::table);
    tables.back() = families_.back().prepare(layers, refused);
    use(remember(std::move(tables)));
    warn();
  } catch (...) {
    families_.pop_back();
    usages_.pop_back();
    warn();
    throw;
  }
  return families_.back();
}

std::size_t Runtime::remember(std::vector<const DispatchTable*> tables) {
  std::vector<std::string> texts;  // sorted: ranks may open their families in other orders
  for (std::size_t i = 0; i < tables.size(); ++i) texts.push_back(families_[i].table_text(*tables[i]));
  std::sort(texts.begin(), texts.end());
  DigestBuilder builder;
  for (const std::string& text : texts) builder.add(text);
  Generation made{builder.add(device_.key.text()).finish(), std::move(tables)};
  const auto known = std::ranges::find(generations_, made.name, &Generation::name);
  const auto index = static_cast<std::size_t>(known - generations_.begin());
  if (known == generations_.end())
    generations_.push_back(std::move(made));
  else
    known->tables = std::move(made.tables);  // which pick the same, and know where it comes from today
  return index;
}

void Runtime::use(std::size_t generation) {
  present_ = generation;
  const Generation& present = generations_[present_];
  for (std::size_t i = 0; i < families_.size(); ++i) families_[i].use(present.tables[i]);
}

void Runtime::return_to(const std::string& name) {
  const auto found = std::ranges::find(generations_, name, &Generation::name);
  if (found == generations_.end())
    throw RuntimeError(MOETUNE_UNKNOWN_NAME, "this runtime has held no generation '" + name + "'");
  if (found->tables.size() < families_.size()) {
    const Family& later = families_[found->tables.size()];
    throw RuntimeError(MOETUNE_UNKNOWN_NAME, "generation '" + name + "' is from before the family " +
                                                 later.kernel().name() + " " + later.specialization() +
                                                 " was opened; name one since then");
  }
  for (std::size_t i = 0; i < families_.size(); ++i) families_[i].require_promised(*found->tables[i]);
  use(static_cast<std::size_t>(found - generations_.begin()));
}

void Runtime::refresh(const std::string& generation) {
  const std::lock_guard lock(mutex_);
  if (!generation.empty()) return return_to(generation);
  use(read_files());
}

std::string Runtime::prepare() {
  const std::lock_guard lock(mutex_);
  return generations_[read_files()].name;
}

std::size_t Runtime::read_files() {
  Layers layers = open_layers();
  std::vector<std::string> refused;
  std::vector<const DispatchTable*> tables;
  const cuda::CurrentContext current(*context_);
  // Whatever is thrown from here leaves every family as it is.
  for (Family& family : families_) {
    try {
      tables.push_back(family.prepare(layers, refused));
    } catch (const RuntimeError& error) {
      if (error.status != MOETUNE_NOT_TUNED && error.status != MOETUNE_UNKNOWN_NAME) throw;
      refused.push_back(error.what());
      tables.push_back(family.table());  // the files no longer hold it, and what was loaded still serves
    }
  }
  std::vector<std::string> warnings;
  add_new(warnings, layers.warnings());
  add_new(warnings, refused);
  const std::size_t generation = remember(std::move(tables));
  warnings_ = std::move(warnings);
  return generation;
}

std::string Runtime::generation() const {
  const std::lock_guard lock(mutex_);
  return generations_[present_].name;
}

std::int64_t Runtime::promise_workspace(Family& family, const Extents& extents) {
  const std::lock_guard lock(mutex_);
  return family.promise_workspace(extents);
}

void Runtime::offer_workspace(Family& family, const Extents& extents, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  family.offer_workspace(extents, bytes);
}

std::int64_t Runtime::wanted_workspace(const Family& family, const Extents& extents) const {
  const std::lock_guard lock(mutex_);
  return family.wanted_workspace(extents);
}

std::string Runtime::warnings() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& warning : warnings_) text += warning + "\n";
  return text;
}

UsageCounts Runtime::counts() const {
  const std::lock_guard lock(mutex_);
  UsageCounts sum;
  for (const Usage& usage : usages_) {
    const UsageCounts one = usage.counts();
    sum.exact += one.exact;
    sum.nearest += one.nearest;
    sum.by_default += one.by_default;
    sum.pinned += one.pinned;
    sum.misses += one.misses;
    sum.launches += one.launches;
  }
  return sum;
}

void Runtime::write_misses(const fs::path& path) const {
  nlohmann::ordered_json misses = nlohmann::ordered_json::array();
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < families_.size(); ++i) {
      for (const MissedShape& shape : usages_[i].missed()) {
        std::optional<std::string> problem = families_[i].problem_at(shape.extents, shape.ragged);
        if (!problem) problem = families_[i].problem_at(a_step_less(shape.extents), shape.ragged);
        if (!problem) continue;  // larger than any problem: no search could tune it
        misses.push_back(
            {{"kernel", families_[i].kernel().name()}, {"problem", *std::move(problem)}, {"count", shape.count}});
      }
    }
  }
  std::stable_sort(misses.begin(), misses.end(), [](const auto& a, const auto& b) { return a["count"] > b["count"]; });
  const nlohmann::ordered_json document = {
      {"moetune_misses", 1}, {"hardware", device_.key.name}, {"misses", std::move(misses)}};
  replace_file(path, document.dump(1) + "\n");
}

void Runtime::enter() const {
  if (context_->is_current()) return;
  if (cuda::current_device())
    throw RuntimeError(MOETUNE_WRONG_DEVICE, "the thread's current context is not that of " + device_.id);
  context_->make_current();
}

void Runtime::require_own(cuda::StreamRef stream) const {
  if (!context_->owns(stream))
    throw RuntimeError(MOETUNE_WRONG_DEVICE, "the stream is of another context than " + device_.id + "'s");
}

// A thread asks whose a stream is when it launches on another one than before, not at every launch: that is one more
// call of the driver. A stream of another context at an address seen before is refused by the driver itself, which
// runs a kernel in its own context alone; then the status and the sentence are looked up.
void Runtime::launch(Family& family, const Choice& choice, const Call& call, LaunchTensors tensors, void* workspace,
                     std::size_t workspace_bytes, cuda::StreamRef stream) const {
  struct Known {
    const void* stream = nullptr;
    std::uint64_t runtime = 0;
  };
  thread_local Known of_thread;
  Known& known = of_thread;  // its address is looked up once
  enter();
  if (known.stream != stream.raw || known.runtime != id_) {
    require_own(stream);
    known = {stream.raw, id_};
  }
  try {
    family.launch(choice, call, tensors, workspace, workspace_bytes, stream);
  } catch (const cuda::CudaError&) {
    known.runtime = 0;
    require_own(stream);
    throw;
  }
}

void Runtime::zero_counters(void* workspace, std::size_t bytes, cuda::StreamRef stream) const {
  const auto address = reinterpret_cast<cuda::Address>(workspace);
  if (address == 0 || address % kWorkspaceAlignment != 0)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the workspace is null or not aligned to 256 bytes");
  if (bytes < static_cast<std::size_t>(kWorkspaceCounters))
    throw RuntimeError(MOETUNE_OUT_OF_MEMORY, "the workspace has " + std::to_string(bytes) +
                                                  " bytes; its counters take " + std::to_string(kWorkspaceCounters));
  enter();
  require_own(stream);
  cuda::set_bytes(address, 0, kWorkspaceCounters, stream);
}

}  // namespace moetune
