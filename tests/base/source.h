// A file of the repository, as the tests that hold its rules see it.
#pragma once

#include <string>

namespace moetune::testing {

struct Source {
  std::string path;  // from the repository root
  std::string text;
};

}  // namespace moetune::testing
