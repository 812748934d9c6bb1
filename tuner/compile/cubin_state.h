// Finds state that a cubin keeps in device memory from one launch to the next, by the symbols of its ELF file. A
// kernel that can remember can return an old result instead of computing one, so its times mean nothing. moetune's
// own kernels keep state only in the scratch that their plans declare.
//
// Pure; any thread. Reads only within the bytes given, and refuses those that are no cubin.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// NVRTC puts every constexpr of namespace scope into writable global memory and marks none of them as constant. So
// objects as large as one number pass for constants, up to a sum; larger ones may be no more than a few together.
inline constexpr std::uint64_t kConstantBytes = 8, kAllConstantBytes = 1024, kStateBytes = 16;
// The sum, if CUDA's own headers are included: cooperative_groups.h alone has 5,922 bytes of them.
inline constexpr std::uint64_t kToolkitConstantBytes = 16384;

// Why no candidate may be made of a cubin, as one line: more writable global memory than that, a function of the
// device's own runtime beyond printing and assertions (malloc, a launch of kernels), or bytes that are no ELF file. ""
// if it may.
std::string why_stateful(std::span<const std::uint8_t> cubin, std::uint64_t constants = kAllConstantBytes);

// The bytes of each parameter of the entry that has this name in the cubin; empty if the cubin says nothing of them.
std::vector<std::size_t> parameter_bytes(std::span<const std::uint8_t> cubin, std::string_view entry);

}  // namespace moetune
