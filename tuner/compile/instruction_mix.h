// What a compiled kernel is made of: its machine instructions by kind, read from the cubin without a
// disassembler. A pure function, a few microseconds a cubin.
//
// From sm_70 on an instruction is 128 bits, and the low 9 bits of its first 64-bit word tell the operation
// (the next three tell where an operand comes from). The numbers are undocumented. Those used here were
// compared with nvdisasm 13.5 on sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100a, sm_103a, sm_110a,
// sm_120a and sm_121a, and are the same on all that have the operation; one that means different things on
// different architectures is not counted. On a later architecture a count may mean something else, but the
// same for all of a search.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace moetune {

// Counts of instructions in the code, each once however often it runs.
struct InstructionMix {
  std::int64_t total = 0;    // without padding, and what is predicated never to run
  std::int64_t tensor = 0;   // matrix multiplications: HMMA, IMMA, HGMMA, UTCHMMA and their like
  std::int64_t shared = 0;   // loads and stores of shared memory, those of matrices among them
  std::int64_t special = 0;  // exp2, log2, reciprocals, roots, sines: MUFU
  bool operator==(const InstructionMix&) const = default;
};

// Of the kernel `entry`, and of what it calls only where that was inlined. nullopt where the bytes are no ELF
// file of CUDA, are for an architecture before sm_80, or hold no whole code of that name. Reads nothing
// outside `cubin`, whatever it holds.
std::optional<InstructionMix> instruction_mix(std::span<const std::uint8_t> cubin, std::string_view entry);

}  // namespace moetune
