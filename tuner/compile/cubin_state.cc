#include "tuner/compile/cubin_state.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace moetune {
namespace {

using View = std::span<const std::uint8_t>;

constexpr Elf64_Half kCudaMachine = 190;
// Functions that the driver offers to kernels and that keep nothing. On hardware without bulk copies those are such
// calls.
constexpr std::array<std::string_view, 2> kHarmless = {"vprintf", "__assertfail"};
constexpr std::string_view kCopies = "__cuda_syscall_cp_async_bulk";

struct NotElf {};  // thrown within this file

View part(View bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) throw NotElf();
  return bytes.subspan(offset, size);
}

template <typename T>
T record(View bytes, std::uint64_t index) {
  if (index >= bytes.size() / sizeof(T)) throw NotElf();
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
  return value;
}

std::string_view text_at(View table, std::uint64_t offset) {
  if (offset >= table.size()) throw NotElf();
  const View rest = table.subspan(offset);
  const auto end = std::find(rest.begin(), rest.end(), 0);
  if (end == rest.end()) throw NotElf();
  return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(end - rest.begin())};
}

class Elf {
 public:
  explicit Elf(View bytes) : bytes_(bytes) {
    const auto header = record<Elf64_Ehdr>(bytes, 0);
    const bool is_cubin = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                          header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == kCudaMachine &&
                          header.e_shentsize == sizeof(Elf64_Shdr);
    if (!is_cubin || header.e_shnum == 0) throw NotElf();
    const View table = part(bytes, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) sections_.push_back(record<Elf64_Shdr>(table, i));
    names_ = content(section(header.e_shstrndx));
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const Elf64_Shdr& section(std::uint64_t index) const {
    if (index >= sections_.size()) throw NotElf();
    return sections_[index];
  }
  View content(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? View() : part(bytes_, section.sh_offset, section.sh_size);
  }
  std::string_view name(const Elf64_Shdr& section) const { return text_at(names_, section.sh_name); }
  // Device memory that a launch may write and the next one finds: all that is written but a block's own.
  bool is_kept(const Elf64_Shdr& section) const {
    constexpr std::uint64_t kWritten = SHF_ALLOC | SHF_WRITE;
    if ((section.sh_flags & kWritten) != kWritten) return false;
    const std::string_view name = this->name(section);
    return !name.starts_with(".nv.shared.") && !name.starts_with(".nv.local.");
  }

 private:
  View bytes_;
  std::vector<Elf64_Shdr> sections_;
  View names_;
};

bool is_harmless(std::string_view function) {
  return function.starts_with(kCopies) || std::ranges::find(kHarmless, function) != kHarmless.end();
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

// Why one symbol is refused; adds the bytes of state that is larger than a number to `larger`.
std::string why_symbol(const Elf& elf, const Elf64_Sym& symbol, std::string_view name, std::uint64_t& larger) {
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  if (symbol.st_shndx == SHN_UNDEF) {
    if (type != STT_FUNC || is_harmless(name)) return "";
    return "it calls '" + std::string(name) + "' of the device's runtime, which no kernel that is tuned may";
  }
  if (symbol.st_shndx >= SHN_LORESERVE) {
    return type == STT_OBJECT && symbol.st_shndx != SHN_ABS ? "its symbol '" + std::string(name) + "' is in no section"
                                                            : "";
  }
  if (!elf.is_kept(elf.section(symbol.st_shndx)) || symbol.st_size <= kConstantBytes) return "";
  larger = symbol.st_size > UINT64_MAX - larger ? UINT64_MAX : larger + symbol.st_size;
  if (larger <= kStateBytes) return "";
  return "it keeps '" + std::string(name) + "' of " + bytes_text(symbol.st_size) +
         " in device memory from launch to launch; a kernel may keep nothing but in the scratch of its plan"
         " (a table of constants is written as __constant__)";
}

std::string why_sections(const Elf& elf, std::uint64_t constants) {
  std::uint64_t kept = 0;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (!elf.is_kept(section)) continue;
    kept = section.sh_size > UINT64_MAX - kept ? UINT64_MAX : kept + section.sh_size;
  }
  if (kept <= constants) return "";
  return "it keeps " + bytes_text(kept) + " in device memory from launch to launch, and constants may take " +
         bytes_text(constants) + ": write more of them as macros, enumerators or __constant__";
}

}  // namespace

std::string why_stateful(std::span<const std::uint8_t> cubin, std::uint64_t constants) try {
  const Elf elf(cubin);
  std::uint64_t larger = 0;
  bool has_symbols = false;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    has_symbols = true;
    const View symbols = elf.content(section), names = elf.content(elf.section(section.sh_link));
    if (section.sh_entsize != sizeof(Elf64_Sym) || symbols.size() % sizeof(Elf64_Sym) != 0) throw NotElf();
    for (std::uint64_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = record<Elf64_Sym>(symbols, i);
      const std::string reason = why_symbol(elf, symbol, text_at(names, symbol.st_name), larger);
      if (!reason.empty()) return reason;
    }
  }
  if (!has_symbols) throw NotElf();
  return why_sections(elf, constants);
} catch (const NotElf&) {
  return "the compiler's output is no cubin: its ELF file is damaged or of another kind";
}

// Attributes follow one another: format, kind, and a length of what comes behind if the format has one.
std::vector<std::size_t> parameter_bytes(std::span<const std::uint8_t> cubin, std::string_view entry) try {
  constexpr std::uint8_t kHasLength = 4, kParameter = 0x17;
  constexpr std::size_t kHead = 4, kParameterLength = 12;
  const Elf elf(cubin);
  const std::string name = ".nv.info." + std::string(entry);
  std::vector<std::size_t> bytes;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (elf.name(section) != name) continue;
    for (View rest = elf.content(section); rest.size() >= kHead;) {
      const std::size_t length = rest[0] == kHasLength ? record<std::uint16_t>(rest, 1) : 0;
      const View value = part(rest, kHead, length);
      if (rest[1] == kParameter && length == kParameterLength) {
        const std::size_t position = record<std::uint16_t>(value, 2);
        bytes.resize(std::max(bytes.size(), position + 1));
        bytes[position] = record<std::uint32_t>(value, 2) >> 18;
      }
      rest = rest.subspan(kHead + length);
    }
  }
  return bytes;
} catch (const NotElf&) {
  return {};
}

}  // namespace moetune
