// Barriers and the collectives of a warp. Each lane takes what it needs from what all lanes in the mask gave.
#pragma once

#include "simt_types.h"

inline void __syncthreads() { simt::runtime->barrier("__syncthreads", 0, 0, 0); }
inline int __syncthreads_count(int value) { return simt::runtime->barrier("__syncthreads_count", 0, 0, value).nonzero; }
inline int __syncthreads_or(int value) { return simt::runtime->barrier("__syncthreads_or", 0, 0, value).nonzero != 0; }
inline int __syncthreads_and(int value) {
  const simt::BarrierResult result = simt::runtime->barrier("__syncthreads_and", 0, 0, value);
  return result.nonzero == result.threads;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { simt::runtime->exchange("__syncwarp", mask, 0); }

namespace simt {

template <typename T>
unsigned long long to_word(T value) {
  static_assert(sizeof(T) <= 8);
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  return word;
}

template <typename T>
T from_word(unsigned long long word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

// What lane `source` gave; of a lane that the mask does not name CUDA leaves it open: poison.
template <typename T>
T from_lane(const Snapshot* all, unsigned source) {
  return from_word<T>(all->mask >> source & 1 ? all->values[source] : 0xcdcdcdcdcdcdcdcdull);
}

template <typename T>
T shuffle(const char* what, unsigned mask, T value, unsigned source, bool valid) {
  const Snapshot* all = runtime->exchange(what, mask, to_word(value));
  return valid ? from_lane<T>(all, source) : value;
}

// Folds what the lanes in the mask gave.
template <typename T, typename Fold>
T reduce(const char* what, unsigned mask, T value, Fold fold) {
  const Snapshot* all = runtime->exchange(what, mask, to_word(value));
  unsigned left = mask;
  T result = from_lane<T>(all, __builtin_ctz(left));
  for (left &= left - 1; left != 0; left &= left - 1) result = fold(result, from_lane<T>(all, __builtin_ctz(left)));
  return result;
}

}  // namespace simt

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = simt::current->lane, first = lane & ~(width - 1);
  return simt::shuffle("__shfl_sync", mask, value, first | (source & (width - 1)), true);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  const unsigned lane = simt::current->lane, source = lane ^ distance;
  // A lane of an earlier group of `width` may be read, one of a later group not.
  return simt::shuffle("__shfl_xor_sync", mask, value, source & 31, source < (lane & ~(width - 1)) + width);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const unsigned lane = simt::current->lane, within = lane & (width - 1);
  return simt::shuffle("__shfl_up_sync", mask, value, (lane - distance) & 31, distance <= within);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const unsigned lane = simt::current->lane, within = lane & (width - 1);
  return simt::shuffle("__shfl_down_sync", mask, value, (lane + distance) & 31, within + distance < unsigned(width));
}

inline unsigned __ballot_sync(unsigned mask, int value) {
  const simt::Snapshot* all = simt::runtime->exchange("__ballot_sync", mask, value != 0);
  unsigned result = 0;
  for (unsigned left = mask; left != 0; left &= left - 1)
    result |= unsigned(all->values[__builtin_ctz(left)] != 0) << __builtin_ctz(left);
  return result;
}

inline int __any_sync(unsigned mask, int value) {
  return simt::reduce("__any_sync", mask, value != 0, [](bool a, bool b) { return a || b; });
}

inline int __all_sync(unsigned mask, int value) {
  return simt::reduce("__all_sync", mask, value != 0, [](bool a, bool b) { return a && b; });
}

// The lanes that gave the same bits.
template <typename T>
unsigned __match_any_sync(unsigned mask, T value) {
  const unsigned long long mine = simt::to_word(value);
  const simt::Snapshot* all = simt::runtime->exchange("__match_any_sync", mask, mine);
  unsigned result = 0;
  for (unsigned left = mask; left != 0; left &= left - 1)
    result |= unsigned(all->values[__builtin_ctz(left)] == mine) << __builtin_ctz(left);
  return result;
}

template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  const unsigned long long mine = simt::to_word(value);
  const simt::Snapshot* all = simt::runtime->exchange("__match_all_sync", mask, mine);
  *all_equal = 1;
  for (unsigned left = mask; left != 0; left &= left - 1)
    if (all->values[__builtin_ctz(left)] != mine) *all_equal = 0;
  return *all_equal ? mask : 0;
}

// Which lanes run together is the hardware's choice; here every lane runs alone.
inline unsigned __activemask() { return 1u << simt::current->lane; }

template <typename T>
T __reduce_add_sync(unsigned mask, T value) {
  return simt::reduce("__reduce_add_sync", mask, value, [](T a, T b) { return a + b; });
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value) {
  return simt::reduce("__reduce_max_sync", mask, value, [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value) {
  return simt::reduce("__reduce_min_sync", mask, value, [](T a, T b) { return b < a ? b : a; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return simt::reduce("__reduce_or_sync", mask, value, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return simt::reduce("__reduce_and_sync", mask, value, [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return simt::reduce("__reduce_xor_sync", mask, value, [](unsigned a, unsigned b) { return a ^ b; });
}
