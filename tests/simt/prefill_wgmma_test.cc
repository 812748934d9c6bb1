// prefill_attention's wgmma body on the CPU against the answers in float64: its schedules and overlaps.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// What a configuration leaves out is as here.
const std::string kWarpgroupBase =
    "body=wgmma,warpgroups=1,tile=64,stages=2,query_stages=1,packed=0,overlap=1,ping_pong=0,lag=8,poly=0,trim=0,"
    "schedule=grid,cluster=1,section=0,splits=1";

struct WgmmaCase {
  std::string problem;
  std::vector<std::string> configs;
};

void check_wgmma(const std::vector<WgmmaCase>& cases) {
  std::uint64_t schedule = 0;
  for (const WgmmaCase& one : cases) {
    CAPTURE(one.problem);
    const SimtProblem prefill("prefill_attention", one.problem, 3);
    const HostTensors right = prefill.on_cpu();
    for (const std::string& changes : one.configs) {
      CAPTURE(changes);
      check_outputs(prefill.run(prefill.config(kWarpgroupBase, changes), schedule++), right,
                    rounded_attention(prefill.problem));
    }
  }
}

}  // namespace

TEST_CASE("simt: the wgmma body of prefill_attention, on a grid and with tiles in every order") {
  check_wgmma(
      {{"batch=1,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=1,seqlen_kv=1", {""}},
       {"batch=2,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=100,seqlen_kv=200,lengths=ragged,lse=natural,softcap=2",
        {"overlap=0", "warpgroups=2,ping_pong=1,schedule=dynamic,query_stages=2",
         "schedule=static,query_stages=2,stages=3,section=1,lag=0,poly=2", "tile=128,trim=1,splits=2",
         "packed=1,splits=2"}},
       {"batch=2,q_heads=3,kv_heads=1,head_dim=128,seqlen_q=150,seqlen_kv=150,causal=0,dtype=fp16,sinks=learned",
        {"warpgroups=3,tile=80,ping_pong=1", "schedule=dynamic,tile=176,overlap=0,stages=1"}},
       {"batch=3,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=90,seqlen_kv=260,lengths=ragged,page=32,window=50,"
        "layout=hnd",
        {"tile=96,schedule=static", "packed=1,warpgroups=2,tile=64,schedule=dynamic"}},
       {"batch=1,q_heads=1,kv_heads=1,head_dim=256,seqlen_q=70,seqlen_kv=130,page=256,softcap=1",
        {"stages=2,tile=64"}}});
}

TEST_CASE("simt: the wgmma body of prefill_attention widens e4m3") {
  check_wgmma(
      {{"batch=2,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=100,seqlen_kv=170,lengths=ragged,lse=natural,kv_dtype=e4m3,"
        "kv_scale=head",
        {"warpgroups=2,ping_pong=1,schedule=dynamic,query_stages=2", "splits=2"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=30,seqlen_kv=350,lengths=ragged,page=16,dtype=fp16,"
        "kv_dtype=e4m3,window=300,softcap=1",
        {"tile=96", "packed=1,schedule=static,overlap=0"}}});
}

TEST_CASE("simt: the wgmma body of prefill_attention multiplies e4m3") {
  check_wgmma(
      {{"batch=2,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=100,seqlen_kv=170,lengths=ragged,lse=natural,kv_dtype=e4m3,"
        "kv_scale=head,q_dtype=e4m3",
        {"warpgroups=2,ping_pong=1,schedule=dynamic,query_stages=2", "splits=2,lag=0", "tile=96,overlap=0",
         "tile=128,trim=1"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=30,seqlen_kv=350,lengths=ragged,page=16,dtype=fp16,"
        "kv_dtype=e4m3,q_dtype=e4m3,window=300,sinks=learned",
        {"tile=160", "packed=1,schedule=static,overlap=0,stages=3", "tile=192,schedule=static"}},
       {"batch=1,q_heads=1,kv_heads=1,head_dim=256,seqlen_q=70,seqlen_kv=130,kv_dtype=e4m3,q_dtype=e4m3,softcap=2",
        {"stages=2,tile=64"}}});
}

TEST_CASE("simt: the wgmma body of prefill_attention, with heads that do not fill their last 128 bytes, or of 192") {
  check_wgmma(
      {{"batch=2,q_heads=4,kv_heads=2,head_dim=80,seqlen_q=90,seqlen_kv=170,lengths=ragged,page=64,lse=natural,"
        "softcap=2",
        {"", "packed=1,splits=2"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=96,seqlen_q=80,seqlen_kv=131,lengths=ragged,page=16,sinks=learned,"
        "window=50,layout=hnd",
        {"warpgroups=2,ping_pong=1,tile=80", "packed=1,schedule=dynamic"}},
       {"batch=1,q_heads=2,kv_heads=1,head_dim=112,seqlen_q=70,seqlen_kv=140,dtype=fp16", {"tile=128,trim=1"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=192,seqlen_q=70,seqlen_kv=130,lengths=ragged,lse=natural",
        {"tile=112", "packed=1,splits=2"}},
       {"batch=2,q_heads=4,kv_heads=2,head_dim=80,seqlen_q=40,seqlen_kv=150,lengths=ragged,page=16,kv_dtype=e4m3,"
        "kv_scale=head",
        {"tile=80", "packed=1,overlap=0"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=112,seqlen_q=40,seqlen_kv=150,kv_dtype=e4m3,window=90", {""}},
       {"batch=1,q_heads=2,kv_heads=1,head_dim=192,seqlen_q=40,seqlen_kv=100,kv_dtype=e4m3,dtype=fp16",
        {"stages=1,overlap=0"}},
       {"batch=2,q_heads=2,kv_heads=1,head_dim=80,seqlen_q=40,seqlen_kv=150,lengths=ragged,kv_dtype=e4m3,q_dtype=e4m3",
        {"", "tile=160,packed=1"}},
       {"batch=1,q_heads=2,kv_heads=1,head_dim=96,seqlen_q=40,seqlen_kv=150,page=64,kv_dtype=e4m3,q_dtype=e4m3,"
        "window=70",
        {""}},
       {"batch=1,q_heads=2,kv_heads=1,head_dim=112,seqlen_q=40,seqlen_kv=99,kv_dtype=e4m3,q_dtype=e4m3,lse=natural",
        {""}},
       {"batch=1,q_heads=2,kv_heads=1,head_dim=192,seqlen_q=40,seqlen_kv=130,kv_dtype=e4m3,q_dtype=e4m3,sinks=learned",
        {"tile=128"}}});
}

TEST_CASE("simt: configurations of prefill_attention's wgmma body spread over the space") {
  std::uint64_t schedule = 5;
  for (const char* const text :
       {"batch=2,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=80,seqlen_kv=180,lengths=ragged,page=64,lse=natural",
        "batch=2,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=130,seqlen_kv=190,lengths=ragged,sinks=learned"}) {
    CAPTURE(text);
    const SimtProblem prefill("prefill_attention", text, 3);
    const HostTensors right = prefill.on_cpu();
    const auto is_wgmma = [](const Config& config) { return config.is("body", "wgmma"); };
    for (const Config& config : prefill.sample(simt_sample(2), Rules::must, is_wgmma)) {
      CAPTURE(config.text());
      check_outputs(prefill.run(config, schedule++), right, rounded_attention(prefill.problem));
    }
  }
}
