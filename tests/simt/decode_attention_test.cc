// decode_attention's templates on the CPU: every body, math and way to combine splits against the answers in float64.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

struct DecodeCase {
  std::string problem;
  std::vector<std::string> configs;
};

// What a configuration leaves out is as here.
const std::string kRing =
    "body=tma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,row_tiles=1,query=registers,"
    "l2=normal,splits=1,combine=none,ahead=0";
const std::string kCopies =
    "body=mma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=0,row_tiles=1,query=shared,"
    "l2=normal,splits=1,combine=none,ahead=0";

const std::string kWgmma64 = "math=wgmma64,row_tiles=4,query=shared,", kWgmmaSwap = "math=wgmma_swap,query=shared,";
const std::string kPersistent = "schedule=persistent,residents=1,";

void check_decodes(const std::string& base, const std::vector<DecodeCase>& cases) {
  std::uint64_t schedule = 0;
  for (const DecodeCase& one : cases) {
    CAPTURE(one.problem);
    const SimtProblem decode("decode_attention", one.problem, 4);
    const HostTensors right = decode.on_cpu();
    for (const std::string& changes : one.configs) {
      CAPTURE(changes);
      check_outputs(decode.run(decode.config(base, changes), schedule++), right, rounded_attention(decode.problem));
    }
  }
}

}  // namespace

TEST_CASE("simt: the tma body of decode_attention, by mma.sync, is right however its splits are combined") {
  check_decodes(
      kRing, {{"batch=2,context=200,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged,lse=natural,softcap=2",
               {"", "math=swap,query=shared,tile=32,warps=2,producers=2", "splits=2,combine=last_cta",
                "splits=3,combine=kernel", "splits=2,combine=cluster"}},
              {"batch=3,context=150,q_heads=4,kv_heads=1,head_dim=128,lengths=ragged,page=32,sinks=learned",
               {"ahead=2,stages=3", "splits=4,combine=cluster,tile=16,warps=1,producers=2",
                "math=swap,splits=2,combine=kernel"}},
              {"batch=2,context=170,q_heads=2,kv_heads=2,head_dim=64,page=64,window=40,q_len=3,lse=natural,dtype=fp16",
               {"query=shared,ahead=1", "tile=128,splits=2,combine=cluster", "math=swap,tile=32,warps=1"}},
              {"batch=1,context=130,q_heads=5,kv_heads=1,head_dim=64,q_len=8,lse=natural",
               {"row_tiles=2,query=shared", "row_tiles=1,splits=2,combine=kernel"}},
              {"batch=2,context=130,q_heads=2,kv_heads=1,head_dim=256,lengths=ragged,page=16,layout=hnd",
               {"stages=2,tile=32,warps=2"}}});
}

TEST_CASE("simt: the tma body of decode_attention widens e4m3 on its way from shared memory") {
  check_decodes(
      kRing,
      {{"batch=2,context=150,q_heads=4,kv_heads=2,head_dim=128,lengths=ragged,kv_dtype=e4m3,lse=natural,softcap=1",
        {"", "math=swap,query=shared,splits=2,combine=cluster", kPersistent + "combine=last_cta"}},
       {"batch=3,context=100,q_heads=4,kv_heads=2,head_dim=128,page=16,kv_dtype=e4m3,kv_scale=head,dtype=fp16",
        {"tile=32,warps=2,ahead=1,stages=3"}},
       {"batch=2,context=70,q_heads=2,kv_heads=1,head_dim=256,kv_dtype=e4m3,window=30", {"tile=32,warps=1,stages=2"}}});
}

TEST_CASE("simt: persistent grids of decode_attention come through their spans") {
  check_decodes(
      kRing,
      {{"batch=5,context=200,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged,lse=natural",
        {kPersistent + "combine=last_cta,tile=32,warps=2", kPersistent + "combine=kernel,producers=2,stages=3"}},
       {"batch=4,context=150,q_heads=2,kv_heads=1,head_dim=128,lengths=ragged,page=16,sinks=learned,window=60",
        {kPersistent + "combine=kernel,tile=16,warps=1",
         "math=swap,query=shared," + kPersistent + "combine=last_cta,producers=2"}},
       {"batch=24,context=60,q_heads=2,kv_heads=2,head_dim=64,lengths=ragged",  // many segments a block
        {kPersistent + "combine=last_cta,tile=32,warps=1", kPersistent + "combine=kernel,tile=32,warps=1,producers=2",
         kPersistent + "combine=last_cta,tile=16,warps=1,producers=2", kPersistent + "combine=kernel,tile=16,warps=1"}},
       {"batch=3,context=140,q_heads=8,kv_heads=1,head_dim=64,lengths=full,q_len=2,page=256,softcap=2",
        {kWgmma64 + kPersistent + "combine=last_cta", kWgmmaSwap + kPersistent + "combine=kernel"}}});
}

TEST_CASE("simt: decode_attention by wgmma, rows on M and tokens on M") {
  check_decodes(
      kRing,
      {{"batch=2,context=200,q_heads=20,kv_heads=1,head_dim=64,lengths=ragged,lse=natural,softcap=2",
        {kWgmma64, kWgmma64 + "splits=2,combine=cluster", kWgmmaSwap + "row_tiles=2",
         kWgmmaSwap + "tile=128,warps=8,splits=2,combine=kernel"}},
       {"batch=2,context=150,q_heads=8,kv_heads=1,head_dim=128,page=64,window=70,q_len=2,dtype=fp16,sinks=learned",
        {kWgmma64 + "tile=128,warps=8,producers=2", kWgmmaSwap + "splits=2,combine=last_cta",
         kWgmmaSwap + "row_tiles=2"}},
       {"batch=2,context=150,q_heads=70,kv_heads=1,head_dim=128,page=32,lengths=ragged", {kWgmma64 + "ahead=1"}},
       {"batch=1,context=100,q_heads=4,kv_heads=1,head_dim=256,lse=natural", {kWgmmaSwap, kWgmma64}}});
}

TEST_CASE("simt: the mma body of decode_attention") {
  check_decodes(
      kCopies,
      {{"batch=2,context=130,q_heads=4,kv_heads=2,head_dim=64,lengths=ragged,page=1,lse=natural",
        {"", "splits=2,combine=cluster", "math=swap,splits=2,combine=last_cta"}},
       {"batch=2,context=100,q_heads=4,kv_heads=2,head_dim=64,kv_dtype=e4m3,kv_scale=head", {"query=registers"}},
       {"batch=1,context=90,q_heads=1,kv_heads=1,head_dim=128,window=30,softcap=1", {"splits=2,combine=kernel"}}});
}

TEST_CASE("simt: decode_attention of heads that do not fill their last 128 bytes, or that are 192 values") {
  check_decodes(
      kCopies,
      {{"batch=2,context=130,q_heads=4,kv_heads=2,head_dim=80,lengths=ragged,page=16,lse=natural,softcap=2",
        {"", "math=swap,query=registers,splits=2,combine=last_cta"}},
       {"batch=2,context=131,q_heads=20,kv_heads=1,head_dim=96,lengths=ragged,page=1,sinks=learned,dtype=fp16",
        {"row_tiles=2", "math=swap,row_tiles=2,tile=32,warps=2"}},
       {"batch=2,context=99,q_heads=3,kv_heads=1,head_dim=112,window=40,q_len=3,lse=natural",
        {"query=registers,splits=2,combine=kernel", "math=swap,splits=2,combine=cluster"}},
       {"batch=2,context=77,q_heads=2,kv_heads=1,head_dim=192,lengths=ragged,page=64,layout=nhd",
        {"splits=3,combine=kernel", "math=swap,tile=32,warps=1"}},
       {"batch=2,context=90,q_heads=4,kv_heads=2,head_dim=80,kv_dtype=e4m3,kv_scale=head,page=16,lengths=ragged",
        {"", "math=swap,query=registers"}},
       {"batch=1,context=85,q_heads=2,kv_heads=1,head_dim=96,kv_dtype=e4m3,window=30", {"splits=2,combine=last_cta"}},
       {"batch=1,context=67,q_heads=2,kv_heads=1,head_dim=112,kv_dtype=e4m3,sinks=learned,dtype=fp16",
        {"query=registers", "math=swap,splits=2,combine=kernel"}},
       {"batch=2,context=75,q_heads=3,kv_heads=1,head_dim=192,kv_dtype=e4m3,page=1,lse=natural",
        {"tile=32,warps=2", "math=swap,tile=32,warps=1"}}});
  check_decodes(
      kRing,
      {{"batch=2,context=150,q_heads=20,kv_heads=1,head_dim=80,lengths=ragged,page=64,lse=natural,softcap=2",
        {"row_tiles=2,splits=2,combine=cluster", kWgmma64 + "splits=2,combine=kernel", kWgmmaSwap + "row_tiles=2"}},
       {"batch=2,context=140,q_heads=4,kv_heads=2,head_dim=96,lengths=ragged,page=16,layout=nhd,sinks=learned",
        {"ahead=1", "math=swap,query=shared,splits=2,combine=kernel", kWgmma64 + "producers=2",
         kPersistent + "combine=last_cta"}},
       {"batch=2,context=135,q_heads=8,kv_heads=1,head_dim=112,window=70,q_len=2,page=64,dtype=fp16",
        {"math=swap,query=shared,producers=2", kWgmma64 + "ahead=1", kWgmmaSwap + kPersistent + "combine=kernel"}},
       {"batch=2,context=100,q_heads=6,kv_heads=2,head_dim=192,lengths=ragged,lse=natural",
        {"tile=32,warps=2", "math=swap,query=shared,tile=32,warps=2,splits=2,combine=cluster", kWgmma64, kWgmmaSwap}},
       {"batch=2,context=90,q_heads=4,kv_heads=2,head_dim=80,kv_dtype=e4m3,page=16,lengths=ragged",
        {"splits=2,combine=cluster", "math=swap,query=shared"}},
       {"batch=2,context=90,q_heads=2,kv_heads=1,head_dim=112,kv_dtype=e4m3,layout=nhd,window=50",
        {"", kPersistent + "combine=kernel"}},
       {"batch=1,context=90,q_heads=2,kv_heads=1,head_dim=192,kv_dtype=e4m3,kv_scale=head", {"tile=32,warps=2"}}});
}

TEST_CASE("simt: configurations of decode_attention spread over the space, under several schedules") {
  std::uint64_t schedule = 0;
  for (const char* const text :
       {"batch=3,context=190,q_heads=6,kv_heads=2,head_dim=64,lengths=ragged,page=16,lse=natural",
        "batch=2,context=300,q_heads=8,kv_heads=1,head_dim=128,lengths=ragged,q_len=2,sinks=learned",
        "batch=2,context=140,q_heads=4,kv_heads=2,head_dim=128,page=64,kv_dtype=e4m3,window=90",
        "batch=2,context=150,q_heads=6,kv_heads=2,head_dim=96,lengths=ragged,page=64,sinks=learned"}) {
    CAPTURE(text);
    const SimtProblem decode("decode_attention", text, 4);
    const HostTensors right = decode.on_cpu();
    for (const Config& config : decode.sample(simt_sample(3), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(decode.run(config, schedule++), right, rounded_attention(decode.problem));
    }
  }
}
