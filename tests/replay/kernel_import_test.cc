#include "replay/kernel_import.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/refusal.h"

using namespace moetune;
using Json = nlohmann::ordered_json;

namespace {

using Pairs = std::vector<std::pair<const char*, const char*>>;

// A T1 description with these parameters and conditions, of a kernel that adds a number to an array.
Json described(const Pairs& parameters, const std::vector<const char*>& conditions) {
  Json json = Json::parse(R"({"General": {"BenchmarkName": "made up"}, "ConfigurationSpace": {},
    "KernelSpecification": {"Language": "CUDA", "KernelName": "add_number", "KernelFile": "inner/add.cu",
      "ProblemSize": [4096, 2048], "GlobalSizeType": "CUDA",
      "LocalSize": {"X": "32", "Y": "4", "Z": "1"}, "GlobalSize": {"X": "ProblemSize // 32", "Y": "512", "Z": "1"},
      "Arguments": [
        {"Name": "out", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "FillType": "Constant",
         "FillValue": 0.0, "Size": "ProblemSize[0] * ProblemSize[1]"},
        {"Name": "in", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Random",
         "FillValue": 1.0, "Size": 8388608},
        {"Name": "number", "Type": "float", "MemoryType": "Scalar", "FillValue": 2.5},
        {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 8388608}]}})");
  Json& space = json["ConfigurationSpace"];
  for (const auto& [name, values] : parameters)
    space["TuningParameters"].push_back({{"Name", name}, {"Type", "int"}, {"Values", values}});
  for (const char* const condition : conditions)
    space["Conditions"].push_back({{"Expression", condition}, {"Parameters", Json::array()}});
  return json;
}

ImportedKernel imported(const Json& json) { return import_kernel(json.dump(), "made/description.json"); }

std::pair<std::uint64_t, double> counted(const Pairs& parameters, const std::vector<const char*>& conditions) {
  const ImportedKernel kernel = imported(described(parameters, conditions));
  return {kernel.legal, kernel.cartesian};
}

std::string import_error(const Json& json) {
  return refusal_of([&] { imported(json); });
}

std::string import_error_of(const std::string& text) {
  return refusal_of([&] { import_kernel(text, "made/x.cu"); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool leaves_out(const ImportedKernel& kernel, const std::string& part) {
  for (const std::string& sentence : kernel.left_out)
    if (has(sentence, part)) return true;
  return false;
}

}  // namespace

// The counts are those of the spaces that these tuners publish.
TEST_CASE("import: spaces of the benchmark hub and of KTT have as many legal configurations as there") {
  CHECK(counted({{"bx", "[16 * i for i in range(1, 17)]"},
                 {"by", "[1, 2, 4, 8, 16]"},
                 {"tx", "[1, 2, 3, 4]"},
                 {"ty", "list(range(1, 5))"},
                 {"read_only", "[0, 1]"},
                 {"padding", "[0, 1]"},
                 {"shared", "[0, 1]"},
                 {"height", "[15]"},
                 {"width", "[15]"}},
                {"padding==0 or bx % 32 != 0", "bx*by<=1024", "padding==0 or shared != 0",
                 "shared == 0 or (((bx*tx+(width-1)))*((by*ty+(height-1)))) < 12*1024"}) ==
        std::pair(std::uint64_t{4362}, 10240.0));
  CHECK(counted({{"bx", "[2**i for i in range(6)]"},
                 {"by", "list(range(32, 256 + 1, 8))"},
                 {"tx", "[1, 2, 3, 4]"},
                 {"ty", "[1, 2, 3, 4, 5, 6, 7, 8]"},
                 {"sx", "[0, 1]"},
                 {"sy", "[0, 1]"}},
                {"32 <= bx * by <= 1024", "tx > 1 or sx == 0", "ty > 1 or sy == 0"})
            .first == 11130);
  const Pairs gemm = {{"MWG", "[16, 32, 64]"}, {"NWG", "[16, 32, 64]"}, {"KWG", "[32]"},       {"MC", "[8, 16, 32]"},
                      {"NC", "[8, 16, 32]"},   {"MA", "[8, 16, 32]"},   {"NB", "[8, 16, 32]"}, {"KWI", "[2]"},
                      {"VM", "[1, 2, 4]"},     {"VN", "[1, 2, 4]"},     {"SA", "[0, 1]"},      {"SB", "[0, 1]"}};
  CHECK(counted(gemm, {"(KWG//KWI)*KWI == KWG", "(MWG // (MC*VM)) * (MC*VM) == MWG",
                       "((NWG // (NC*VN)) * (NC*VN)) == NWG", "(MWG // (MA*VM)) * (MA*VM) == MWG",
                       "(NWG // (NB*VN)) * (NB*VN) == NWG", "(KWG // ((MC*NC)//MA)) * ((MC*NC)//MA) == KWG",
                       "(KWG // ((MC*NC)//NB)) * ((MC*NC)//NB) == KWG"}) == std::pair(std::uint64_t{5788}, 26244.0));
  // The same by remainders of exact quotients.
  CHECK(counted(gemm, {"KWG % KWI == 0", "MWG % (MC * VM) == 0", "NWG % (NC * VN) == 0", "MWG % (MA * VM) == 0",
                       "NWG % (NB * VN) == 0", "KWG % ((MC * NC)/MA) == 0", "KWG % ((MC * NC)/NB) == 0"})
            .first == 5788);
  CHECK(counted({{"x", "[16, 32]"},
                 {"y", "[1, 2, 4, 8]"},
                 {"z", "[1, 2, 4, 8, 16, 32]"},
                 {"inner", "[0, 1, 2, 4, 8, 16, 32]"},
                 {"soa", "[0, 1]"}},
                {"inner < z", "x * y >= 64"}) == std::pair(std::uint64_t{210}, 672.0));
}

TEST_CASE("import: a T1 description becomes a kernel.json that is sound") {
  Json json = described({{"tile", "[1, 2, 4]"}, {"block", "[32, 64]"}}, {"not (tile == 4 and block == 64)"});
  json["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 2;
  json["ConfigurationSpace"]["TuningParameters"][1]["Default"] = {64};
  Json& specification = json["KernelSpecification"];
  specification["LocalSize"]["X"] = "block";
  specification["GridDivX"] = {"block", "tile"};
  specification["SharedMemory"] = "4 * block";
  const ImportedKernel kernel = imported(json);
  CHECK(kernel.name == "add_number");
  CHECK(kernel.source == "inner/add.cu");
  CHECK(kernel.legal == 5);
  CHECK(kernel.left_out.empty());
  CHECK(kernel.unfinished == "");
  const Json& made = kernel.description;
  CHECK(made["launches"][0]["grid"] == Json({"ceil_div(size_x, (block) * (tile))", "512", "1"}));
  CHECK(made["launches"][0]["block"] == Json({"block", "4", "1"}));
  CHECK(made["launches"][0]["shared"] == "4 * block");
  CHECK(made["launches"][0]["arguments"] == Json::parse(R"(["out", "in", {"f32": 2.5}, {"i32": 8388608}])"));
  CHECK(made["tensors"][0]["shape"] == Json({8388608}));
  CHECK(made["tensors"][0]["role"] == "output");
  CHECK(made["tensors"][1]["fill"] == Json({{"uniform", 1.0}}));
  CHECK(made["reference"]["config"] == "tile=2,block=64");

  specification["GlobalSizeType"] = "OpenCL";
  specification.erase("GridDivX");
  specification["GlobalSize"]["X"] = "4096 // tile";
  specification["GlobalSize"]["Y"] = "4";
  CHECK(imported(json).description["launches"][0]["grid"] == Json({"ceil_div(4096 // tile, block)", "4", "1"}));
}

TEST_CASE("import: what a kernel.json cannot say is named") {
  Json json = described({{"tile", "[1, 2, 4]"}}, {"tile != 1"});
  json["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 1;
  Json& specification = json["KernelSpecification"];
  specification["Language"] = "OpenCL";
  specification["Arguments"][1]["FillType"] = "Generator";
  specification["Arguments"][2]["Type"] = "float4";
  specification["ReferenceArguments"] = Json::array();
  ImportedKernel kernel = imported(json);
  for (const char* const part :
       {"has to be ported", "the values of 'in' (Generator) are drawn instead",
        "'number' is no number that is known here: float4", "ReferenceArguments", "its default is not legal"})
    CHECK(leaves_out(kernel, part));
  CHECK(kernel.description["defaults"][0]["config"]["tile"] == 2);
  json["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 7;
  CHECK(leaves_out(imported(json), "the default of 'tile' is none of its values"));
  specification.erase("Arguments");
  CHECK(leaves_out(imported(json), "it lists no arguments"));
  CHECK(has(imported(json).unfinished, "tensors must hold an output"));
}

TEST_CASE("import: what lies in __constant__ memory is copied to its symbol") {
  Json json = described({{"tile", "[1, 2, 4]"}}, {"tile != 1"});
  json["KernelSpecification"]["Arguments"][1]["MemType"] = "Constant";
  const Json made = imported(json).description;
  CHECK(made["launches"][0] == Json({{"symbol", "in"}, {"of", "in"}}));
  CHECK(made["launches"][1]["arguments"] == Json::parse(R"(["out", {"f32": 2.5}, {"i32": 8388608}])"));
}

namespace {

constexpr const char* kAnnotated = R"cu(
#include <cstdint>
namespace outer { namespace {
/* #pragma kernel tune(ghost = 1) */
struct Other { int x; };
}
namespace inner {
#pragma kernel tune(threads = 32, 64, 128) default(64)
#pragma kernel tune(items = 1, 2, 4) tune(strided = false, true)
#pragma kernel set(per_block = threads * \
                   items)
#pragma kernel restriction(per_block <= 256 && n >= div_ceil(per_block, 2))
#pragma kernel problem_size(n) block_size(threads)
#pragma kernel grid_divisors(per_block)
#pragma kernel buffers(c[n], a[n + 1])
#pragma kernel tuning_key("add_" + T)
template <typename T, int per_block, int items = (2), bool strided = false>
__global__ void __launch_bounds__(256) add(int n, T* __restrict__ c, const T a[], const int* b, float scale) {}

__global__ void another() {}
}  // namespace inner
#pragma kernel_tuner tune(x = 1)
__global__ void second() {}
}
)cu";

std::string annotated_error(const std::string& from, const std::string& to) {
  std::string text = kAnnotated;
  text.replace(text.find(from), from.size(), to);
  return refusal_of([&] { import_kernel(text, "made/add.cu"); });
}

}  // namespace

TEST_CASE("import: a source that is annotated for Kernel Launcher becomes a kernel.json that is sound") {
  const ImportedKernel kernel = import_kernel(kAnnotated, "made/add.cu");
  CHECK(kernel.name == "add");
  CHECK(kernel.unfinished == "");
  CHECK(kernel.cartesian == 18);
  CHECK(kernel.legal == 16);  // 128 threads with 4 items are too many
  const Json& made = kernel.description;
  CHECK(made["problem"] == Json::parse(R"([{"name": "n", "default": 16777216}])"));
  CHECK(made["parameters"][2] == Json::parse(R"({"name": "strided", "values": [0, 1]})"));
  CHECK(made["let"] == Json({{"per_block", "threads * items"}}));
  CHECK(made["constraints"][0]["expr"] == "per_block <= 256 && problem.n >= ceil_div (per_block , 2)");
  const Json of_c = {{"name", "c"},
                     {"dtype", "f32"},
                     {"shape", {"n"}},
                     {"role", "output"},
                     {"check", {{"error", 1e-4}}}},
             of_b = {{"name", "b"}, {"dtype", "i32"}, {"shape", {"1 * (n)"}}, {"fill", {{"integers", 2}}}};
  CHECK(made["tensors"][0] == of_c);
  CHECK(made["tensors"][1] == Json::parse(R"({"name": "a", "dtype": "f32", "shape": ["n + 1"]})"));
  CHECK(made["tensors"][2] == of_b);
  const Json& launch = made["launches"][0];
  CHECK(launch["entry"] == "outer::inner::add<float, chosen_per_block, chosen_items, chosen_strided>");
  CHECK(launch["grid"] == Json({"ceil_div(n, per_block)", "ceil_div(1, 1)", "ceil_div(1, 1)"}));
  CHECK(launch["block"] == Json({"threads", "1", "1"}));
  CHECK(launch["arguments"] == Json::parse(R"([{"i32": "n"}, "c", "a", "b", {"f32": 1}])"));
  CHECK(made["macros"] == Json({{"per_block", "per_block"}}));
  CHECK(made["reference"]["config"] == "threads=64,items=1,strided=0");
  CHECK(kernel.wrapper ==
        "// Values of the template parameters.\nconstexpr int chosen_per_block = per_block;\n"
        "constexpr int chosen_items = items;\nconstexpr bool chosen_strided = strided;\n"
        "#undef per_block\n#undef items\n#undef strided\n");
  for (const char* const part : {"the sizes are guesses", "'c' is taken for an output", "the type T is float",
                                 "only 'add' is read", "'scale' is 1"})
    CHECK(leaves_out(kernel, part));
}

TEST_CASE("import: an annotation that cannot be read names file, line and what is wrong") {
  CHECK(has(annotated_error("tune(threads = 32", "tune(threads 32"), "made/add.cu:8: expected '=', not '32'"));
  CHECK(has(annotated_error("problem_size(n)", "problem_size(m)"), "'m' is no parameter that is tuned"));
  CHECK(has(annotated_error("problem_size(n)", "problem_sizes(n)"), "there is no directive 'problem_sizes'"));
  CHECK(has(annotated_error("1, 2, 4) tune", "1.5, 2) tune"), "expected ')', not '.'"));
  CHECK(has(annotated_error("tune(items = 1, 2, 4)", "tune(threads = 1)"), "'threads' is there already"));
  CHECK(has(annotated_error("set(per_block", "set(per_blocks"), "'per_block' is no parameter"));
  CHECK(has(annotated_error("__global__ void __launch_bounds__(256) add(", "void add("), "'n' is no parameter"));
  CHECK(has(annotated_error("buffers(c[n]", "buffers(c[n"), "expected ']'"));
  CHECK(has(import_error_of("#pragma kernel tune(a = \"\xff\")\n"), "made/x.cu:1: a text of a #pragma is not"));
  CHECK(has(import_error_of("#pragma kernel tune(a = 1)\nint x;"), "no __global__ function follows"));
  CHECK(has(import_error_of("__global__ void f() {}\n"), "made/x.cu: none of its functions is annotated"));
}

TEST_CASE("import: a description that cannot be read names file, line and key") {
  const Json json = described({{"tile", "[1, 2, 4]"}}, {"tile != 1"});
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = json;
    changed[Json::json_pointer(pointer)] = value;
    return import_error(changed);
  };
  CHECK(
      has(with("/ConfigurationSpace/Conditions/0/Expression", "tile !== 1"), "made/description.json: constraints[0]"));
  CHECK(has(with("/ConfigurationSpace/Conditions/0/Expression", "size < 1"), "unknown name 'size'"));
  CHECK(has(with("/ConfigurationSpace/Conditions/0/Expression", "tile > 9"), "no configuration is legal"));
  CHECK(
      has(with("/ConfigurationSpace/TuningParameters/0/Values", "[tile]"), "TuningParameters[0].Values: unknown name"));
  CHECK(has(with("/ConfigurationSpace/TuningParameters/0/Values", "[1, 1]"), "holds 1 twice"));
  for (const Json& none : {Json("[]"), Json::array()})
    CHECK(has(with("/ConfigurationSpace/TuningParameters/0/Values", none), "the domain of 'tile' is empty"));
  CHECK(has(with("/ConfigurationSpace/TuningParameters/0/Values", Json({0.5})), "neither an integer nor a name"));
  CHECK(has(with("/ConfigurationSpace/TuningParameters/0/Name", "a b"), "is not a name"));
  CHECK(has(with("/KernelSpecification/Arguments/0/Size", "ProblemSize[2]"), "a list has no such element"));
  CHECK(has(with("/KernelSpecification/ProblemSize", {1, 2, 3, 4}), "has more than 3 elements"));
  CHECK(has(with("/KernelSpecification/LocalSize", 7), "LocalSize"));
  CHECK(has(import_error({{"ConfigurationSpace", {}}}), "lacks the key 'KernelSpecification'"));
  CHECK_THROWS_AS(import_kernel("{\"ConfigurationSpace\"", "x.json"), BadInput);
  CHECK_THROWS_AS(import_kernel("[1, 2]", "x.json"), BadInput);
  CHECK_THROWS_AS(import_kernel("", "x.json"), BadInput);
}

TEST_CASE("import: a cache of Kernel Tuner gives parameters") {
  const ImportedKernel kernel = import_kernel(
      R"({"device_name": "Some GPU", "kernel_name": "add", "problem_size": [4096], "tune_params_keys": ["block", "kind"],
"tune_params": {"block": [64, 32], "kind": ["row", "column"]}, "cache": {
"64,row": {"block": 64, "kind": "row", "time": 2.5}, "32,row": {"block": 32, "kind": "row", "time": 3.5}}})",
      "cache.json");
  CHECK(kernel.name == "add");
  CHECK_FALSE(kernel.has_launch);
  CHECK(has(kernel.unfinished, "add problem"));
  CHECK(kernel.legal == 4);
  CHECK(leaves_out(kernel, "2 configurations were recorded; add constraints"));
  CHECK(kernel.description["parameters"] ==
        Json::parse(R"([{"name": "block", "values": [64, 32]}, {"name": "kind", "values": ["row", "column"]}])"));
}
