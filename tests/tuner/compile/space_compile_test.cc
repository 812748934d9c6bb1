// A seeded sample of every kernel's space, compiled with NVRTC for every generation: what a space calls legal must
// compile, and must fit the device its constraints were asked about. The problems are a drawn one for each generation
// and, shared out over the generations, those that the GPU tests run; defaults and other configurations take turns.
// And pairs of configurations that must not compile to the same instructions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/problems.h"
#include "tests/sanitized.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/compile/launchable.h"

namespace moetune::space_compile_test {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a", "sm_103a"};
constexpr int kDraws = 64;  // of which the configuration with the most values that none had yet is compiled

struct Submitted {
  std::string what;
  Plan plan;
  std::shared_future<BuildPtr> build;
};

Space space_of(const Kernel& kernel) {
  const std::string file = "spaces/" + kernel.name() + ".json";
  return Space::parse(read_resource(file), file);
}

// A preset or none, with every named dimension and every integer of a small range drawn anew.
Problem draw_problem(const Kernel& kernel, std::mt19937& random) {
  const std::vector<Preset>& presets = kernel.presets();
  while (true) {
    const std::size_t choice = random() % (presets.size() + 1);
    Problem problem = kernel.parse("", choice == 0 ? nullptr : &presets[choice - 1]);
    for (const Dimension& dimension : kernel.schema()) {
      if (dimension.names.empty()) {
        const std::int64_t values = dimension.maximum - dimension.minimum + 1;
        if (values <= 8) {
          const auto drawn = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(values));
          problem.dims.set(dimension.name, Value::integer(dimension.minimum + drawn));
        }
        continue;
      }
      const std::size_t position = random() % dimension.names.size();
      problem.dims.set(dimension.name, Value::named(dimension.names[position], static_cast<std::int64_t>(position)));
    }
    try {
      kernel.check(problem);
      return problem;
    } catch (const BadInput&) {
      continue;  // the draw broke a rule across dimensions
    }
  }
}

// A drawn one, and every other problem falls to one architecture.
std::vector<Problem> problems_for(const Kernel& kernel, std::size_t architecture, std::mt19937& random) {
  std::vector<Problem> problems = {draw_problem(kernel, random)};
  const std::vector<Problem> tested = small_problems(kernel);
  for (std::size_t i = architecture; i < tested.size(); i += std::size(kArchitectures)) problems.push_back(tested[i]);
  return problems;
}

using Settings = std::set<std::string>;  // named values, as `body=mma`

std::size_t count_new(const Config& config, const Settings& had) {
  return static_cast<std::size_t>(std::count_if(config.begin(), config.end(), [&](const auto& entry) {
    return entry.second.is_named() && !had.contains(entry.first + "=" + entry.second.text());
  }));
}

// `had_here` is of one architecture, `had` of all of them so far.
Config draw_config(const LegalSpace& legal, const Settings& had_here, const Settings& had, std::mt19937& random) {
  Config best;
  std::size_t most = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    Config config = legal.config(static_cast<ConfigId>(random() % legal.size()));
    const std::size_t fresh = 10 * count_new(config, had) + count_new(config, had_here);
    if (best.empty() || fresh > most) best = std::move(config), most = fresh;
  }
  return best;
}

// The drawn problem has a configuration, the others the default and a configuration by turns; so have the exact
// reference and the baseline theirs. Adds the named values of the configurations to `had`.
void submit_kernel(const Kernel& kernel, std::size_t architecture, const DeviceLimits& limits, CompilePool& pool,
                   Settings& had, std::vector<Submitted>& submitted) {
  std::mt19937 random(static_cast<unsigned>(2026 + architecture));
  const Space space = space_of(kernel);
  Settings had_here;
  const std::vector<Problem> problems = problems_for(kernel, architecture, random);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    const auto submit = [&](const std::string& what, Plan plan) {
      auto build = pool.submit(plan.unit);
      submitted.push_back({kernel.name() + " " + problem.text() + " " + what, std::move(plan), std::move(build)});
    };
    const bool even = i % 2 == 0;
    // Plain CUDA, but for types that an architecture converts itself or not.
    if (limits.compute_capability == 80 || limits.compute_capability == 90) {
      const bool exact = even == (limits.compute_capability == 80);
      submit(exact ? "exact reference" : "baseline reference",
             kernel.reference(exact ? Reference::exact : Reference::baseline, problem, limits));
    }
    const Assignment environment = expression_environment(problem, limits);
    const LegalSpace legal = space.enumerate(environment);
    REQUIRE_MESSAGE(!legal.empty(), kernel.name() << " " << problem.text());
    std::optional<Config> config = even ? std::nullopt : space.default_config(environment);
    if (!config) config = draw_config(legal, had_here, had, random);
    for (const auto& [name, value] : *config) {
      if (!value.is_named()) continue;
      had.insert(name + "=" + value.text());
      had_here.insert(name + "=" + value.text());
    }
    submit(config->text(), kernel.plan(*config, problem, limits));
  }
}

template <typename T>
T read_at(const std::vector<std::uint8_t>& bytes, std::size_t offset) {
  T value;
  REQUIRE(offset + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The instructions in a cubin (ELF, 64 bits) by the names of its sections `.text.NAME`. What else it has, such as the
// names of constants, may differ where the instructions do not.
std::map<std::string, std::vector<std::uint8_t>> instructions_of(const std::vector<std::uint8_t>& cubin) {
  const auto table = read_at<std::uint64_t>(cubin, 40);
  const std::size_t size = read_at<std::uint16_t>(cubin, 58), count = read_at<std::uint16_t>(cubin, 60);
  const auto header = [&](std::size_t section) { return table + section * size; };
  const auto names = read_at<std::uint64_t>(cubin, header(read_at<std::uint16_t>(cubin, 62)) + 24);
  std::map<std::string, std::vector<std::uint8_t>> code;
  for (std::size_t section = 0; section < count; ++section) {
    const std::string name =
        reinterpret_cast<const char*>(cubin.data()) + names + read_at<std::uint32_t>(cubin, header(section));
    if (name.rfind(".text.", 0) != 0) continue;
    const auto begin = cubin.begin() + static_cast<std::ptrdiff_t>(read_at<std::uint64_t>(cubin, header(section) + 24));
    code[name].assign(begin, begin + static_cast<std::ptrdiff_t>(read_at<std::uint64_t>(cubin, header(section) + 32)));
  }
  REQUIRE(!code.empty());
  return code;
}

// How many copies to shared memory have the form of LDGSTS that is an illegal instruction when it runs: see
// in_vector_register (templates/common/cp_async.cuh). An instruction has 16 bytes, and the lowest 12 bits say which.
int count_broken_copies(const std::vector<std::uint8_t>& cubin) {
  int broken = 0;
  for (const auto& [name, code] : instructions_of(cubin)) {
    for (std::size_t at = 0; at + 16 <= code.size(); at += 16)
      broken += code[at] == 0xAE && (code[at + 1] & 0xF) == 0xD;
  }
  return broken;
}

// Registers are the compiler's to decide; all else a space's constraints can foresee.
bool foreseeable(const std::string& reason) { return !reason.empty() && reason.find("registers") == std::string::npos; }

}  // namespace

TEST_CASE("a sample of every space compiles for every generation and fits the device") {
  std::map<std::string, Settings> had;
  for (std::size_t generation = 0; generation < std::size(kArchitectures); ++generation) {
    const std::string architecture = kArchitectures[generation];
    if (kSanitized && architecture != "sm_90a") continue;
    const DeviceLimits limits = limits_of_architecture(architecture);
    Compiler::Options options;
    options.architecture = architecture;
    const Compiler compiler(options);
    CompilePool pool(compiler, std::thread::hardware_concurrency());
    std::vector<Submitted> submitted;
    for (const Kernel* kernel : all_kernels())
      submit_kernel(*kernel, generation, limits, pool, had[kernel->name()], submitted);
    for (const Submitted& each : submitted) {
      CAPTURE(architecture);
      CAPTURE(each.what);
      const BuildPtr build = each.build.get();
      CHECK_MESSAGE(build->outcome == Outcome::ok, build->message << "\n" << build->log);
      if (build->outcome != Outcome::ok) continue;
      const std::string reason = why_unlaunchable(each.plan, *build, limits);
      CHECK_MESSAGE(!foreseeable(reason), reason);
      CHECK(count_broken_copies(build->cubin) == 0);
    }
    const CompilePool::Stats stats = pool.stats();
    MESSAGE(architecture << ": " << stats.compiled << " compiled, " << stats.compile_seconds << " s of compiling");
  }
  if (kSanitized) return;
  for (const Kernel* kernel : all_kernels()) {
    const Space space = space_of(*kernel);
    for (const Parameter& parameter : space.parameters()) {
      if (!parameter.is_named() || parameter.at_launch) continue;
      for (const Value& value : parameter.values) {
        const std::string setting = parameter.name + "=" + value.text();
        CHECK_MESSAGE(had[kernel->name()].contains(setting), kernel->name() << " " << setting);
      }
    }
  }
}

namespace {

// A problem of a kernel, and how many pairs of its configurations are compiled.
struct Typical {
  const char* kernel;
  const char* preset;
  const char* problem;
  int pairs;
};

constexpr Typical kTypical[] = {
    {"router", "deepseek-v3", "tokens=64", 8},
    {"router", "deepseek-v3", "tokens=4096,outputs=weights", 4},
    {"prefill_attention", nullptr, "q_heads=8,kv_heads=2,seqlen_q=1024,seqlen_kv=1024,head_dim=64", 6},
    {"route_plan", "deepseek-v3-ep8", "tokens=4096,ids=i64", 3},
    {"moe_dispatch", "deepseek-v3", "tokens=4096,out=e4m3", 3},
    {"moe_combine", "deepseek-v3", "tokens=4096", 3},
    {"moe_experts", "qwen3-30b-a3b", "tokens=4096", 4},
    {"few_rows_linear", "qwen3-30b-a3b", "tokens=8", 5},
    {"kv_transfer", "qwen3-30b-a3b", "pages=1024", 4},
};

// Two legal configurations that differ in one parameter and are launched alike, so that only their code can differ.
using Twins = std::pair<Config, Config>;

std::string launches_in(const Plan& plan) {
  nlohmann::json all = plan;
  all.erase("source");
  all.erase("defines");
  return all.dump();
}

// Differ in `parameter`, one of them `base` if that has a twin. Nothing if some draws find none.
std::optional<Twins> draw_twins(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits,
                                const LegalSpace& legal, const Parameter& parameter, const std::optional<Config>& base,
                                std::mt19937& random) {
  const Space space = space_of(kernel);
  const Assignment environment = expression_environment(problem, limits);
  for (int draw = 0; draw < 40; ++draw) {
    const Config drawn = legal.config(static_cast<ConfigId>(random() % legal.size()));
    const Config& one = base && draw < 20 ? *base : drawn;
    const Value& value = parameter.values[random() % parameter.values.size()];
    const Config other = space.parse_config(parameter.name + "=" + value.text(), &one);
    if (other == one || !space.why_illegal(other, environment).empty()) continue;
    if (launches_in(kernel.plan(one, problem, limits)) == launches_in(kernel.plan(other, problem, limits)))
      return Twins{one, other};
  }
  return std::nullopt;
}

}  // namespace

// That the macros of two configurations differ is held for whole spaces (tests/kernels: no two configurations launch
// the same code in the same way). A template could ignore a macro: so a sample is compiled.
TEST_CASE("configurations that differ in one parameter and are launched alike have other instructions") {
  if (kSanitized) return;
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  Compiler::Options options;
  options.architecture = "sm_90a";
  const Compiler compiler(options);
  CompilePool pool(compiler, std::thread::hardware_concurrency());
  struct Compiled {
    Twins twins;
    Plan plan;  // of the first
    std::shared_future<BuildPtr> one, other;
  };
  std::vector<Compiled> compiled;
  std::mt19937 random(16);
  for (const Typical& typical : kTypical) {
    CAPTURE(typical.problem);
    const Kernel& kernel = find_kernel(typical.kernel);
    const auto preset = std::find_if(kernel.presets().begin(), kernel.presets().end(), [&](const Preset& each) {
      return typical.preset != nullptr && each.name == typical.preset;
    });
    const Problem problem = kernel.parse(typical.problem, preset == kernel.presets().end() ? nullptr : &*preset);
    const Space space = space_of(kernel);
    const LegalSpace legal = space.enumerate(expression_environment(problem, limits));
    int pairs = 0;
    for (int round = 0; round < 4 && pairs < typical.pairs; ++round) {
      std::optional<Config> base;  // which is compiled once for all of its twins
      for (const Parameter& parameter : space.parameters()) {
        if (parameter.at_launch || pairs == typical.pairs) continue;
        const auto twins = draw_twins(kernel, problem, limits, legal, parameter, base, random);
        if (!twins) continue;
        base = twins->first;
        ++pairs;
        const Plan one = kernel.plan(twins->first, problem, limits),
                   other = kernel.plan(twins->second, problem, limits);
        compiled.push_back({*twins, one, pool.submit(one.unit), pool.submit(other.unit)});
      }
    }
    CHECK(pairs == typical.pairs);
  }
  std::size_t compared = 0;
  for (const Compiled& pair : compiled) {
    CAPTURE(pair.twins.first.text());
    CAPTURE(pair.twins.second.text());
    const BuildPtr one = pair.one.get(), other = pair.other.get();
    REQUIRE(one->outcome == Outcome::ok);
    REQUIRE(other->outcome == Outcome::ok);
    // ptxas makes one order of what it serializes, and a search prunes that.
    if (!why_serialized(pair.plan, *one).empty()) continue;
    ++compared;
    const bool differ = instructions_of(one->cubin) != instructions_of(other->cubin);
    CHECK(differ);
  }
  CHECK(compared >= compiled.size() - 3);
  MESSAGE(compiled.size() << " pairs, " << pool.stats().compile_seconds << " s of compiling");
}

}  // namespace moetune::space_compile_test
