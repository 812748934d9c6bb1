// While it lives, this process and its workers find the scripted GPUs of tests/fake_cuda, and the stand-in for NVRTC.
// One at a time.
#pragma once

#include <stdlib.h>

#include <string>

#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {

class ScriptedDriver {
 public:
  explicit ScriptedDriver(const std::string& script) {
    setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    setenv("MOETUNE_NVRTC", paths::fake_nvrtc(), 1);
    setenv("XDG_CACHE_HOME", home_.file("cache").c_str(), 1);  // the GPUs' locks lie there
    play(script);
  }
  ~ScriptedDriver() {
    unsetenv("MOETUNE_LIBCUDA");
    unsetenv("MOETUNE_FAKE_CUDA");
    unsetenv("MOETUNE_NVRTC");
    unsetenv("XDG_CACHE_HOME");
  }
  ScriptedDriver(const ScriptedDriver&) = delete;
  ScriptedDriver& operator=(const ScriptedDriver&) = delete;

  // For workers that start from now on.
  void play(const std::string& script) const { setenv("MOETUNE_FAKE_CUDA", script.c_str(), 1); }

 private:
  TemporaryFolder home_;
};

}  // namespace moetune::testing
