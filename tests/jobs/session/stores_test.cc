#include "jobs/session/stores.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "tests/temporary_folder.h"

using namespace moetune;

TEST_CASE("a cache that is named must be there to be read, the usual one need not") {
  const TemporaryFolder folder;
  const CacheChoice named{.path = folder.file("named.db")}, usual{.path = "", .usual = folder.file("usual.db")};
  CHECK(named.file() == folder.file("named.db"));
  CHECK(usual.file() == folder.file("usual.db"));
  CHECK(open_existing_cache(named) == nullptr);
  CHECK(open_named_cache(usual) == nullptr);
  CHECK_THROWS_AS(open_named_cache(named), BadField);
  std::ofstream(named.file()) << "";  // as another process has just made it
  CHECK(open_named_cache(named) == nullptr);
  CHECK(open_or_create_cache({.path = "", .none = true}) == nullptr);
  CHECK_THROWS_AS(open_or_create_cache({.path = named.path, .none = true}), BadField);
  CHECK(open_or_create_cache(named) != nullptr);
  CHECK(open_named_cache(named) != nullptr);
}
