#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/environment.h"
#include "base/error.h"
#include "base/lists.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/compile_job.h"
#include "kernels/entry_name.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

class CompileCommand : public Command {
 public:
  std::string_view name() const override { return "compile"; }
  std::string_view summary() const override { return "compile one configuration, and show what ptxas says; no GPU"; }
  std::string_view details() const override {
    return "Nothing is stored. The exit code is 1 if it does not compile, or if the architecture cannot launch\n"
           "it. --sass needs nvdisasm, which CUDA toolkits have.\n";
  }
  void declare(OptionTable& table) override {
    declare_workload(table, request_.workload, true);
    table.text("config", "CONFIG", request_.config, "tile=64,stages=3,...: over the default");
    table.text("arch", "SM", request_.architecture, "the architecture to compile for: sm_80, sm_89, …");
    table.flag("log", log_, "print the whole log of the compiler");
    table.flag("sass", sass_, "print the machine code");
    table.text("cubin", "FILE", cubin_, "write the cubin here; a file that is there stays");
  }
  int run(Output& output, std::stop_token) override;

 private:
  CompileRequest request_;
  std::optional<std::string> cubin_;
  bool log_ = false, sass_ = false;
};

// A file of a fresh name, gone with this object.
class TemporaryFile {
 public:
  TemporaryFile() : path_((fs::temp_directory_path() / "moetune-XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) throw BrokenEnvironment(path_ + ": no temporary file can be made");
    std::fclose(fdopen(file, "w"));
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_bytes(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw BrokenEnvironment(path + " could not be written");
}

std::string find_nvdisasm() {
  const char* const path = environment_variable("PATH");
  std::string folders = path != nullptr ? path : "";
  if (const char* home = environment_variable("CUDA_HOME")) folders += std::string(":") + home + "/bin";
  folders += ":/usr/local/cuda/bin";
  for (const std::string_view folder : split(folders, ':')) {
    const fs::path program = fs::path(folder) / "nvdisasm";
    std::error_code error;
    if (program.is_absolute() && fs::is_regular_file(program, error)) return program.string();
  }
  throw BrokenEnvironment(
      "--sass needs nvdisasm, which is neither on PATH nor in /usr/local/cuda/bin; --cubin FILE "
      "writes the cubin for one elsewhere");
}

std::string disassembled(const std::vector<std::uint8_t>& cubin) {
  const std::string program = find_nvdisasm();
  const TemporaryFile file;
  write_bytes(file.path(), cubin);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen((shell_word(program) + " -c " + file.path() + " 2>&1").c_str(), "r"), pclose);
  if (pipe == nullptr) throw BrokenEnvironment(program + " could not be started");
  std::string text;
  char part[4096];
  for (std::size_t size; (size = std::fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, size);
  return text;
}

void print(const CompileResult& result, const Output& output) {
  Table head({});
  head.add({"problem", result.problem});
  head.add({"config", result.config.text()});
  head.add({"for", result.architecture + ", " + result.toolchain});
  if (!result.illegal.empty()) head.add({"not legal", result.illegal});
  if (result.build.outcome != Outcome::ok) {
    head.add({"failed", result.build.message});
  } else {
    head.add({"cubin",
              bytes_text(static_cast<double>(result.build.cubin.size())) + format(" in %.1f s", result.build.seconds)});
    head.add({"launch", result.unlaunchable.empty() ? "possible" : "impossible: " + result.unlaunchable});
  }
  output.result() << result.kernel << "\n" << head.text("  ", output.columns());
  if (result.build.outcome != Outcome::ok) return;
  Table table({"entry", "registers", "spills", "stack", "static shared", "dynamic shared", "block", "grid"},
              {1, 2, 3, 4, 5, 6, 7});
  const auto extent = [](const Dim3& size) { return format("%u×%u×%u", size[0], size[1], size[2]); };
  for (const Launch& launch : result.plan.launches) {
    const auto found = find_entry(result.build.entries, launch.entry.view());
    if (found == result.build.entries.end()) continue;
    const EntryFacts& facts = found->second;
    table.add({found->first, std::to_string(facts.registers),
               format("%d B", facts.spill_store_bytes + facts.spill_load_bytes), format("%d B", facts.stack_bytes),
               bytes_text(static_cast<double>(facts.static_shared)), bytes_text(launch.dynamic_shared),
               extent(launch.block), extent(launch.grid)});
  }
  output.result() << "\n" << table.text("  ", output.columns());
  for (const auto& [entry, facts] : result.build.entries) {
    if (!facts.serialized.empty())
      output.result() << "  " << entry << ": wgmma is serialized due to " << facts.serialized
                      << "; a search prunes it\n";
  }
}

int CompileCommand::run(Output& output, std::stop_token stop) {
  if (sass_) find_nvdisasm();  // before the compiler is waited for
  if (cubin_ && fs::exists(*cubin_)) throw BadInput("--cubin: " + *cubin_ + " is there already; name a new file");
  const CompileResult result = compile(request_, stop);
  const bool compiled = result.build.outcome == Outcome::ok;
  print(result, output);
  if (log_ || !compiled) output.result() << "\n" << result.build.log << "\n";
  Document document = compile_document(result);
  if (compiled && cubin_) write_bytes(*cubin_, result.build.cubin);
  if (compiled && sass_) {
    const std::string sass = disassembled(result.build.cubin);
    output.result() << "\n" << sass;
    document["sass"] = sass;
  }
  output.document(document);
  return compiled && result.unlaunchable.empty() ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_compile_command() { return std::make_unique<CompileCommand>(); }

}  // namespace moetune
