// make_fake_cache FILE [KERNEL:]PROBLEM...: a cache of winners for the scripted driver, for programs that are tested
// from outside (tests/examples, bench). The kernel is decode_attention if none is named.
#include <cstdio>

#include "tests/runtime/fake_cache.h"

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: make_fake_cache FILE [KERNEL:]PROBLEM...\n"), 2;
  std::vector<moetune::testing::FakeWinner> winners;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos)
      winners.push_back({.problem = text});
    else
      winners.push_back({.problem = text.substr(colon + 1), .config = "", .kernel = text.substr(0, colon)});
  }
  moetune::testing::store(argv[1], winners);
  return 0;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
