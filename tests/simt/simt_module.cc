#include "tests/simt/simt_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/digest.h"
#include "base/format.h"
#include "tests/paths.h"
#include "tests/simt/simt_device.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {
namespace {

namespace fs = std::filesystem;

// Without contraction, as nothing else says where a product and a sum become one. NVRTC's C++ has no strict
// aliasing, and neither has what it compiles. An access that is not aligned as its type asks, or that is past the
// end of a local array, ends in SIGILL or SIGTRAP. Most programs run for less time than -O1 takes to compile them.
constexpr const char* kFlags =
    "-std=c++20 -O0 -fPIC -w -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -fwrapv "
    "-fno-stack-protector -fno-math-errno -fmax-errors=20 -fsanitize=alignment,bounds "
    "-fsanitize-undefined-trap-on-error";

struct SourceFolder : TemporaryFolder {
  SourceFolder() { fs::create_directory_symlink(paths::source(), path() / "source"); }
};

std::string translation_unit(const CompileUnit& unit, const std::set<std::string>& entries) {
  std::string text = "#include \"simt.h\"\n";
  for (const auto& [name, value] : unit.defines) text += "#define " + name + " " + value + "\n";
  text += "#include \"" + unit.source + "\"\nSIMT_MODULE(";
  for (const std::string& entry : entries) {
    text += entry == *entries.begin() ? "" : ", ";
    if (entry.starts_with('&')) {
      text += "SIMT_VARIABLE(" + entry.substr(1) + ")";
      continue;
    }
    const auto instance =
        std::ranges::find_if(unit.instances, [&](const std::string& one) { return one.starts_with(entry + "<"); });
    text += "SIMT_ENTRY(" + entry + ", " + (instance != unit.instances.end() ? *instance : entry) + ")";
  }
  return text + ")\n";
}

// What the command printed; sets `status` to what it ended with.
std::string output_of(const std::string& command, int& status) {
  std::FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) throw SimtError("cannot start " + command);
  std::string text;
  std::array<char, 4096> part;
  for (std::size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), n);
  status = ::pclose(pipe);
  return text;
}

// NAME.cc in the folder becomes NAME.so there. The compiler works in the folder, on bare names, and does not link, so
// that a launcher (ccache) knows the same text again in the next process, and in another clone.
void compile(const CompileUnit& unit, const fs::path& folder, const std::string& name) {
  const std::string compiler = shell_word(MOETUNE_HOST_COMPILER), launcher = MOETUNE_HOST_COMPILER_LAUNCHER;
  const std::string compiling = compiler + " -x c++ " + kFlags + " -iquote source/tests/simt/device" +
                                " -iquote source -c -o " + name + ".o " + name + ".cc",
                    linking = compiler + " " + MOETUNE_HOST_LINKER + " -shared -o " + name + ".so " + name + ".o",
                    there = "cd " + shell_word(folder) + " && ";
  int status = 1;
  if (!launcher.empty()) output_of(there + shell_word(launcher) + " " + compiling + " && " + linking, status);
  if (status == 0) return;
  // Without the launcher, whose own troubles are nobody's mistake here.
  const std::string text = output_of(there + compiling + " && " + linking, status);
  if (status != 0) throw SimtError(unit.source + " does not compile for the CPU:\n" + text);
}

}  // namespace

simt::Module load_module(const CompileUnit& unit, const std::set<std::string>& entries, const simt::Runtime* runtime) {
  static const SourceFolder folder;
  static std::map<std::string, simt::Module> loaded;
  const std::string text = translation_unit(unit, entries), name = digest(text);
  if (const auto found = loaded.find(name); found != loaded.end()) return found->second;
  const fs::path library = folder.path() / (name + ".so");
  std::ofstream(folder.path() / (name + ".cc")) << text;
  compile(unit, folder.path(), name);
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw SimtError(unit.source + " cannot be loaded: " + ::dlerror());
  using Attach = simt::Module(const simt::Runtime*);
  auto* attach = reinterpret_cast<Attach*>(::dlsym(handle, "simt_attach"));
  if (attach == nullptr) throw SimtError(unit.source + " has no way in: " + ::dlerror());
  return loaded.emplace(name, attach(runtime)).first->second;
}

}  // namespace moetune::testing
