// Bad input by the name of the field that holds it.
#pragma once

#include <string>

#include "base/error.h"

namespace moetune {

// Returns what `read` does; its BadInput becomes a BadField.
template <typename Read>
auto as_field(const std::string& field, Read&& read) {
  try {
    return read();
  } catch (const BadInput& error) {
    throw BadField(field, error.what());
  }
}

}  // namespace moetune
