// See README.md.
#include <elf.h>
#include <nvrtc.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <regex>
#include <string>
#include <thread>
#include <vector>

struct _nvrtcProgram {
  std::string source, cubin, ptx, log;
};

namespace {

bool holds(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

// Says by a file that it has begun, and goes on once another is there.
void hold(const std::string& file) {
  std::ofstream(file + ".begun") << "x";
  while (!std::ifstream(file)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

template <typename T>
void append(std::string& bytes, const T& record) {
  bytes.append(reinterpret_cast<const char*>(&record), sizeof record);
}

// The kernels that the source itself declares: `extern "C" __global__ void`, bounds or none, and a name.
std::vector<std::string> kernels_of(const std::string& source) {
  static const std::regex declared("extern \"C\" __global__ void(?:\\s+__\\w+__\\([^;{]*?\\))?\\s+(\\w+)\\(");
  std::vector<std::string> names;
  for (std::sregex_iterator it(source.begin(), source.end(), declared), end; it != end; ++it) names.push_back((*it)[1]);
  return names;
}

// The least that is a cubin: an ELF file that names a section for each kernel and has none, the source behind it.
std::string cubin_of(const std::string& source) {
  std::string names(1, '\0');
  for (const std::string& name : kernels_of(source)) names += ".text." + name + '\0';
  names.resize((names.size() + 7) / 8 * 8);
  const std::uint64_t symbols = sizeof(Elf64_Ehdr) + names.size();
  Elf64_Ehdr header = {.e_type = ET_EXEC,
                       .e_machine = 190,
                       .e_shoff = symbols + sizeof(Elf64_Sym),
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 3,
                       .e_shstrndx = 1};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  std::string bytes;
  append(bytes, header);
  bytes += names;
  append(bytes, Elf64_Sym{});
  append(bytes, Elf64_Shdr{});
  append(bytes, Elf64_Shdr{.sh_type = SHT_STRTAB, .sh_offset = sizeof(Elf64_Ehdr), .sh_size = names.size()});
  append(bytes, Elf64_Shdr{.sh_type = SHT_SYMTAB,
                           .sh_offset = symbols,
                           .sh_size = sizeof(Elf64_Sym),
                           .sh_link = 1,
                           .sh_entsize = sizeof(Elf64_Sym)});
  return bytes + source;
}

std::string log_of(const std::string& source) {
  std::string log;
  for (const std::string& name : kernels_of(source))
    log += "ptxas info    : Compiling entry function '" + name +
           "' for 'sm_90a'\nptxas info    : Used 40 registers, used 1 barriers\n";
  return log;
}

void misbehave(const std::string& source) {
  if (holds(source, "abort!")) {
    std::fputs("fake nvrtc: cannot go on\n", stderr);
    std::abort();
  }
  if (holds(source, "segv!")) std::raise(SIGSEGV);
  if (holds(source, "throw!")) throw std::bad_alloc();
  if (holds(source, "hold!")) hold(source.substr(source.find("hold!") + 5));
  while (holds(source, "hang!")) std::this_thread::sleep_for(std::chrono::hours(1));
  std::vector<char*> taken;
  while (holds(source, "grow!")) {
    constexpr std::size_t kPiece = 16 << 20;
    taken.push_back(static_cast<char*>(std::malloc(kPiece)));
    if (taken.back() != nullptr) std::memset(taken.back(), 1, kPiece);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

nvrtcResult size_of(const std::string& text, size_t* size) {
  *size = text.size();
  return NVRTC_SUCCESS;
}

nvrtcResult copy(const std::string& text, char* to) {
  std::memcpy(to, text.data(), text.size());
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(nvrtcResult) { return "a stand-in's error"; }
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 99;
  *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  if (std::getenv("MOETUNE_FAKE_NVRTC_HANGS") != nullptr) misbehave("hang!");
  *count = 3;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  architectures[2] = 100;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  *program = new _nvrtcProgram{source, "", ""};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcAddNameExpression(nvrtcProgram, const char*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  misbehave(program->source);
  bool for_gpu = false;
  for (int i = 0; i < count; ++i) for_gpu |= std::string(options[i]).find("=sm_") != std::string::npos;
  if (for_gpu) {
    program->cubin = cubin_of(program->source);
    program->log = log_of(program->source);
  } else {
    program->ptx = "// Cuda compilation tools, release 99.0, V99.0.1";
  }
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) { return size_of(program->ptx, size); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* to) { return copy(program->ptx, to); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) { return size_of(program->cubin, size); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* to) { return copy(program->cubin, to); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) { return size_of(program->log, size); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* to) { return copy(program->log, to); }

}  // extern "C"
