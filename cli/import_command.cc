#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "base/resources.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "replay/compressed_file.h"
#include "replay/kernel_import.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

class ImportCommand : public Command {
 public:
  std::string_view name() const override { return "import"; }
  std::string_view summary() const override { return "make a kernel.json of another tuner's description or results"; }
  std::string_view details() const override {
    return "FILE is a T1 description (the benchmark hub's, KTT's), from which parameters, conditions, arguments and "
           "the launch are taken, a CUDA source with Kernel Launcher's #pragma kernel, or results of Kernel Tuner, KTT "
           "or T4, which hold parameters alone. Restrictions stay as they are written. Writes KERNEL/kernel.json, "
           "and the source beside it if it is there; a folder that is there already is never changed.\n";
  }
  void declare(OptionTable& table) override {
    table.positional("FILE", file_, true, "a description, an annotated source, or results, plain or compressed");
    table.text("to", "FOLDER", folder_, "where KERNEL is written");
  }
  int run(Output& output, std::stop_token) override;

 private:
  std::string file_, folder_ = "kernels";
};

// Copies the source if it is a file at or below the folder of the description; nullopt if it is not there.
std::optional<fs::path> copy_source(const ImportedKernel& kernel, const fs::path& from, const fs::path& to) {
  constexpr std::size_t kMostSource = std::size_t{16} << 20;
  if (kernel.source.empty() || leaves_folder(kernel.source)) return std::nullopt;
  const std::optional<std::string> text = find_regular_file(from.parent_path() / kernel.source, kMostSource);
  if (!text) return std::nullopt;
  const fs::path copied = to / (kernel.name + ".cu");
  replace_file(copied, *text);
  return copied;
}

int ImportCommand::run(Output& output, std::stop_token) {
  ImportedKernel kernel = import_kernel(read_whole_file(file_), file_);
  const fs::path folder = fs::path(folder_) / kernel.name, file = folder / "kernel.json";
  std::error_code failed;
  if (fs::exists(folder, failed))
    throw BadInput("--to: " + folder.string() + " is there already; name another folder, or remove it");
  fs::create_directories(folder, failed);
  if (failed) throw BadInput("--to: cannot make " + folder.string() + ": " + failed.message());
  replace_file(file, kernel.description.dump(1) + "\n");
  std::optional<fs::path> source;
  if (kernel.wrapper.empty()) {
    source = copy_source(kernel, file_, folder);
  } else {
    source = folder / (kernel.name + ".cu");
    const std::string annotated = kernel.name + "_annotated.cu";
    replace_file(folder / annotated, read_whole_file(file_));
    replace_file(*source, kernel.wrapper + "#include \"" + annotated + "\"\n");
  }
  if (!source && kernel.has_launch)
    kernel.left_out.push_back("put its source (" + kernel.source + ") into " +
                              (folder / (kernel.name + ".cu")).string());
  std::ostream& out = output.result();
  out << file.string() << "\n  " << count_text(static_cast<double>(kernel.legal)) << " legal configurations of "
      << count_text(kernel.cartesian) << "\n";
  for (const std::string& sentence : kernel.left_out) out << "  " << sentence << "\n";
  if (!kernel.unfinished.empty()) out << "  not yet a kernel that can be tuned: " << kernel.unfinished << "\n";
  output.document({{"kernel", kernel.name},
                   {"file", file.string()},
                   {"source", source ? Document(source->string()) : Document(nullptr)},
                   {"cartesian", kernel.cartesian},
                   {"legal", kernel.legal},
                   {"left_out", kernel.left_out},
                   {"unfinished", text_or_null(kernel.unfinished)}});
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_import_command() { return std::make_unique<ImportCommand>(); }

}  // namespace moetune
