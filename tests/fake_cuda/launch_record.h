// A launch as fakeRecordLaunches writes it down: see README.md.
#pragma once

#include <array>

namespace fake_cuda {

struct LaunchRecord {
  std::array<char, 32> kernel;                   // its entry's name, ended by a null
  void* stream;                                  // the handle
  long thread;                                   // that launched it, as gettid has it
  std::array<unsigned, 3> grid, block, cluster;  // the cluster: zeros if none was named
  unsigned dynamic_shared;                       // bytes
  bool overlaps;                                 // may start before the one in front has ended
};

}  // namespace fake_cuda
