#include "kernels/registry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/resources.h"
#include "search/space.h"

using moetune::all_kernels;
using moetune::brief_problem;
using moetune::find_kernel;
using moetune::Kernel;
using moetune::Preset;
using moetune::Problem;
using moetune::Space;

namespace {

std::set<std::string> kernel_names() {
  std::set<std::string> names;
  for (const Kernel* kernel : all_kernels()) names.insert(kernel->name());
  return names;
}

std::string space_file(const Kernel& kernel) { return "spaces/" + kernel.name() + ".json"; }

std::vector<Problem> preset_problems(const Kernel& kernel) {
  std::vector<Problem> problems = {kernel.parse("")};
  for (const moetune::Preset& preset : kernel.presets()) {
    problems.push_back(kernel.parse("", &preset));
  }
  return problems;
}

}  // namespace

TEST_CASE("every kernel has a name of its own and is found by it") {
  REQUIRE_FALSE(all_kernels().empty());
  CHECK(kernel_names().size() == all_kernels().size());
  for (const Kernel* kernel : all_kernels()) {
    CHECK(&moetune::find_kernel(kernel->name()) == kernel);
    CHECK_FALSE(kernel->summary().empty());
  }
}

TEST_CASE("an unknown kernel is answered with the nearest") {
  REQUIRE_FALSE(all_kernels().empty());
  const std::string known = all_kernels().front()->name();
  CHECK_THROWS_WITH_AS(moetune::find_kernel(known + "x"), doctest::Contains(("'" + known + "'").c_str()),
                       moetune::BadInput);
}

TEST_CASE("the stem rule: a kernel's name has templates and a space that parses") {
  for (const Kernel* kernel : all_kernels()) {
    CAPTURE(kernel->name());
    CHECK_FALSE(moetune::list_resources("templates/" + kernel->name() + "/").empty());
    REQUIRE(moetune::find_resource(space_file(*kernel)));
    const Space space = Space::parse(moetune::read_resource(space_file(*kernel)), space_file(*kernel));
    CHECK(space.kernel() == kernel->name());
    CHECK_FALSE(space.parameters().empty());
  }
}

TEST_CASE("the stem rule, read backwards: every template folder and space belongs to a kernel") {
  std::set<std::string> stems = kernel_names();
  for (const std::string& path : moetune::list_resources("spaces/")) {
    if (!moetune::find_embedded(path)) continue;  // other tests add some
    CHECK_MESSAGE(stems.contains(path.substr(7, path.size() - 7 - std::string(".json").size())), path);
  }
  stems.insert("common");
  for (const std::string& path : moetune::list_resources("templates/")) {
    if (!moetune::find_embedded(path)) continue;
    CHECK_MESSAGE(stems.contains(path.substr(10, path.find('/', 10) - 10)), path);
  }
}

TEST_CASE("every preset is a legal problem with inputs, outputs and a cost") {
  for (const Kernel* kernel : all_kernels()) {
    for (const Problem& problem : preset_problems(*kernel)) {
      CAPTURE(kernel->name());
      CAPTURE(problem.text());
      CHECK_NOTHROW(kernel->check(problem));
      const moetune::Cost cost = kernel->cost(problem);
      CHECK(cost.read_bytes > 0);
      CHECK(cost.written_bytes > 0);
      CHECK(cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3 + cost.flops.fp32 > 0);
      bool outputs_begun = false;
      const std::vector<moetune::Buffer> buffers = kernel->buffers(problem, 1);
      CHECK_NOTHROW(moetune::check_buffers(buffers));
      for (const moetune::Buffer& buffer : buffers) {
        CHECK(buffer.elements > 0);
        const bool output = buffer.is_written();
        CHECK_MESSAGE((output || !outputs_begun), "inputs come first: ", buffer.name);
        outputs_begun = outputs_begun || output;
      }
      CHECK(outputs_begun);
    }
  }
}

TEST_CASE("every kernel has a default on every architecture that it serves, and its plan survives JSON") {
  for (const Kernel* kernel : all_kernels()) {
    const Space space = Space::parse(moetune::read_resource(space_file(*kernel)), space_file(*kernel));
    const Problem problem = preset_problems(*kernel).front();
    for (const std::string& architecture : moetune::known_architectures()) {
      CAPTURE(kernel->name());
      CAPTURE(architecture);
      const moetune::DeviceLimits limits = moetune::limits_of_architecture(architecture);
      const auto config = space.default_config(expression_environment(problem, limits));
      REQUIRE_MESSAGE(config.has_value(), space_file(*kernel));
      const nlohmann::json plan = kernel->plan(*config, problem, limits);
      CHECK_FALSE(plan.at("launches").empty());
      CHECK(nlohmann::json(nlohmann::json::parse(plan.dump()).get<moetune::Plan>()) == plan);
    }
  }
}

TEST_CASE("few_rows_linear's default reads x for 16 or 32 rows of weights at once where no registers hold it") {
  const Kernel& kernel = find_kernel("few_rows_linear");
  const auto rows_of_tile = [&](const std::string& text, const char* architecture) {
    const Space space = Space::parse(moetune::read_resource(space_file(kernel)), space_file(kernel));
    const auto config = space.default_config(
        expression_environment(kernel.parse(text, nullptr), moetune::limits_of_architecture(architecture)));
    const auto value = [&](const char* name) { return config->at(name).number; };
    return 32 / value("LANES") * value("ROWS") * (value("WARPS") / value("SPLIT"));
  };
  for (const char* wide : {"tokens=16,in=5120,out=8192", "tokens=9,in=8192,out=128256", "tokens=16,in=28672,out=4096"})
    CHECK(rows_of_tile(wide, "sm_90a") == 32);
  CHECK(rows_of_tile("tokens=8,in=14336,out=4096", "sm_90a") == 16);
  for (const char* held : {"tokens=16,in=4096,out=6144", "tokens=8,in=8192,out=8192", "tokens=16,in=7168,out=256"})
    CHECK(rows_of_tile(held, "sm_90a") == 8);
}

TEST_CASE("defaults follow the number of rows where searches on an H200 found others") {
  const moetune::DeviceLimits limits = moetune::limits_of_architecture("sm_90a");
  const auto has = [&](const std::string& kernel_name, const std::string& text, const std::string& values) {
    const Kernel& kernel = find_kernel(kernel_name);
    const Space& space = moetune::shared_space(kernel_name);
    const auto config = space.default_config(expression_environment(kernel.parse(text, nullptr), limits)).value();
    CAPTURE(text);
    CAPTURE(config.text());
    CHECK(space.parse_config(values, &config).text() == config.text());
  };
  has("add_rmsnorm", "hidden=2048,tokens=256", "THREADS=256,PREFETCH=1");
  has("add_rmsnorm", "hidden=2048,tokens=257", "THREADS=128,PREFETCH=0");
  has("add_rmsnorm", "hidden=2880,tokens=500", "THREADS=256,FLIGHT=2,PREFETCH=0");
  has("add_rmsnorm", "hidden=2880,tokens=4096", "THREADS=32,PREFETCH=0");
  has("add_rmsnorm", "hidden=4096,tokens=161", "THREADS=256,FLIGHT=1,PREFETCH=0");
  has("add_rmsnorm", "hidden=8192,tokens=192", "THREADS=512,PREFETCH=1");
  has("add_rmsnorm", "hidden=8192,tokens=193", "THREADS=256,FLIGHT=4,PREFETCH=0");
  has("route_plan", "experts=128,top_k=8,tokens=63", "schedule=apart,blocks=1");
  has("route_plan", "experts=128,top_k=8,tokens=64", "schedule=apart,blocks=4,warps=8");
  has("route_plan", "experts=128,top_k=8,tokens=128", "schedule=apart,blocks=8,warps=8");
  has("route_plan", "experts=128,top_k=8,tokens=200", "schedule=apart,blocks=16,warps=8,flight=4");
  has("route_plan", "experts=128,top_k=8,tokens=500", "schedule=apart,blocks=32,warps=16,flight=4");
  has("route_plan", "experts=8,top_k=2,tokens=3000", "schedule=apart,blocks=64,warps=16,flight=4");
  has("route_plan", "experts=128,top_k=8,tokens=2000", "schedule=apart,blocks=128,warps=32,flight=4");
  has("route_plan", "experts=128,top_k=8,tokens=4096", "schedule=split,blocks=64");
  has("mla_decode", "heads=128,batch=256,context=1024", "PAIR=2,SCHEDULE=spans,overhead=8");
  has("mla_decode", "heads=128,batch=32,context=131072", "PAIR=2,SCHEDULE=spans,overhead=8");
  has("mla_decode", "heads=128,batch=64,context=4096", "PAIR=2,SCHEDULE=grid,splits=1");
  has("mla_decode", "heads=128,batch=64,context=8192,lengths=ragged", "PAIR=2,SCHEDULE=spans,overhead=2");
  has("mla_decode", "heads=16,batch=128,context=8192,lengths=ragged", "PAIR=1,SCHEDULE=spans,overhead=1");
  has("mla_decode", "heads=16,batch=1,context=131072", "PARTS=2,SCHEDULE=grid,splits=128");
  has("mla_decode", "heads=128,batch=1,context=131072", "PARTS=2,SCHEDULE=grid,splits=64");
  has("mla_decode", "heads=128,batch=1,context=32768", "PARTS=4,SCHEDULE=grid,splits=32");
  const std::string narrow = "page=64,kv_dtype=e4m3,";
  has("decode_attention", narrow + "q_heads=32,kv_heads=8,batch=9,context=32768", "math=swap,splits=4,combine=kernel");
  has("decode_attention", narrow + "q_heads=32,kv_heads=8,batch=9,context=32768,lengths=ragged",
      "math=swap,schedule=grid,splits=6");
  has("decode_attention", narrow + "q_heads=32,kv_heads=8,batch=256,context=32768,lengths=ragged",
      "math=swap,schedule=grid,splits=1");
  has("decode_attention", narrow + "q_heads=64,kv_heads=8,head_dim=64,batch=10,context=32768,lengths=ragged",
      "body=mma,math=swap,schedule=grid,splits=12");
}

TEST_CASE("a brief problem is what differs from the default or from a preset") {
  const Kernel& kernel = find_kernel("decode_attention");
  const auto brief = [&](const Preset* preset, const std::string& text) {
    return brief_problem("decode_attention", kernel.parse(text, preset).text());
  };
  CHECK(brief(nullptr, "") == "default");
  CHECK(brief(nullptr, "batch=3") == "batch=3");
  const Preset& preset = kernel.presets().front();
  CHECK(brief(&preset, "batch=3,context=77").starts_with(preset.name + " "));
  CHECK(brief_problem("nobody's", "a=1") == "a=1");
  CHECK(brief_problem("decode_attention", "unknown=1") == "unknown=1");
}
