// Texts: recordings, Kernel Tuner's files, space files, problems and configurations.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/regular_file.h"
#include "base/resources.h"
#include "kernels/described/described_kernel.h"
#include "kernels/described/folders.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "kernels/shown_call.h"
#include "replay/compressed_file.h"
#include "replay/kernel_import.h"
#include "replay/recording_format.h"
#include "replay/replay_device.h"
#include "replay/result_files.h"
#include "search/bound_space.h"
#include "search/enumerate.h"
#include "search/space_file.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/paths.h"
#include "tests/replay/sample_recording.h"

namespace moetune::fuzz {
namespace {

class MutantTarget : public Target {
 public:
  explicit MutantTarget(Mutator mutator) : mutator_(std::move(mutator)) {}
  std::string make(Random& random) override { return mutator_.make(random); }

 private:
  const Mutator mutator_;
};

// What a search asks of any recording.
void use(Recording recording) {
  for (const RecordedTrial& trial : recording.trials) {
    const bool timed = has_time(trial.outcome);
    if (timed && !(trial.time_us > 0 && trial.time_us < 1e11f)) throw Finding("a recorded time is no time");
  }
  if (recording.trials.size() != recording.space.size()) throw Finding("rows and trials differ in number");
  if (is_moetune_recording(parse_moetune_recording(format_recording(recording), "again").kernel)) return;
  const auto shared = std::make_shared<const Recording>(std::move(recording));
  ReplayDevice device({shared}, "replay:fuzz");
  const MeasurePolicy policy;
  for (ConfigId id = 0; id < std::min<ConfigId>(static_cast<ConfigId>(shared->space.size()), 16); ++id)
    device.run({shared->space.config(id), {}, {}}, policy);
}

class RecordingTarget : public MutantTarget {
 public:
  using MutantTarget::MutantTarget;
  void run(const std::string& input) override { use(parse_recording(input, "fuzz", "")); }
};

constexpr const char* kKernelTuner =
    R"json({"device_name": "Some GPU", "kernel_name": "add", "problem_size": [4096, 1],
"tune_params_keys": ["block", "ratio"], "tune_params": {"block": [64, 32], "ratio": [0.5, "row"]}, "cache": {
"64,0.5": {"block": 64, "time": 2.5, "times": [2.25, 2.5], "GFLOP/s": 3.5, "timestamp": "2024-05-06 07:08:09"},
"32,0.5": {"time": "CompilationFailedConfig", "times": []}, "32,row": {"time": 1e20},
"64,row": {"nested": {"time": 1, "times": [1]}, "time": 3}}})json";

constexpr const char* kScores =
    R"json({"cache": {"a,b,(1, 2)": {"x": "a,b", "score": -0.5, "scores": [-0.5]}, "c,[1, 2]": {"score": NaN},
"c,3": {"__error__": "RuntimeFailedConfig", "score": 2}}, "objective": ["score"], "objective_higher_is_better": true,
"tune_params": {"x": ["a,b", "c"], "y": [[1, 2], 3.0000001]}, "tune_params_keys": ["x", "y"]})json";

constexpr const char* kT4 =
    R"json({"schema_version": "1.0.0", "metadata": {"timeunit": "miliseconds", "device": "Some GPU"}, "results": [
{"configuration": {"block": 64, "mode": "a"}, "times": {"runtimes": [1.5, 2]}, "invalidity": "correct", "correctness": 1,
"measurements": [{"name": "time", "value": 1.5, "unit": "ms"}, {"name": "GFLOP/s", "value": 3, "unit": ""}],
"objectives": ["time"]}, {"configuration": {"block": "32", "mode": "b"}, "times": {"runtimes": []},
"invalidity": "compile", "correctness": 0, "measurements": [], "objectives": ["time"]}]})json";

constexpr const char* kKtt =
    R"json({"Metadata": {"Device": "Some GPU", "TimeUnit": "Microseconds", "Timestamp": "2024-07-10 07:36:36 UTC"},
"Results": [{"KernelName": "add", "Status": "Ok", "TotalDuration": 96.25, "Configuration": [
{"Name": "block", "Value": 32, "ValueType": "UnsignedInt"}]}, {"KernelName": "add", "Status": "ComputationFailed",
"TotalDuration": 0.0, "Configuration": [{"Name": "block", "Value": 0.5, "IsDouble": true}]}]})json";

class SpaceTarget : public MutantTarget {
 public:
  using MutantTarget::MutantTarget;

  void run(const std::string& input) override {
    const SpaceFile file = read_space_file(input, "fuzz.json");
    for (const char* kernel : {"decode_attention", "decode_kernel"}) {
      for (const Rules rules : {Rules::all, Rules::must}) {
        const BoundSpace bound(file, environment(kernel), rules);
        count_rows(bound, kMostNodes);
      }
    }
    const Space space = Space::parse(input, "fuzz.json");
    space.default_config(environment("decode_kernel"));
  }

 private:
  static constexpr std::uint64_t kMostNodes = 100'000;  // what a larger one costs is bounded alike

  static Assignment environment(const char* name) {
    const Kernel& kernel = find_kernel(name);
    const Problem problem = kernel.parse("");
    return expression_environment(problem, limits_of_architecture("sm_90a"));
  }
};

constexpr const char* kPythonSpace = R"json({"kernel": "toy", "syntax": "python", "parameters": [
{"name": "a", "values": [1, 2, 4, 8, 16]}, {"name": "b", "values": [0, 1, 3]}, {"name": "c", "values": ["x", "y"]}],
"let": {"q": "a / max(b, 1)"}, "constraints": [
{"expr": "not a == 2 or 1 < b <= 3 and c in ['x', \"y\"]", "why": "w"}, {"expr": "32 % (a / 2) == 0 != b", "why": "w"},
{"expr": "all(a % i or b // i > 2 for i in range(2, 6, 2) if i != 4)", "why": "w"},
{"expr": "sum([a, b ** 3, 0.25 * 4]) - abs(-b) >= q if b else True", "why": "w"}],
"defaults": [{"config": {"a": 1, "b": 0, "c": "x"}}]})json";

constexpr const char* kT1 = R"json({"ConfigurationSpace": {"TuningParameters": [
{"Name": "bx", "Type": "int", "Values": "[16 * i for i in range(1, 9)] + [2**8]", "Default": 16},
{"Name": "kind", "Type": "string", "Values": "['row', 'column']"}, {"Name": "t", "Type": "int", "Values": [1, 2, 4]}],
"Conditions": [{"Expression": "32 <= bx * t <= 256 or kind == 'row'", "Parameters": ["bx"]}]},
"KernelSpecification": {"Language": "CUDA", "KernelName": "add", "KernelFile": "add.cu", "GlobalSizeType": "OpenCL",
"ProblemSize": [4096, 16], "LocalSize": {"X": "bx", "Y": 1}, "GlobalSize": {"X": "4096 // t", "Y": "16"},
"GridDivX": ["bx"], "SharedMemory": "4 * bx", "Arguments": [
{"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": "ProblemSize[0] * max(bx)"},
{"Name": "x", "Type": "int32", "MemoryType": "Vector", "FillType": "Constant", "FillValue": 3, "Size": 7},
{"Name": "n", "Type": "double", "MemoryType": "Scalar", "FillValue": 2.5}]}})json";

constexpr const char* kAnnotated = R"cu(namespace own {
#pragma kernel tune(threads = 32, 64) tune(items = 1, 2) default(2)
#pragma kernel set(per_block = threads * items) restriction(per_block <= n)
#pragma kernel problem_size(n) block_size(threads) grid_divisor(per_block) buffers(c[n])
template <typename T, int items = 1>
__global__ void __launch_bounds__(64) add(int n, T* c, const float* a, unsigned char k) {} /* end */
})cu";

class ImportTarget : public MutantTarget {
 public:
  using MutantTarget::MutantTarget;

  void run(const std::string& input) override {
    const ImportedKernel kernel = import_kernel(input, "fuzz.json");
    if (kernel.legal == 0 || static_cast<double>(kernel.legal) > kernel.cartesian)
      throw Finding("an import counts what cannot be");
    if (kernel.unfinished.empty()) described_kernel(read_description(kernel.description.dump(), "fuzz", kernel.name));
  }
};

// "KERNEL\nPROBLEM\nCONFIG"
class ProblemTarget : public MutantTarget {
 public:
  using MutantTarget::MutantTarget;

  void run(const std::string& input) override {
    const std::size_t first = std::min(input.find('\n'), input.size());
    const std::size_t second = std::min(input.find('\n', first + 1), input.size());
    const Kernel* kernel = known_kernel(input.substr(0, first));
    if (kernel == nullptr) kernel = &find_kernel("decode_attention");
    const std::string text = first < second ? input.substr(first + 1, second - first - 1) : "";
    const Problem problem = kernel->parse(text);
    kernel->check(problem);
    if (kernel->parse(problem.text()).text() != problem.text())
      throw Finding("a problem reads differently from what it writes");
    const DeviceLimits limits = limits_of_architecture("sm_90a");
    kernel->cost(problem);
    kernel->specialization(problem);
    const Space& space = shared_space(kernel->name());
    const std::optional<Config> usual = space.default_config(expression_environment(problem, limits));
    if (usual) kernel->plan(*usual, problem, limits);
    if (second < input.size()) space.parse_config(input.substr(second + 1));
  }
};

// kernel.json of a user's kernel, and what it makes of its default problem. Half of the inputs are JSON in which values
// have changed places.
class DescriptionTarget : public MutantTarget {
 public:
  DescriptionTarget(const std::vector<std::string>& seeds, const std::vector<std::string>& words)
      : MutantTarget(Mutator(seeds, words)) {
    for (const std::string& seed : seeds) seeds_.push_back(nlohmann::json::parse(seed).flatten());
    for (const nlohmann::json& seed : seeds_)
      for (const auto& [path, value] : seed.items()) values_.push_back(value);
    for (const std::string& word : words) values_.push_back(word);
    for (const char* odd : {"0", "-1", "1e300", "9223372036854775807", "null", "true", "[]", "{}", "[[1]]", "\"\""})
      values_.push_back(nlohmann::json::parse(odd));
  }

  std::string make(Random& random) override {
    if (random.below(2) == 0) return MutantTarget::make(random);
    const nlohmann::json& flat = seeds_[random.below(seeds_.size())];
    nlohmann::json json = flat.unflatten();
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const auto place = std::next(flat.begin(), static_cast<std::ptrdiff_t>(random.below(flat.size())));
      const nlohmann::json::json_pointer pointer(place.key());
      if (json.contains(pointer)) json[pointer] = values_[random.below(values_.size())];
    }
    return json.dump();
  }

  void run(const std::string& input) override {
    const std::string name = text_field(parse_json_or_discard(input), "kernel");
    const bool is_added = add_as_packed(name, input);
    Description description;
    std::unique_ptr<const Kernel> kernel;
    try {
      description = read_description(input, "fuzz/kernel.json", name);
      kernel = described_kernel(description);
    } catch (const BadInput&) {
      if (is_added) throw Finding("a pack's kernel.json is taken, which would be refused in a folder");
      throw;
    }
    show_calls(description, *kernel);
    const Problem problem = kernel->parse("");
    kernel->check(problem);
    if (kernel->cost(problem).read_bytes < 1e6) kernel->buffers(problem, 1);
    const DeviceLimits limits = limits_of_architecture("sm_90a");
    kernel->reference(Reference::exact, problem, limits);
    Config config;
    for (const Parameter& parameter : read_space_file(input, "fuzz").parameters)
      config.set(parameter.name, parameter.values.back());
    const Plan plan = kernel->plan(config, problem, limits);
    if (nlohmann::json(nlohmann::json(plan).get<Plan>()) != nlohmann::json(plan))
      throw Finding("a plan reads differently from what it writes");
    const auto family = kernel->family_interface(problem);
    family->check(kernel->extents_of(problem));
    family->table_point_of(problem);
  }

 private:
  // As a server does with a pack's; whether it becomes a kernel that was not known.
  bool add_as_packed(const std::string& name, const std::string& text) {
    constexpr std::size_t kMostAdded = 1000;  // they stay
    if (known_kernel(name) != nullptr || added_ == kMostAdded) {
      if (!own_description(name).empty()) add_packed_kernel(name, text, "fuzz.pack");
      return false;
    }
    const bool is_added = add_packed_kernel(name, text, "fuzz.pack").empty();
    added_ += is_added;
    if (is_added != (known_kernel(name) != nullptr)) throw Finding("a pack's kernel is known, and is not");
    return is_added;
  }

  // Tensors of its ranks, whose sizes are all alike, and hostile.
  static void show_calls(const Description& description, const Kernel& kernel) {
    for (const std::int64_t size : {1LL, 64LL, 0LL, -1LL, 1LL << 40, 1LL << 62}) {
      std::vector<TensorView> views(description.tensors.size());
      std::vector<const TensorView*> given;
      for (std::size_t slot = 0; slot < views.size(); ++slot) {
        for (std::size_t d = 0; d < description.tensors[slot].shape.size(); ++d) {
          views[slot].shape.push_back(size);
          views[slot].strides.push_back(size);
        }
        given.push_back(&views[slot]);
      }
      try {
        for (const std::int64_t extent : kernel.shown_call(given, "").extents)
          if (extent < 0 || extent > kMostTensorElements) throw Finding("a call is shown that no tensor has");
      } catch (const BadInput&) {  // most sizes are no problem's
      }
    }
  }

  std::size_t added_ = 0;
  std::vector<nlohmann::json> seeds_;  // flattened: value by path
  std::vector<nlohmann::json> values_;
};

}  // namespace

std::unique_ptr<Target> descriptions_target(const Folder&) {
  std::vector<std::string> seeds;
  for (const char* name : {"vector_add", "softmax", "matmul"})
    seeds.push_back(read_regular_file(paths::source("examples/kernels/") + name + "/kernel.json", 1 << 20));
  for (const char* name : {"convolution", "coulomb", "expdist", "spmv", "dedispersion"})  // every kind of fill
    seeds.push_back(read_regular_file(paths::source("tests/data/kernels/") + name + "/kernel.json", 1 << 20));
  nlohmann::json files = nlohmann::json::parse(seeds.front());
  files["syntax"] = "python";
  for (const std::size_t input : {1, 2}) files["tensors"][input]["fill"] = {{"files", {"a.0.npy", "a.1.npy"}}};
  files["reference"] = {{"arrays", {{"c", {"c.0.npy", "c.1.npy"}}}}};
  seeds.push_back(files.dump());
  return std::make_unique<DescriptionTarget>(
      std::move(seeds),
      std::vector<std::string>{
          "problem.", "device.", "call.alpha", "when", "memset", "map",     "let",     "launch",
          " ? ",      " / 0",    " * ",        "((",   "f64",    "choices", "free",    "9223372036854775807",
          "-1",       "macros",  "[[",         "{",    "symbol", "struct",  "formula", "offsets"});
}

std::unique_ptr<Target> imports_target(const Folder&) {
  return std::make_unique<ImportTarget>(Mutator({kT1, kT1, kAnnotated}, {"#pragma kernel ",
                                                                         "tune(",
                                                                         "template <",
                                                                         "Values",
                                                                         "Expression",
                                                                         "range(",
                                                                         " for i in ",
                                                                         "ProblemSize[",
                                                                         "max(",
                                                                         "**",
                                                                         "//",
                                                                         "/ 0",
                                                                         "[[",
                                                                         "null",
                                                                         "\"\"",
                                                                         "9223372036854775807",
                                                                         "-1",
                                                                         "1e300",
                                                                         "\"Constant\"",
                                                                         "Default"}));
}

std::unique_ptr<Target> recordings_target(const Folder&) {
  const std::string text = format_recording(sample_recording()), other = format_recording(sample_recording(7));
  return std::make_unique<RecordingTarget>(Mutator({text, other, text, compress_zstd(text)},
                                                   {"ok", "too_slow", "crashed", "pruned", "\"rows\"", "\"limits\"",
                                                    "[0,1]", "\"positions\"", "\x1b[2J", "\\u0000"}));
}

std::unique_ptr<Target> kernel_tuner_target(const Folder&) {
  return std::make_unique<RecordingTarget>(Mutator(
      {kKernelTuner, kScores, kT4, kKtt},
      {"InvalidConfig", "\"time\"", "\"times\"", "Infinity", "NaN", "\"cache\"", "1e20", "True", "-Infinity",
       "\"results\"", "\"Results\"", "\"energy\"", "\"objective\"", "\x7f", "\x1f", ",,", "miliseconds", "[["}));
}

std::unique_ptr<Target> spaces_target(const Folder&) {
  std::vector<std::string> seeds;
  for (const std::string& path : list_resources("spaces/")) seeds.push_back(read_resource(path));
  seeds.insert(seeds.end(), 4, kPythonSpace);
  return std::make_unique<SpaceTarget>(Mutator(std::move(seeds), {"problem.",
                                                                  "device.",
                                                                  "\"let\"",
                                                                  " ? ",
                                                                  " : ",
                                                                  " / 0",
                                                                  " % ",
                                                                  "log2(",
                                                                  "max(",
                                                                  "((",
                                                                  " == ",
                                                                  " && ",
                                                                  "\"must\"",
                                                                  "tile",
                                                                  "'",
                                                                  "\"at\": \"launch\"",
                                                                  " and ",
                                                                  " not ",
                                                                  "//",
                                                                  "**",
                                                                  " for i in range(",
                                                                  " in [",
                                                                  " if ",
                                                                  "0.5"}));
}

std::unique_ptr<Target> problems_target(const Folder&) {
  return std::make_unique<ProblemTarget>(Mutator(
      {"decode_attention\nbatch=4,q_heads=8,kv_heads=1,context=512,page=16\nbody=mma,tile=64,warps=4",
       "decode_attention\nbatch=64,context=8192,dtype=bf16,lengths=ragged,window=128,kv_dtype=e4m3\n",
       "decode_kernel\nelements=1024,dtype=f32,write=all,passes=1\nloader=bulk,stages=2", "tensor_ceiling\n\n",
       "router\ntokens=4096,experts=256,top_k=8,score=sigmoid,bias=correction,groups=8,groups_kept=4,align=16"
       "\nschedule=barrier,cluster=1,select=reduce,lanes=32,vector=4,rows=1,warps=16,"
       "pad=last,dependents=early,blocks_per_sm=1",
       "router\ntokens=1048576,experts=1024,top_k=32,layout=masked,segment=65536,capacity=100000,dropped=mask\n",
       "router\ntokens=90,experts=32,top_k=2,layout=rows,capacity=125,align=256,map=local,skew=one\n",
       "router\ntokens=700,experts=96,top_k=5,outputs=ranks,ranks=8,ids=i64,count=device\n",
       "route_plan\ntokens=300,experts=64,top_k=6,map=local,ids=i64\nschedule=apart,blocks=16,warps=8,flight=4\n",
       "route_plan\ntokens=70,experts=40,top_k=3,layout=masked,segment=5,dropped=mask,count=device,skew=zipf\n",
       "moe_dispatch\ntokens=64,hidden=7168,experts=256,top_k=8,out=e4m3,scale_layout=column,align=128\n",
       "moe_combine\ntokens=19,hidden=264,experts=16,top_k=16,align=2,capacity=90\n",
       "moe_experts\ntokens=37,hidden=2880,intermediate=2880,experts=32,top_k=4,align=8,skew=zipf,dtype=fp16\n"},
      {"batch", "context",  "q_heads", "kv_heads", "head_dim", "page",   "window", "q_len",   "lengths", "ragged",
       "sinks", "dtype",    "fp16",    "e4m3",     "elements", "passes", "tokens", "experts", "top_k",   "groups",
       "align", "capacity", "segment", "ranks",    "layout",   "masked", "hidden", "=",       ",",       "\n"}));
}

}  // namespace moetune::fuzz
