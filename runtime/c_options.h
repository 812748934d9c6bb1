// Checks the options that a caller in C gives to moetune_open. Thread-safe.
#pragma once

#include <string>

#include "include/moetune.h"
#include "runtime/runtime.h"

namespace moetune {

// Throws RuntimeError (invalid_argument), naming what is null.
template <typename Type>
Type& required(Type* pointer, const char* name) {
  if (pointer != nullptr) return *pointer;
  throw RuntimeError(MOETUNE_INVALID_ARGUMENT, std::string(name) + " is null");
}

// Throws RuntimeError for options of a size that no version has, or with fields that this one would ignore.
OpenOptions options_of(const moetune_open_options* all);

}  // namespace moetune
