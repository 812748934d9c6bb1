// A cubin with the given instructions, for tests of what reads one.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace moetune {

struct MadeUpEntry {
  std::string name;
  std::vector<std::uint64_t> words;  // the first 64 bits of each instruction
};

// Of sm_90a, laid out as the compiler does: header, contents, table of sections.
inline std::vector<std::uint8_t> made_up_cubin(const std::vector<MadeUpEntry>& entries) {
  std::vector<std::uint8_t> bytes(sizeof(Elf64_Ehdr));
  const auto append = [&](const auto& value) {
    bytes.resize(bytes.size() + sizeof value);
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  };
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto begin = [&](const std::string& name, Elf64_Word type) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<Elf64_Word>(names.size());
    section.sh_type = type;
    section.sh_offset = bytes.size();
    names += name + '\0';
    sections.push_back(section);
  };
  for (const MadeUpEntry& entry : entries) {
    begin(".text." + entry.name, SHT_PROGBITS);
    for (const std::uint64_t word : entry.words) {
      append(word);
      append(std::uint64_t{0x000fc800000001ff});
    }
    sections.back().sh_size = bytes.size() - sections.back().sh_offset;
  }
  begin(".shstrtab", SHT_STRTAB);
  sections.back().sh_size = names.size();
  bytes.insert(bytes.end(), names.begin(), names.end());

  Elf64_Ehdr header{};
  const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x41, 8};
  std::memcpy(header.e_ident, ident, sizeof ident);
  header.e_machine = EM_CUDA;
  header.e_flags = 0x6005a04;
  header.e_shoff = bytes.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);
  std::memcpy(bytes.data(), &header, sizeof header);
  for (const Elf64_Shdr& section : sections) append(section);
  return bytes;
}

}  // namespace moetune
