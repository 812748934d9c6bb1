#include <doctest/doctest.h>

#include "tests/sanitized.h"
#include "tuner/compile/compiler.h"
#include "tuner/worker/harness.h"

TEST_CASE("the harness compiles for every known architecture, without spilling") {
  for (const std::string& architecture : moetune::known_architectures()) {
    if (kSanitized && architecture != "sm_90a") continue;
    CAPTURE(architecture);
    const moetune::Compiler compiler({.architecture = architecture});
    const moetune::Build build = compiler.compile({moetune::Harness::kSource, {}});
    REQUIRE_MESSAGE(build.outcome == moetune::Outcome::ok, build.message);
    for (const char* entry :
         {"moetune_fill", "moetune_fill_zipf", "moetune_fill_list", "moetune_poison", "moetune_widen",
          "moetune_compare", "moetune_compare_integers", "moetune_compare_segments", "moetune_check_guards",
          "moetune_checksum", "moetune_hold", "moetune_shift_columns", "moetune_produce", "moetune_canary"}) {
      CAPTURE(entry);
      REQUIRE(build.entries.contains(entry));
      CHECK(build.entries.at(entry).spill_store_bytes == 0);
    }
  }
}
