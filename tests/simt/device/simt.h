// CUDA's built-ins for a template that is compiled for the CPU: tests/simt/simt_module.cc includes this before the
// template, which sees no other header but templates/ and their stand-ins beside this file.
#pragma once

#include <utility>

#include "simt_runtime.h"

namespace simt {

inline const Runtime* runtime = nullptr;
inline const Thread* current = nullptr;  // set at every switch; the same whenever this thread runs

}  // namespace simt

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
// All blocks see the same bytes, which the emulator exchanges when another block's turn comes. `extern __shared__`
// does not compile: dynamic shared memory is dynamic_shared() of templates/common/shared_memory.cuh.
#define __shared__ static __attribute__((section("simt_shared")))
#define __builtin_assume(condition) ((void)0)

#define threadIdx (simt::current->thread)
#define blockIdx (simt::current->block)
#define blockDim (simt::current->block_dim)
#define gridDim (simt::current->grid_dim)
constexpr int warpSize = 32;

#include "simt_types.h"

// These need the types.
#include "simt_atomics.h"
#include "simt_math.h"
#include "simt_warp.h"

inline void __threadfence() { simt::runtime->step(false); }
inline void __threadfence_block() { simt::runtime->step(false); }
inline void __threadfence_system() { simt::runtime->step(false); }
inline void __nanosleep(unsigned) { simt::runtime->yield(); }
inline void __trap() { simt::runtime->fail("__trap"); }
inline void __brkpt() {}

// Time passes by one at each call, and lets the others run.
inline long long clock64() {
  static long long now = 0;
  simt::runtime->yield();
  return ++now;
}
inline long long clock() { return clock64(); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  simt::runtime->step(false);
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldcv(const T* address) {
  simt::runtime->yield();
  return *address;
}
template <typename T>
void __stcs(T* address, simt::Same<T> value) {
  *address = value;
}
template <typename T>
void __stcg(T* address, simt::Same<T> value) {
  *address = value;
}
template <typename T>
void __stwt(T* address, simt::Same<T> value) {
  *address = value;
}

// --- shared memory as PTX addresses it ------------------------------------------------------------------------

// The dynamic part from 0, the static part from 2^30.
extern unsigned char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));

inline std::size_t __cvta_generic_to_shared(const void* pointer) {
  const unsigned char* byte = static_cast<const unsigned char*>(pointer);
  if (byte >= __start_simt_shared && byte < __stop_simt_shared) return byte - __start_simt_shared + (1u << 30);
  return byte - simt::current->dynamic_shared;
}

namespace simt {

inline void* from_shared(unsigned address) {
  return address >> 30 ? __start_simt_shared + (address - (1u << 30)) : current->dynamic_shared + address;
}

// --- the way in -----------------------------------------------------------------------------------------------

template <typename T>
constexpr Parameter parameter_of() {
  if (std::is_pointer_v<T>) return {'p', sizeof(T)};
  if (std::is_integral_v<T>) return {'i', sizeof(T)};
  if (std::is_same_v<T, TensorMap>) return {'m', sizeof(T)};
  return {std::is_floating_point_v<T> ? 'f' : '?', sizeof(T)};
}

template <auto kernel>
struct Invoke;

template <typename... Types, void (*kernel)(Types...)>
struct Invoke<kernel> {
  static constexpr Parameter parameters[sizeof...(Types) + 1] = {parameter_of<Types>()...};

  template <std::size_t... at>
  static void call_at(void* const* arguments, std::index_sequence<at...>) {
    kernel(*static_cast<std::remove_cv_t<Types>*>(arguments[at])...);
  }
  static void call(void* const* arguments) { call_at(arguments, std::index_sequence_for<Types...>()); }

  static constexpr Entry entry(const char* name) { return {name, call, parameters, sizeof...(Types)}; }
};

}  // namespace simt

// Behind the template: SIMT_MODULE(SIMT_ENTRY(decode_kernel, decode_kernel), ...)
#define SIMT_ENTRY(name, ...) simt::Invoke<&__VA_ARGS__>::entry(#name)
#define SIMT_VARIABLE(name) \
  simt::Entry { #name, nullptr, nullptr, sizeof name, (void*)&name }
#define SIMT_MODULE(...)                                                                                           \
  extern "C" __attribute__((visibility("default"))) simt::Module simt_attach(const simt::Runtime* runtime) {       \
    static const simt::Entry entries[] = {__VA_ARGS__};                                                            \
    simt::runtime = runtime;                                                                                       \
    return {entries, sizeof entries / sizeof entries[0], &simt::current, __start_simt_shared, __stop_simt_shared}; \
  }

// PTX in headers that the template includes without using them is dropped; PTX that is used does not assemble,
// or fails when it is reached.
#define asm(...) simt::runtime->fail("inline PTX is not emulated")
#define volatile(...) (".error \"inline PTX is not emulated\"")
