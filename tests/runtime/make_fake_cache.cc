// make_fake_cache FILE PROBLEM...: a cache of winners for the scripted driver, for programs that are tested
// from outside (tests/examples, bench).
#include <cstdio>

#include "tests/runtime/fake_cache.h"

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: make_fake_cache FILE PROBLEM...\n"), 2;
  std::vector<moetune::testing::FakeWinner> winners;
  for (int i = 2; i < argc; ++i) winners.push_back({.problem = argv[i]});
  moetune::testing::store(argv[1], winners);
  return 0;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
