// Where the tests find the project's files and what the build made for them. In functions, so that no other test file
// is compiled with a path, and a compiler cache serves every clone.
#pragma once

#include <string>

namespace paths {

// A file or folder below the project's, or that itself.
std::string source(const std::string& below = "");

// What each room may include, as CMakeLists.txt says.
const char* arrows();

// The stand-ins of tests/fake_cuda and tests/fake_nvrtc.
const char* fake_libcuda();
const char* fake_libnvml();
const char* fake_nvtx();
const char* fake_nvrtc();
// The library of tests/cli/no_locks.cc.
const char* no_locks();

// bench/serving_loop; "" in a build without benchmarks.
const char* serving_loop();

}  // namespace paths
