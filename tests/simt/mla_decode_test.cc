// mla_decode's templates on the CPU against the answers in float64.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::string kRelayBase = "BODY=relay,TILE=64,STAGES=2,PAIR=1,PARTS=1,splits=1";

struct LatentCase {
  std::string problem;
  std::vector<std::string> configs;
};

const std::vector<LatentCase> kLatentCases = {
    {"batch=1,heads=16,context=1", {"", "TILE=32,STAGES=3"}},
    {"batch=2,heads=16,context=200,page=16,lse=yes",
     {"", "splits=2", "TILE=32,splits=3,STAGES=4", "PARTS=2,splits=2", "PARTS=8,splits=8,TILE=32"}},
    {"batch=3,heads=40,context=300,queries=2,lengths=ragged,lse=yes",
     {"", "TILE=32,STAGES=2,splits=4", "PAIR=2,splits=2", "PAIR=2,PARTS=4,splits=8,TILE=32"}},
    {"batch=1,heads=128,context=150,page=128,dtype=f16", {"splits=2", "PAIR=2", "PAIR=2,PARTS=2,splits=2"}},
    {"batch=2,heads=20,context=3,queries=4,lse=yes,page=32", {"", "TILE=32"}},
};

}  // namespace

TEST_CASE("simt: mla_decode's exact reference agrees with float64") {
  for (const LatentCase& one : kLatentCases) {
    CAPTURE(one.problem);
    const SimtProblem latent("mla_decode", one.problem, 3);
    check_outputs(latent.reference(Reference::exact), latent.on_cpu(),
                  [](const std::string&, double got, double right) { return is_near(got, right, 1e-4); });
  }
}

TEST_CASE("simt: mla_decode's bodies attend as float64 does, under several schedules") {
  std::uint64_t schedule = 0;
  for (const LatentCase& one : kLatentCases) {
    CAPTURE(one.problem);
    const SimtProblem latent("mla_decode", one.problem, 3);
    const HostTensors right = latent.on_cpu();
    for (const std::string& changes : one.configs) {
      CAPTURE(changes);
      check_outputs(latent.run(latent.config(kRelayBase, changes), schedule++), right,
                    rounded_attention(latent.problem));
    }
  }
}
