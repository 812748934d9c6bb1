// How every benchmark that may fail ends: 0, 2 for a wrong command line or file, 1 for anything else, with
// one line on standard error.
#pragma once

#include <exception>
#include <iostream>

#include "base/error.h"

namespace moetune::bench {

template <typename Run>
int run_main(const char* name, Run run) {
  try {
    run();
    return 0;
  } catch (const BadInput& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace moetune::bench
