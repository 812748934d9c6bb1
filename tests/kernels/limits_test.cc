#include "kernels/limits.h"

#include <doctest/doctest.h>

#include "base/error.h"

using moetune::architecture_name;
using moetune::DeviceLimits;
using moetune::known_architectures;
using moetune::limits_of_architecture;

TEST_CASE("architectures with an accelerated feature set get its target") {
  CHECK(architecture_name(80) == "sm_80");
  CHECK(architecture_name(89) == "sm_89");
  CHECK(architecture_name(90) == "sm_90a");
  CHECK(architecture_name(103) == "sm_103a");
  CHECK(architecture_name(120) == "sm_120a");
}

TEST_CASE("every known architecture has limits under its own name") {
  for (const std::string& name : known_architectures()) {
    CAPTURE(name);
    const DeviceLimits limits = limits_of_architecture(name);
    CHECK(architecture_name(limits.compute_capability) == name);
    CHECK(limits.shared_per_sm - limits.shared_per_block == 1024);
    CHECK(limits.registers_per_sm == 65536);
    CHECK(limits.threads_per_sm % 512 == 0);
    CHECK(limits.sm_count > 0);
    CHECK(limits.l2_bytes > limits.shared_per_sm);
    CHECK(limits.memory_bytes > limits.l2_bytes);
  }
  for (const char* needed : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"}) {
    CHECK_NOTHROW(limits_of_architecture(needed));
  }
}

TEST_CASE("the opt-in shared memory of a block is the published one") {
  CHECK(limits_of_architecture("sm_80").shared_per_block == 166912);
  CHECK(limits_of_architecture("sm_89").shared_per_block == 101376);
  CHECK(limits_of_architecture("sm_90a").shared_per_block == 232448);
}

TEST_CASE("an unknown architecture is answered with the known ones") {
  CHECK_THROWS_WITH_AS(limits_of_architecture("sm_70"),
                       "unknown architecture 'sm_70'; known: sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, "
                       "sm_121a",
                       moetune::BadInput);
  CHECK_THROWS_WITH_AS(limits_of_architecture("sm_90"), "unknown architecture 'sm_90'; did you mean 'sm_90a'?",
                       moetune::BadInput);
}
