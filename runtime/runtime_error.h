// An error of the runtime, with the status that the C interface returns for it.
#pragma once

#include <stdexcept>
#include <string>

#include "include/moetune.h"

namespace moetune {

class RuntimeError : public std::runtime_error {
 public:
  RuntimeError(moetune_status which, const std::string& text) : std::runtime_error(text), status(which) {}

  moetune_status status;
};

}  // namespace moetune
