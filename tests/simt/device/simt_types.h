// CUDA's vector types with their alignments, and moving bits between types.
#pragma once

namespace simt {

template <typename T>
struct SameAs {
  using Type = T;
};
// A parameter that takes no part in deducing T.
template <typename T>
using Same = typename SameAs<T>::Type;

template <typename To, typename From>
inline __attribute__((always_inline)) To bits_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace simt

#define SIMT_VECTORS(type, name, align2, align4)                              \
  struct name##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct alignas(align2) name##2 {                                            \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(align4) name##4 {                                            \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

SIMT_VECTORS(char, char, 2, 4)
SIMT_VECTORS(unsigned char, uchar, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(unsigned short, ushort, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(unsigned, uint, 8, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(long long, longlong, 16, 16)
SIMT_VECTORS(unsigned long long, ulonglong, 16, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline unsigned __float_as_uint(float value) { return simt::bits_to<unsigned>(value); }
inline int __float_as_int(float value) { return simt::bits_to<int>(value); }
inline float __uint_as_float(unsigned bits) { return simt::bits_to<float>(bits); }
inline constexpr float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline long long __double_as_longlong(double value) { return simt::bits_to<long long>(value); }
inline double __longlong_as_double(long long bits) { return simt::bits_to<double>(bits); }
