// moe_experts' wgmma body on the CPU against the exact reference: how warpgroups share a tile, rings that go round from
// tile to tile, and steps and columns that are no whole ones.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// What a configuration leaves out is as here.
const std::string kExpertsBase =
    "body=wgmma,rows=64,warps=4,depth=64,up_columns=32,up_stages=4,down_columns=64,down_stages=4,residents=1,"
    "launches=3,weights=keep,schedule=grid";

struct ExpertsCase {
  std::string problem;
  std::vector<std::string> configs;
};

void check_experts(const std::vector<ExpertsCase>& cases) {
  std::uint64_t schedule = 0;
  for (const ExpertsCase& one : cases) {
    CAPTURE(one.problem);
    const SimtProblem experts("moe_experts", one.problem, 2);
    const HostTensors right = experts.reference(Reference::exact);
    // With e4m3 what lies between the products is rounded to 4 bits; without a sum over experts it shows more.
    const double error = experts.problem.is("w", "e4m3")       ? (experts.problem.is("out", "places") ? 0.1 : 0.06)
                         : experts.problem.is("w", "mxfp4")    ? 0.04
                         : experts.problem.is("dtype", "fp16") ? 0.003
                                                               : 0.02;
    for (const std::string& changes : one.configs) {
      CAPTURE(changes);
      check_outputs(experts.run(experts.config(kExpertsBase, changes), schedule++), right,
                    [&](const std::string&, double got, double value) {
                      return (std::isnan(got) && std::isnan(value)) ||
                             std::abs(got - value) <= error * (1 + std::abs(value));
                    });
    }
  }
}

}  // namespace

TEST_CASE("simt: the wgmma body of moe_experts, with every way to share a tile") {
  check_experts({{"tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,dtype=fp16",
                  {"", "warps=8,up_columns=64,down_columns=128,weights=stream", "up_columns=96,down_columns=96"}},
                 {"tokens=70,hidden=200,intermediate=72,experts=8,top_k=2,align=1,skew=one",
                  {"rows=128,warps=8", "rows=128,up_stages=3", "rows=256,warps=8,down_stages=2"}}});
}

TEST_CASE("simt: the wgmma body of moe_experts, with blocks that take tiles in turn and few or many stages") {
  check_experts({{"tokens=1,hidden=264,intermediate=200,experts=8,top_k=3,align=1",
                  {"up_stages=2,down_stages=2,schedule=persistent", "up_stages=8,down_stages=8,schedule=persistent",
                   "depth=128,up_stages=2,down_stages=3"}},
                 {"tokens=80,hidden=328,intermediate=136,experts=8,top_k=2,align=16,skew=zipf,capacity=150",
                  {"up_stages=3,down_stages=2,schedule=persistent", "depth=128,schedule=persistent,residents=2"}}});
}

TEST_CASE("simt: the swapped body of moe_experts, by 16 to 64 rows") {
  check_experts({{"tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,dtype=fp16",
                  {"body=swapped,rows=16", "body=swapped,rows=64,warps=8,up_columns=64,down_columns=128",
                   "body=swapped,rows=32,depth=128,up_columns=64"}},
                 {"tokens=70,hidden=200,intermediate=72,experts=8,top_k=2,align=1,skew=one",
                  {"body=swapped,rows=64,up_columns=96,down_columns=192,up_stages=2,down_stages=2",
                   "body=swapped,rows=16,schedule=persistent"}}});
}

TEST_CASE("simt: both products of moe_experts in one launch") {
  check_experts({{"tokens=1,hidden=8,intermediate=8,experts=8,top_k=1,align=1",
                  {"body=swapped,rows=16,up_stages=2,down_stages=2,residents=3",
                   "body=swapped,rows=16,launches=2,schedule=persistent"}},
                 {"tokens=1,hidden=264,intermediate=200,experts=8,top_k=3,align=1",
                  {"launches=2,schedule=persistent", "body=swapped,rows=16,depth=128,launches=2,schedule=persistent"}},
                 {"tokens=80,hidden=200,intermediate=136,experts=8,top_k=2,align=16,skew=zipf,capacity=150",
                  {"rows=128,warps=8,launches=2,schedule=persistent",
                   "body=swapped,rows=16,up_stages=2,down_stages=2,launches=2,schedule=persistent,residents=2"}}});
}

TEST_CASE("simt: parts of moe_experts by every body of wgmma") {
  const std::string wide = "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,",
                    narrow = "tokens=9,hidden=256,intermediate=256,experts=8,top_k=2,align=4,w=e4m3,skew=zipf,",
                    packed = "tokens=9,hidden=288,intermediate=96,experts=8,top_k=2,align=4,w=mxfp4,";
  const std::string plain = "rows=128,warps=8,up_columns=64,down_columns=128",
                    swapped = "body=swapped,rows=16,up_columns=64,down_columns=128",
                    few = "body=swapped,rows=32,schedule=persistent";
  const std::string narrow_plain = plain + ",depth=128", narrow_swapped = swapped + ",depth=128";
  std::vector<ExpertsCase> cases;
  bool is_odd = false;  // the bodies take turns, as each is a program to compile
  for (const std::string part : {"part=up,out=places", "part=up,x=places,out=places", "part=down,x=places",
                                 "part=down,x=places,out=places", "x=places", "out=places", "x=places,out=places"}) {
    cases.push_back({wide + "dtype=fp16," + part, {is_odd ? swapped : plain}});
    cases.push_back({narrow + part, {is_odd ? narrow_plain : narrow_swapped}});
    if (is_odd) cases.push_back({wide + "activation=swigluoai," + part, {few}});
    if (!is_odd) cases.push_back({packed + part, {narrow_swapped}});
    is_odd = !is_odd;
  }
  const std::string fused = ",launches=2,schedule=persistent";
  cases.push_back({wide + "x=places", {plain + fused, swapped + fused}});
  cases.push_back({narrow + "x=places", {narrow_plain + fused}});
  cases.push_back({packed + "x=places", {narrow_swapped + fused}});
  check_experts(cases);
}

TEST_CASE("simt: moe_experts by wgmma of weights whose N is contiguous") {
  const std::string sizes = "tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,layout=n_major",
                    many = "tokens=70,hidden=200,intermediate=72,experts=8,top_k=2,align=1,skew=one,layout=n_major";
  const std::string narrow = "up_columns=64,down_columns=64",
                    wide = "up_columns=128,down_columns=256,up_stages=2,down_stages=2",
                    two = "warps=8,up_columns=128,down_columns=128", fused = ",launches=2,schedule=persistent";
  const std::string swapped = "body=swapped,rows=16,", rows = "rows=128,warps=8,up_columns=64,down_columns=128";
  check_experts({{sizes + ",dtype=fp16",
                  {narrow, wide, two, swapped + narrow, swapped + wide + ",depth=128",
                   "body=swapped,rows=32," + two + ",down_stages=3"}},
                 {many, {rows, rows + fused, swapped + "up_columns=64,down_columns=128" + fused}},
                 {sizes + ",dtype=fp16,activation=swigluoai", {two, swapped + narrow}},
                 {many + ",activation=swigluoai", {rows + fused}}});
  check_experts({{sizes + ",part=up,out=places", {narrow, swapped + narrow}},
                 {sizes + ",part=down,x=places,activation=swigluoai", {narrow, swapped + narrow}}});
}

TEST_CASE("simt: moe_experts with gpt-oss' activation, biases and rows in turn") {
  check_experts({{"tokens=9,hidden=136,intermediate=88,experts=8,top_k=2,align=4,activation=swigluoai",
                  {"", "warps=8,up_columns=64,down_columns=128", "body=swapped,rows=16",
                   "body=swapped,rows=64,launches=2,schedule=persistent"}},
                 {"tokens=70,hidden=200,intermediate=72,experts=8,top_k=2,align=1,skew=one,activation=swigluoai",
                  {"rows=128,warps=8", "rows=128,launches=2,schedule=persistent"}}});
}

TEST_CASE("simt: moe_experts in mxfp4, whose weights are unpacked to registers") {
  const std::string packed = "body=swapped,depth=128,rows=16";
  check_experts(
      {{"tokens=9,hidden=288,intermediate=96,experts=8,top_k=2,align=4,w=mxfp4,activation=swigluoai",
        {packed, packed + ",rows=64,warps=8,up_columns=64,down_columns=128",
         packed + ",depth=256,up_columns=64,up_stages=2,down_stages=2", packed + ",launches=2,schedule=persistent"}},
       {"tokens=70,hidden=128,intermediate=352,experts=8,top_k=2,align=1,skew=one,w=mxfp4",
        {packed + ",rows=256,schedule=persistent", packed + ",rows=128,up_columns=64,down_columns=128",
         packed + ",rows=32,launches=2,schedule=persistent,weights=stream"}}});
}

TEST_CASE("simt: moe_experts in e4m3, by every body of wgmma") {
  const std::string narrow = "depth=128,up_columns=32,down_columns=64";
  check_experts(
      {{"tokens=9,hidden=256,intermediate=128,experts=8,top_k=2,align=4,w=e4m3",
        {narrow, narrow + ",launches=2,schedule=persistent",
         "depth=128,warps=8,up_columns=128,down_columns=128,up_stages=2,down_stages=3",
         "depth=128,up_columns=64,down_columns=128,body=swapped,rows=16,up_stages=2,down_stages=2",
         "depth=128,up_columns=64,down_columns=128,body=swapped,rows=64,warps=8,launches=2,schedule=persistent"}},
       {"tokens=70,hidden=128,intermediate=256,experts=8,top_k=2,align=1,skew=one,w=e4m3,dtype=fp16",
        {"depth=128,rows=128,warps=8,up_columns=64,down_columns=128,up_stages=2,down_stages=2",
         narrow + ",rows=128,weights=stream", narrow + ",rows=32,body=swapped,schedule=persistent"}},
       {"tokens=3,hidden=256,intermediate=256,experts=8,top_k=3,align=16,w=e4m3",
        {"depth=256,up_columns=64,down_columns=128,up_stages=2,down_stages=2",
         "depth=256,body=swapped,rows=16,up_columns=32,down_columns=256,up_stages=3,down_stages=2"}}});
}
