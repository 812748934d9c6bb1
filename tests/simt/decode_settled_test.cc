// decode_attention with kv_settled=1 behind a launch that writes queries and each sequence's newest tokens at its very
// end: what is NaN until then is not read before, and what is there is.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/decode_attention/call.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::string kBulk =
    "body=tma,math=mma16,schedule=grid,residents=0,tile=32,warps=2,stages=2,producers=1,row_tiles=1,query=registers,"
    "l2=normal,splits=1,combine=none,ahead=0";
const std::string kByWarps =
    "body=mma,math=mma16,schedule=grid,residents=0,tile=32,warps=2,stages=2,producers=0,row_tiles=1,query=shared,"
    "l2=normal,splits=1,combine=none,ahead=0";
const std::string kSpread = "schedule=persistent,residents=1,combine=last_cta,";

// The problem behind a launch that writes the newest `late` tokens of each sequence.
SimtProblem settled(const std::string& text, std::int64_t late) {
  SimtProblem problem("decode_attention", text, 4);
  const DecodeShape shape(problem.problem);
  DecodeCall call(problem.call);
  call.kv_settled = 1;
  problem.call = call.call();
  problem.edit = [=](SimtTensors& tensors) {
    const std::vector<double>& lengths = tensors.inputs().at("lengths");
    std::vector<Range> newest;
    for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
      const auto length = static_cast<std::int64_t>(lengths[static_cast<std::size_t>(sequence)]);
      for (std::int64_t token = std::max<std::int64_t>(0, length - late); token < length; ++token) {
        const std::int64_t entry = shape.paged() ? sequence * call.page_table_stride + token / shape.page : 0;
        const double block = shape.paged() ? tensors.inputs().at("page_table")[static_cast<std::size_t>(entry)]
                                           : static_cast<double>(sequence);
        const std::int64_t place = shape.paged() ? token % shape.page : token;
        for (std::int64_t head = 0; head < shape.kv_heads; ++head)
          newest.push_back({static_cast<std::int64_t>(block) * call.k.block + head * call.k.head + place * call.k.token,
                            shape.head_dim});
      }
    }
    for (const char* const name : {"k", "v"}) tensors.settle(name, newest);  // which lie alike
    tensors.settle("lengths", {});
    if (shape.paged()) tensors.settle("page_table", {});
  };
  return problem;
}

void check_settled(const std::string& base, const std::string& text, std::int64_t q_len,
                   const std::vector<std::string>& configs) {
  CAPTURE(text);
  const SimtProblem decode = settled(text + ",q_len=" + std::to_string(q_len), q_len);
  const HostTensors right = decode.on_cpu();
  for (const std::string& changes : configs) {
    CAPTURE(changes);
    for (const std::uint64_t schedule : {1, 2, 4})
      check_outputs(decode.run(decode.config(base, changes), schedule), right, rounded_attention(decode.problem));
  }
}

bool has_nan(const HostTensors& outputs) {
  return std::ranges::any_of(outputs.at("o"), [](double value) { return std::isnan(value); });
}

}  // namespace

TEST_CASE("simt: the tma body of decode_attention reads settled KV alone before it waits") {
  for (const std::int64_t q_len : {1, 2}) {
    check_settled(
        kBulk, "batch=4,context=192,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged,lse=natural", q_len,
        {"stages=3", "splits=2,combine=last_cta", "splits=3,combine=kernel,producers=2", "splits=2,combine=cluster"});
    check_settled(kBulk, "batch=4,context=161,q_heads=4,kv_heads=1,head_dim=128,page=16,lengths=ragged", q_len,
                  {"", "splits=2,combine=cluster,ahead=2,stages=3", "tile=16,warps=1,producers=2"});
    check_settled(kBulk, "batch=2,context=150,q_heads=8,kv_heads=1,head_dim=64,page=64,window=70", q_len,
                  {"math=wgmma_swap,tile=64,warps=4,query=shared", "math=swap,query=shared,splits=2,combine=kernel"});
    check_settled(kBulk, "batch=3,context=100,q_heads=4,kv_heads=2,head_dim=128,page=16,kv_dtype=e4m3", q_len, {""});
  }
}

TEST_CASE("simt: persistent grids of decode_attention read settled KV alone before they wait") {
  for (const std::int64_t q_len : {1, 2}) {
    check_settled(kBulk, "batch=5,context=192,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged", q_len,
                  {kSpread, kSpread + "producers=2,stages=3"});
    check_settled(kBulk, "batch=12,context=90,q_heads=2,kv_heads=1,head_dim=64,page=16,lengths=ragged", q_len,
                  {kSpread + "tile=16,warps=1,producers=2", kSpread + "combine=kernel,stages=3"});
  }
}

TEST_CASE("simt: the mma body of decode_attention reads settled KV alone before it waits") {
  for (const std::int64_t q_len : {1, 2}) {
    check_settled(kByWarps, "batch=4,context=192,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged", q_len,
                  {"", "splits=2,combine=cluster,stages=3", "splits=3,combine=kernel"});
    check_settled(kByWarps, "batch=4,context=130,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged,page=1", q_len,
                  {"", "splits=2,combine=last_cta"});
    check_settled(kByWarps, "batch=2,context=100,q_heads=4,kv_heads=2,head_dim=64,page=16,window=60", q_len, {""});
  }
}

TEST_CASE("simt: a word that does not hold shows, for every body does read before it waits") {
  // Nothing but tokens that the launch in front is said not to write, and writes.
  const SimtProblem wrong = settled("batch=2,context=200,q_heads=4,kv_heads=2,head_dim=64,page=16", /*late=*/200);
  for (const std::string& config :
       {std::string(), std::string("splits=2,combine=cluster"), kSpread, kSpread + "producers=2"}) {
    CAPTURE(config);
    CHECK(has_nan(wrong.run(wrong.config(kBulk, config), 1)));
  }
  CHECK(has_nan(wrong.run(wrong.config(kByWarps, ""), 1)));
  SimtProblem unsettled = wrong;
  unsettled.call = unsettled.kernel.default_call(unsettled.problem);
  for (const std::string& config : {std::string(), kSpread}) {
    CAPTURE(config);
    CHECK(!has_nan(unsettled.run(unsettled.config(kBulk, config), 1)));
  }
  CHECK(!has_nan(unsettled.run(unsettled.config(kByWarps, ""), 1)));
}
