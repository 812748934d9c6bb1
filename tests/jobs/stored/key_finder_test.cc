#include "jobs/stored/key_finder.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/jobs/made_up_range.h"
#include "tests/temporary_folder.h"

using namespace moetune;

TEST_CASE("recordings have a key for each problem recorded, and one for a family at any problem of it") {
  const TemporaryFolder folder;
  testing::write_made_up_range(folder.path());
  KeyFinder keys("replay:" + folder.path().string(), true, "retune");
  CHECK(keys.gpu() == nullptr);
  const std::string recorded = testing::made_up_recording(64).problem;
  CHECK(keys.find("router", recorded).problem == recorded);
  CHECK_THROWS_AS(keys.find("router", "tokens=63"), BadInput);
  CHECK(keys.find_family("router", "tokens=63").hardware.origin.starts_with("replay:"));
  CHECK_THROWS_AS(keys.find_family("router", "experts=13,tokens=64"), BadInput);
}
