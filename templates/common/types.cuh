// Integer names and small compile-time arithmetic for templates: NVRTC has no <cstdint>.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

static_assert(sizeof(i64) == 8 && sizeof(u32) == 4, "the host lays out kernel parameters by these sizes");

template <typename T>
__host__ __device__ constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <typename T>
__host__ __device__ constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

template <typename T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <typename A, typename B>
constexpr bool kIsSame = false;
template <typename A>
constexpr bool kIsSame<A, A> = true;

template <bool kFirst, typename First, typename Second>
struct ChoiceOf {
  using Type = First;
};
template <typename First, typename Second>
struct ChoiceOf<false, First, Second> {
  using Type = Second;
};
// First if kFirst, else Second.
template <bool kFirst, typename First, typename Second>
using Either = typename ChoiceOf<kFirst, First, Second>::Type;

constexpr int kWarpSize = 32;
constexpr u32 kWholeWarp = 0xffffffffu;

// -inf as a value that constant folding understands.
__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// The first value of a running maximum. Finite, so that 2^(x - maximum) is 0 or 1 but never NaN before the first
// value.
__device__ __forceinline__ constexpr float lowest() { return -3.0e38f; }

// The 32-bit address of a shared-memory object, as PTX wants it.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ uint4 load_shared(u32 address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
