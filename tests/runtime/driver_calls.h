// The scripted driver as another library of the server would call it.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "tests/paths.h"

namespace moetune::testing {

// A function of the driver, or one of tests/fake_cuda/README.md's own. Returns what it does.
template <typename... Arguments>
int call_driver(const char* name, Arguments... arguments) {
  void* const library = ::dlopen(paths::fake_libcuda(), RTLD_NOW);
  REQUIRE(library != nullptr);
  using Find = int (*)(const char*, void**, int, unsigned long, void*);
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  REQUIRE((find != nullptr));
  void* symbol = nullptr;
  REQUIRE(find(name, &symbol, 13000, 0, nullptr) == 0);
  return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
}

}  // namespace moetune::testing
