#include "kernels/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

// One function a kernel, defined in kernels/NAME.cc; one line here and one in the list make it known. A kernel that
// templates/NAME/kernel.json describes has its line in the list alone.
const Kernel& decode_attention();
const Kernel& moe_combine();
const Kernel& moe_dispatch();
const Kernel& moe_experts();
const Kernel& prefill_attention();
const Kernel& route_plan();
const Kernel& router();

static const Kernel& described(const char* name) {
  static std::vector<std::unique_ptr<const Kernel>> kept;  // under the lock of built_in_kernels' own variable
  return *kept.emplace_back(built_in_description(name));
}

static const std::vector<const Kernel*>& built_in_kernels() {
  static const std::vector<const Kernel*> kernels = {&described("act_mul"),
                                                     &described("add_rmsnorm"),
                                                     &decode_attention(),
                                                     &described("decode_kernel"),
                                                     &described("few_rows_linear"),
                                                     &described("gate_route"),
                                                     &described("kv_transfer"),
                                                     &described("mla_decode"),
                                                     &moe_combine(),
                                                     &moe_dispatch(),
                                                     &moe_experts(),
                                                     &prefill_attention(),
                                                     &described("qk_norm_rope"),
                                                     &route_plan(),
                                                     &router(),
                                                     &described("tensor_ceiling")};
  return kernels;
}

namespace {

struct KnownKernels {
  DescribedKernels described;
  std::vector<const Kernel*> all;
};

// Those that the variable names now. A Python process that tunes names more of them later; what was known before
// stays, because families refer to it.
const KnownKernels& known_kernels() {
  static std::mutex mutex;
  static std::map<std::string, KnownKernels> by_folders;
  const char* const folders = environment_variable("MOETUNE_KERNELS");
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = by_folders.try_emplace(folders != nullptr ? folders : "");
  KnownKernels& known = found->second;
  if (!is_new) return known;
  known.all = built_in_kernels();
  std::vector<std::string> taken;
  for (const Kernel* kernel : known.all) taken.push_back(kernel->name());
  known.described = load_described_kernels(folders, taken);
  for (const auto& kernel : known.described.kernels) known.all.push_back(kernel.get());
  return known;
}

struct PackedKernels {
  std::shared_mutex mutex;
  std::map<std::string, std::unique_ptr<const Kernel>, std::less<>> kernels;  // by name
};

PackedKernels& packed() {
  static auto* const all = new PackedKernels;  // families of runtimes refer to them until the process ends
  return *all;
}

const Kernel* packed_kernel(std::string_view name) {
  const std::shared_lock lock(packed().mutex);
  const auto found = packed().kernels.find(name);
  return found == packed().kernels.end() ? nullptr : found->second.get();
}

}  // namespace

std::string add_packed_kernel(const std::string& name, const std::string& text, const std::string& pack) {
  const std::string what = "the kernel.json of " + name + " in " + pack;
  try {
    const std::unique_lock lock(packed().mutex);
    const auto found = packed().kernels.find(name);
    const bool is_known = found != packed().kernels.end() ||
                          std::ranges::count(all_kernels(), name, [](const Kernel* one) { return one->name(); }) > 0;
    if (!is_known) {
      packed().kernels.emplace(name, packed_description(name, text, what));
      return "";
    }
    const std::string known = own_description(name);
    if (known.empty()) return "it is a built-in kernel, which no pack describes";
    if (known == text || description_core(known) == description_core(text)) return "";
    return "its kernel.json is another one than " + name + " has in this process: tune it anew, or start anew";
  } catch (const BadInput& error) {
    return error.what();
  }
}

const std::vector<const Kernel*>& all_kernels() { return known_kernels().all; }

const std::vector<BrokenKernel>& broken_kernels() { return known_kernels().described.broken; }

const Kernel* known_kernel(std::string_view name) {
  for (const Kernel* kernel : all_kernels()) {
    if (kernel->name() == name) return kernel;
  }
  return packed_kernel(name);
}

const Kernel& find_kernel(std::string_view name) {
  for (const BrokenKernel& broken : broken_kernels())
    if (broken.name == name) throw BadInput(broken.reason);
  if (const Kernel* kernel = known_kernel(name)) return *kernel;
  std::vector<std::string> names;
  for (const Kernel* kernel : all_kernels()) names.push_back(kernel->name());
  throw BadInput(unknown_name("kernel", name, names));
}

namespace {

// "name=value" of each dimension in which the problem differs from the base, with commas. Ends early once it is longer
// than `most`.
std::string difference(const Assignment& problem, const Assignment& base, std::size_t most = std::string::npos) {
  std::string text;
  std::size_t place = 0;  // the dimensions of both are in one order
  for (const auto& [name, value] : problem) {
    const auto beside = base.begin() + static_cast<std::ptrdiff_t>(std::min(place++, base.size() - 1));
    const Value* const other = beside->first == name ? &beside->second : base.find(name);
    if (other != nullptr && *other == value) continue;
    if (!text.empty()) text += ',';
    text.append(name).append(1, '=').append(value.text());
    if (text.size() > most) break;
  }
  return text;
}

struct NamedProblem {
  std::string name;
  Assignment dims;
};

// A kernel's default problem first, and its presets; read once in a process, as kernels never change.
const std::vector<NamedProblem>& named_problems(const Kernel& kernel) {
  static std::mutex mutex;
  static std::map<const Kernel*, std::vector<NamedProblem>> all;
  const std::lock_guard lock(mutex);
  std::vector<NamedProblem>& named = all[&kernel];
  if (!named.empty()) return named;
  const auto read = [&](const Preset* preset) { return kernel.parse("", preset).dims; };
  std::vector<NamedProblem> problems = {{"default", read(nullptr)}};
  for (const Preset& preset : kernel.presets()) problems.push_back({preset.name, read(&preset)});
  return named = std::move(problems);
}

}  // namespace

std::string brief_problem(const std::string& name, const std::string& text) {
  const Kernel* const kernel = known_kernel(name);
  if (kernel == nullptr) return text;
  try {
    const Assignment problem = kernel->parse(text).dims;
    const std::vector<NamedProblem>& named = named_problems(*kernel);
    std::string brief = difference(problem, named.front().dims);
    if (brief.empty()) return named.front().name;
    for (std::size_t i = 1; i < named.size(); ++i) {
      const std::string rest = difference(problem, named[i].dims, brief.size());
      const std::string preset = named[i].name + (rest.empty() ? "" : " " + rest);
      if (preset.size() < brief.size()) brief = preset;
    }
    return brief;
  } catch (const BadInput&) {  // stored by another version
    return text;
  }
}

}  // namespace moetune
