#include <optional>

#include "base/lists.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

class KernelsCommand : public Command {
 public:
  std::string_view name() const override { return "kernels"; }
  std::string_view summary() const override { return "list what there is to tune: kernels, shapes, parameters"; }
  void declare(OptionTable& table) override { table.positional("KERNEL", kernel_, false, "show this one in full"); }
  int run(Output& output, std::stop_token) override;

 private:
  std::optional<std::string> kernel_;
};

std::string range_text(const Dimension& dimension) {
  if (dimension.names.empty()) {
    return std::to_string(dimension.minimum) + ".." + std::to_string(dimension.maximum);
  }
  return joined(dimension.names);
}

std::string preset_text(const Preset& preset) {
  return joined(preset.dims, ",", [](const auto& dim) { return dim.first + "=" + dim.second; });
}

Document dimension_document(const Dimension& dimension) {
  Document document = {{"name", dimension.name}, {"doc", dimension.doc}};
  if (dimension.names.empty()) {
    document["default"] = dimension.default_value.number;
    document["minimum"] = dimension.minimum;
    document["maximum"] = dimension.maximum;
  } else {
    document["default"] = dimension.default_value.name;
    document["choices"] = dimension.names;
  }
  return document;
}

Document parameter_document(const Parameter& parameter) {
  Document values = Document::array();
  for (const Value& value : parameter.values) {
    values.push_back(value.is_named() ? Document(value.name) : Document(value.number));
  }
  return {{"name", parameter.name}, {"doc", parameter.doc}, {"values", values}};
}

Document kernel_document(const Kernel& kernel) {
  Document document = {{"kernel", kernel.name()},
                       {"summary", kernel.summary()},
                       {"dimensions", Document::array()},
                       {"presets", Document::array()},
                       {"parameters", Document::array()}};
  for (const Dimension& dimension : kernel.schema()) document["dimensions"].push_back(dimension_document(dimension));
  for (const Preset& preset : kernel.presets()) {
    Document dims = Document::object();
    for (const auto& [name, value] : preset.dims) dims[name] = value;
    document["presets"].push_back({{"name", preset.name}, {"doc", preset.doc}, {"dimensions", dims}});
  }
  const Space space = load_space(kernel.name());
  for (const Parameter& parameter : space.parameters()) {
    document["parameters"].push_back(parameter_document(parameter));
  }
  return document;
}

void print_kernel(const Kernel& kernel, const Output& output) {
  std::ostream& out = output.result();
  const std::size_t columns = output.columns();
  out << paragraph(kernel.name() + ": " + kernel.summary(), columns) << "\nDimensions (--problem)\n";
  Table dimensions({"name", "default", "range", ""}, {1});
  for (const Dimension& d : kernel.schema()) dimensions.add({d.name, d.default_value.text(), range_text(d), d.doc});
  out << dimensions.text("  ", columns);

  if (!kernel.presets().empty()) {
    out << "\nPresets (--preset)\n";
    Table presets({"name", "sets", ""});
    for (const Preset& preset : kernel.presets()) presets.add({preset.name, preset_text(preset), preset.doc});
    out << presets.text("  ", columns);
  }
  out << "\nParameters (what a search varies; `moetune space " << kernel.name() << "` counts them)\n";
  Table parameters({"name", "values", ""});
  const Space space = load_space(kernel.name());
  for (const Parameter& p : space.parameters()) parameters.add({p.name, joined(p.values, ", ", &Value::text), p.doc});
  out << parameters.text("  ", columns);
}

int KernelsCommand::run(Output& output, std::stop_token) {
  if (kernel_) {
    const Kernel& kernel = find_kernel(*kernel_);
    print_kernel(kernel, output);
    output.document(kernel_document(kernel));
    return kDone;
  }
  Table table({"kernel", "presets", ""}, {1});
  Document kernels = Document::array();
  for (const Kernel* kernel : all_kernels()) {
    table.add({kernel->name(), std::to_string(kernel->presets().size()), kernel->summary()});
    kernels.push_back(kernel_document(*kernel));
  }
  output.result() << table.text("", output.columns())
                  << "\n`moetune kernels KERNEL` shows dimensions, presets and parameters.\n";
  Document broken = Document::array();
  for (const BrokenKernel& one : broken_kernels()) {
    output.warn("moetune: " + one.folder + " is left out: " + one.reason);
    broken.push_back({{"folder", one.folder}, {"reason", one.reason}});
  }
  output.document({{"kernels", kernels}, {"broken", broken}});
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_kernels_command() { return std::make_unique<KernelsCommand>(); }

}  // namespace moetune
