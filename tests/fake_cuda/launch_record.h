// A launch as fakeRecordLaunches writes it down: see README.md.
#pragma once

#include <array>

namespace fake_cuda {

struct LaunchRecord {
  std::array<char, 32> kernel;  // its entry's name, ended by a null
  void* stream;                 // the handle
  long thread;                  // that launched it, as gettid has it
};

}  // namespace fake_cuda
