// What every kernel's space file claims, held against its plans: which rules must hold, and which parameters
// are passed at launch.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "search/bound_space.h"
#include "search/random.h"
#include "search/space.h"
#include "tests/sanitized.h"

using namespace moetune;

namespace {

// A sanitizer has seen each kernel's plan after a few; all of them are compared without one.
constexpr int kProblems = kSanitized ? 2 : 6;                   // of a kernel
constexpr std::size_t kConfigurations = kSanitized ? 40 : 400;  // of a problem, those with plans
constexpr std::size_t kCompared = kSanitized ? 200 : 4000;      // of a problem, those with units

Space space_of(const Kernel& kernel) {
  const std::string path = "spaces/" + kernel.name() + ".json";
  return Space::parse(read_resource(path), path);
}

// Every named dimension drawn; integers near a preset's or the defaults.
Problem draw_problem(const Kernel& kernel, Random& random) {
  for (;;) {
    const std::size_t choice = random.below(kernel.presets().size() + 1);
    const Preset* preset = choice == 0 ? nullptr : &kernel.presets()[choice - 1];
    Problem problem = kernel.parse("", preset);
    for (const Dimension& dimension : kernel.schema()) {
      if (!dimension.names.empty()) {
        const std::size_t at = random.below(dimension.names.size());
        problem.dims.set(dimension.name, Value::named(dimension.names[at], static_cast<std::int64_t>(at)));
      } else if (random.below(2) == 0) {
        const std::int64_t shift = static_cast<std::int64_t>(random.below(4));
        const std::int64_t value = problem[dimension.name] >> shift;
        problem.dims.set(dimension.name, Value::integer(std::max(value, dimension.minimum)));
      }
    }
    try {
      kernel.check(problem);
      return problem;
    } catch (const BadInput&) {  // the draw broke a rule across dimensions
    }
  }
}

// Another problem of the family of `here`.
Problem draw_relative(const Kernel& kernel, const Problem& here, Random& random) {
  for (;;) {
    Extents extents;
    for (const std::string& name : kernel.free_dimensions()) {
      const auto dimension = std::find_if(kernel.schema().begin(), kernel.schema().end(),
                                          [&](const Dimension& each) { return each.name == name; });
      extents.push_back(dimension->minimum + static_cast<std::int64_t>(random.below(random.below(2) ? 8 : 4096)));
    }
    try {
      return kernel.problem_of(kernel.specialization(here), extents);
    } catch (const BadInput&) {  // no problem has these
    }
  }
}

// Some configurations that hold to `rules`, evenly through the space.
std::vector<Config> sample(const Space& space, const Assignment& environment, Rules rules) {
  const LegalSpace legal = space.enumerate(environment, rules);
  std::vector<Config> configs;
  const std::size_t step = 1 + legal.size() / kConfigurations;
  for (std::size_t id = 0; id < legal.size(); id += step) configs.push_back(legal.config(static_cast<ConfigId>(id)));
  return configs;
}

// Quantities that read free dimensions and yet are the same for all problems of a family.
const std::map<std::string, std::set<std::string>> kOfTheFamily = {
    {"decode_attention", {"packed"}},  // query heads over KV heads, which is compiled in
    {"prefill_attention", {"group"}},  // the same
};

bool is_of_the_family(const SpaceFile& file, const std::string& quantity) {
  const auto known = kOfTheFamily.find(file.kernel);
  return known != kOfTheFamily.end() && known->second.contains(quantity);
}

// The dimensions that an expression reads, through quantities too, but for those of the family.
std::set<std::string> dimensions_of(const SpaceFile& file, const Expression& expression) {
  std::set<std::string> dimensions;
  for (const Slot slot : expression.slots()) {
    const Vocabulary::Symbol& symbol = file.vocabulary[slot];
    if (symbol.kind == Vocabulary::Kind::environment && symbol.name.starts_with("problem."))
      dimensions.insert(symbol.name.substr(std::string("problem.").size()));
    if (symbol.kind != Vocabulary::Kind::let || is_of_the_family(file, symbol.name)) continue;
    const auto let =
        std::find_if(file.lets.begin(), file.lets.end(), [&](const SpaceFile::Let& each) { return each.slot == slot; });
    dimensions.merge(dimensions_of(file, let->expression));
  }
  return dimensions;
}

// Those of them that a cubin of the problem does not have compiled in.
std::string not_compiled_in(const SpaceFile& file, const Expression& expression, const Assignment& compiled) {
  std::string names;
  for (const std::string& dimension : dimensions_of(file, expression)) {
    if (compiled.find(dimension) == nullptr) names += (names.empty() ? "" : " ") + dimension;
  }
  return names;
}

SpaceFile file_of(const Kernel& kernel) {
  const std::string path = "spaces/" + kernel.name() + ".json";
  return read_space_file(read_resource(path), path);
}

void check_plan(const Plan& plan, const DeviceLimits& limits) {
  CHECK_FALSE(plan.unit.source.empty());
  REQUIRE_FALSE(plan.launches.empty());
  for (const Launch& launch : plan.launches) {
    CHECK(launch.dynamic_shared <= limits.shared_per_block);
    CHECK(launch.block[0] * launch.block[1] * launch.block[2] <= 1024);
    for (int i = 0; i < 3; ++i) {
      CHECK(launch.grid[i] > 0);
      CHECK(launch.grid[i] % launch.cluster[i] == 0);
    }
    const std::uint32_t cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    CHECK(cluster <= (limits.compute_capability < 90 ? 1u : limits.compute_capability < 120 ? 16u : 8u));
  }
}

}  // namespace

TEST_CASE("whatever holds to the must rules of a space has a plan that a device can take") {
  Random random(1);
  std::size_t guessed_slow = 0;
  for (const Kernel* kernel : all_kernels()) {
    const Space space = space_of(*kernel);
    for (const char* architecture : {"sm_80", "sm_90a", "sm_120a"}) {
      const DeviceLimits limits = limits_of_architecture(architecture);
      const Problem problem = draw_problem(*kernel, random);
      const Assignment environment = expression_environment(problem, limits);
      CAPTURE(architecture);
      CAPTURE(problem.text());
      for (const Config& config : sample(space, environment, Rules::must)) {
        CAPTURE(config.text());
        check_plan(kernel->plan(config, problem, limits), limits);
        guessed_slow += !space.why_illegal(config, environment).empty();
      }
    }
  }
  CHECK(guessed_slow > 2 * kConfigurations);
}

TEST_CASE("the spaces of attention count shared memory as plans ask for it, whatever the head") {
  for (const char* const name : {"decode_attention", "prefill_attention"}) {
    const Kernel& kernel = find_kernel(name);
    const Space space = space_of(kernel);
    for (const char* const types : {"kv_dtype=same", "kv_dtype=e4m3", "kv_dtype=e4m3,q_dtype=e4m3"}) {
      if (std::string(types).ends_with("q_dtype=e4m3") && kernel.name() == "decode_attention") continue;
      for (const int head_dim : {64, 80, 112, 192}) {
        const Problem problem = kernel.parse(std::string(types) + ",head_dim=" + std::to_string(head_dim));
        DeviceLimits limits = limits_of_architecture("sm_90a");
        const auto why_illegal = [&](const Config& config, std::int64_t bytes) {
          limits.shared_per_block = bytes;
          return space.why_illegal(config, expression_environment(problem, limits), Rules::must);
        };
        const std::vector<Config> configs = sample(space, expression_environment(problem, limits), Rules::must);
        for (std::size_t i = 0; i < configs.size(); i += 5) {
          const Config& config = configs[i];
          // A block that asks L2 ahead of its turn may pad what it needs.
          if (kernel.name() == "decode_attention" && config.number("ahead") > 0) continue;
          CAPTURE(problem.text());
          CAPTURE(config.text());
          limits.shared_per_block = 232448;
          const std::int64_t bytes = kernel.plan(config, problem, limits).launches.front().dynamic_shared;
          CHECK(why_illegal(config, bytes) == "");
          CHECK(why_illegal(config, bytes - 1).find("shared memory") != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("what can run at one problem can run at every problem of its family") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  Random random(2);
  for (const Kernel* kernel : all_kernels()) {
    const Space space = space_of(*kernel);
    for (int i = 0; i < kProblems; ++i) {
      const Problem here = draw_problem(*kernel, random);
      const Problem there = draw_relative(*kernel, here, random);
      CAPTURE(here.text());
      CAPTURE(there.text());
      CHECK(space.count(expression_environment(here, limits), Rules::must) ==
            space.count(expression_environment(there, limits), Rules::must));
      for (const Config& config : sample(space, expression_environment(here, limits), Rules::all))
        REQUIRE(space.why_illegal(config, expression_environment(there, limits), Rules::must) == "");
    }
  }
}

// What some family of the kernel has compiled in: a specialization may leave out what is as usual.
static Assignment all_compiled_in(const Kernel& kernel) {
  Assignment all = kernel.specialization(kernel.parse(""));
  for (const Dimension& dimension : kernel.schema()) {
    for (const std::string& name : dimension.names) {
      const Problem other = kernel.parse(dimension.name + "=" + name);
      for (const auto& [compiled, value] : kernel.specialization(other)) all.set(compiled, value);
    }
  }
  return all;
}

TEST_CASE("must rules and gates read what is compiled in, and no other dimension of a problem") {
  std::size_t guesses = 0;
  for (const Kernel* kernel : all_kernels()) {
    CAPTURE(kernel->name());
    const SpaceFile file = file_of(*kernel);
    const Assignment compiled = all_compiled_in(*kernel);
    for (const SpaceFile::Gate& gate : file.gates)
      CHECK_MESSAGE(not_compiled_in(file, gate.condition, compiled) == "", gate.condition.text());
    for (const SpaceFile::Constraint& rule : file.constraints) {
      const std::string read = not_compiled_in(file, rule.expression, compiled);
      if (rule.kind == ConstraintKind::must) CHECK_MESSAGE(read == "", rule.expression.text());
      guesses += !read.empty() && rule.kind == ConstraintKind::useful;
    }
  }
  CHECK(guesses > 5);  // free dimensions are seen where they are read
}

TEST_CASE("a quantity that is said to be of the family is the same at every problem of it") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  Random random(4);
  for (const auto& [name, quantities] : kOfTheFamily) {
    const Kernel& kernel = find_kernel(name);
    const SpaceFile file = file_of(kernel);
    const auto program_of = [&](const Problem& problem, const std::string& quantity) {
      const BoundSpace bound(file, expression_environment(problem, limits), Rules::must);
      for (std::size_t i = 0; i < file.lets.size(); ++i) {
        if (file.vocabulary[file.lets[i].slot].name == quantity) return bound.lets()[i].program;
      }
      throw BadInput("no quantity " + quantity);
    };
    for (int i = 0; i < 200; ++i) {
      const Problem here = draw_problem(kernel, random), there = draw_relative(kernel, here, random);
      CAPTURE(here.text());
      CAPTURE(there.text());
      for (const std::string& quantity : quantities) {
        REQUIRE(program_of(here, quantity).is_constant());
        CHECK(program_of(here, quantity).constant_value() == program_of(there, quantity).constant_value());
      }
    }
  }
}

TEST_CASE("two configurations are one compile unit if they differ in launch parameters alone, else two") {
  Random random(3);
  std::size_t shared = 0;
  for (const Kernel* kernel : all_kernels()) {
    const Space space = space_of(*kernel);
    const DeviceLimits limits = limits_of_architecture("sm_90a");
    for (int i = 0; i < kProblems; ++i) {
      const Problem problem = draw_problem(*kernel, random);
      CAPTURE(problem.text());
      std::map<std::string, CompileUnit> units;     // by what is compiled
      std::map<std::string, std::string> compiled;  // the other way round
      const LegalSpace legal = space.enumerate(expression_environment(problem, limits));
      for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / kCompared)) {
        const Config config = legal.config(id);
        const ConfigParts parts = split_config(config, space.parameters());
        const CompileUnit unit = kernel->plan(config, problem, limits).unit;
        const auto [known, fresh] = units.emplace(parts.compiled.text(), unit);
        REQUIRE(known->second == unit);
        shared += !fresh;
        std::string text = unit.source;
        for (const auto& [name, value] : unit.defines) text += " " + name + "=" + value;
        const std::string& first = compiled.emplace(text, parts.compiled.text()).first->second;
        REQUIRE(first == parts.compiled.text());
      }
    }
  }
  CHECK(shared > kCompared / 4);
}

TEST_CASE("as many experts as are published have a default and configurations on every architecture") {
  for (const char* name : {"router", "moe_dispatch", "moe_combine", "moe_experts"}) {
    const Kernel& kernel = find_kernel(name);
    const Space space = space_of(kernel);
    for (const char* experts : {"experts=1024,top_k=32", "experts=896,top_k=22", "experts=768,top_k=12"}) {
      for (const char* tokens : {",tokens=1", ",tokens=100", ",tokens=16384"}) {
        const Problem problem = kernel.parse(std::string(experts) + tokens);
        kernel.check(problem);
        for (const std::string& architecture : known_architectures()) {
          CAPTURE(problem.text());
          CAPTURE(architecture);
          const DeviceLimits limits = limits_of_architecture(architecture);
          const Assignment environment = expression_environment(problem, limits);
          const std::optional<Config> usual = space.default_config(environment);
          REQUIRE(usual);
          check_plan(kernel.plan(*usual, problem, limits), limits);
          const std::vector<Config> configs = sample(space, environment, Rules::all);
          CHECK(configs.size() > kConfigurations / 8);
          for (std::size_t i = 0; i < configs.size(); i += 20)
            check_plan(kernel.plan(configs[i], problem, limits), limits);
        }
      }
    }
  }
}
