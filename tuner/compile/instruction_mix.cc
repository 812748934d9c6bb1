#include "tuner/compile/instruction_mix.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace moetune {
namespace {

constexpr std::size_t kInstructionBytes = 16;
constexpr std::size_t kOpcodes = 512;
constexpr std::uint64_t kNop = 0x118;
constexpr std::uint64_t kNever =
    0xf000;  // predicate !PT: ptxas puts three such loads before an LDGSTS on sm_90
constexpr unsigned kFirstCompared = 80;
constexpr unsigned kSecondCudaAbi =
    8;  // from it on the architecture is the second byte of e_flags, not the first

using Bytes = std::span<const std::uint8_t>;

enum class Kind : std::uint8_t { other, tensor, shared, special };
constexpr std::size_t kKinds = 4;

constexpr std::array<Kind, kOpcodes> kKindOf = [] {
  std::array<Kind, kOpcodes> kinds{};
  const auto set = [&](Kind kind, std::initializer_list<std::size_t> opcodes) {
    for (const std::size_t opcode : opcodes) kinds[opcode] = kind;
  };
  set(Kind::tensor, {0x037, 0x03c, 0x03d, 0x03f,    // IMMA HMMA BMMA DMMA
                     0x07a, 0x07f,                  // QMMA OMMA
                     0x1f0, 0x1f1, 0x1f2, 0x1f3,    // HGMMA IGMMA BGMMA QGMMA
                     0x1ea});                       // UTCHMMA and its like
  set(Kind::shared, {0x184, 0x188, 0x03b, 0x044});  // LDS STS LDSM STSM
  set(Kind::special, {0x108});                      // MUFU
  return kinds;
}();

std::optional<Bytes> part(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

// A copy, as nothing aligns what a file holds.
template <typename T>
std::optional<T> read(Bytes bytes, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::optional<Bytes> from = part(bytes, offset, sizeof(T));
  if (!from) return std::nullopt;
  T value;
  std::memcpy(&value, from->data(), sizeof value);
  return value;
}

bool is_compared(const Elf64_Ehdr& header) {
  const unsigned char* const ident = header.e_ident;
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_CLASS] != ELFCLASS64 ||
      ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_CUDA ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    return false;
  }
  const unsigned shift = ident[EI_ABIVERSION] >= kSecondCudaAbi ? 8 : 0;
  return ((header.e_flags >> shift) & 0xff) >= kFirstCompared;
}

// `name` without the zero that ends it in the file.
bool is_name(Bytes names, std::uint64_t offset, const std::string& name) {
  const std::optional<Bytes> found = part(names, offset, name.size() + 1);
  return found && std::memcmp(found->data(), name.c_str(), name.size() + 1) == 0;
}

std::optional<Bytes> code_of(Bytes cubin, std::string_view entry) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (!header || !is_compared(*header)) return std::nullopt;
  const auto table = part(cubin, header->e_shoff, std::uint64_t{header->e_shnum} * sizeof(Elf64_Shdr));
  if (!table) return std::nullopt;
  const auto named_in = read<Elf64_Shdr>(*table, std::uint64_t{header->e_shstrndx} * sizeof(Elf64_Shdr));
  if (!named_in) return std::nullopt;
  const auto names = part(cubin, named_in->sh_offset, named_in->sh_size);
  if (!names) return std::nullopt;
  const std::string name = ".text." + std::string(entry);
  for (std::uint64_t at = 0; at < table->size(); at += sizeof(Elf64_Shdr)) {
    const auto section = read<Elf64_Shdr>(*table, at);
    if (section->sh_type == SHT_PROGBITS && is_name(*names, section->sh_name, name))
      return part(cubin, section->sh_offset, section->sh_size);
  }
  return std::nullopt;
}

}  // namespace

std::optional<InstructionMix> instruction_mix(Bytes cubin, std::string_view entry) {
  const std::optional<Bytes> code = code_of(cubin, entry);
  if (!code) return std::nullopt;
  std::array<std::int64_t, kKinds> counts{};
  std::int64_t total = 0;
  for (std::size_t at = 0; at + kInstructionBytes <= code->size(); at += kInstructionBytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, code->data() + at, sizeof word);
    const std::uint64_t opcode = word % kOpcodes;
    if (opcode == kNop || (word & kNever) == kNever) continue;
    ++total;
    ++counts[static_cast<std::size_t>(kKindOf[opcode])];
  }
  const auto count = [&](Kind kind) { return counts[static_cast<std::size_t>(kind)]; };
  return InstructionMix{.total = total,
                        .tensor = count(Kind::tensor),
                        .shared = count(Kind::shared),
                        .special = count(Kind::special)};
}

}  // namespace moetune
