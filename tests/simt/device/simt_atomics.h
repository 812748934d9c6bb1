// Atomics: no fiber is interrupted within one, so they are plain; others may run after each.
#pragma once

#include "simt_types.h"

namespace simt {

template <typename T, typename Change>
T change(T* address, Change change) {
  const T before = *address;
  *address = change(before);
  runtime->step(*address != before);
  return before;
}

}  // namespace simt

#define SIMT_ATOMIC(name, result)                                     \
  template <typename T>                                               \
  T name(T* address, simt::Same<T> value) {                           \
    return simt::change(address, [=](T old) -> T { return result; }); \
  }                                                                   \
  template <typename T>                                               \
  T name##_block(T* address, simt::Same<T> value) {                   \
    return name(address, value);                                      \
  }                                                                   \
  template <typename T>                                               \
  T name##_system(T* address, simt::Same<T> value) {                  \
    return name(address, value);                                      \
  }

SIMT_ATOMIC(atomicAdd, old + value)
SIMT_ATOMIC(atomicSub, old - value)
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicAnd, old& value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef SIMT_ATOMIC

template <typename T>
T atomicCAS(T* address, simt::Same<T> compare, simt::Same<T> value) {
  return simt::change(address, [=](T old) -> T { return old == compare ? value : old; });
}
