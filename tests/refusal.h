// The sentence with which something is refused; "" if it is not.
#pragma once

#include <string>

#include "base/error.h"

namespace moetune {

template <typename Error = BadInput, typename Work>
std::string refusal_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace moetune
