#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "jobs/calibrate_job.h"
#include "jobs/compile_job.h"
#include "jobs/session/documents.h"
#include "kernels/limits_json.h"
#include "replay/shipped.h"
#include "tuner/compile/compiler.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {
namespace {

class DevicesCommand : public Command {
 public:
  std::string_view name() const override { return "devices"; }
  std::string_view summary() const override {
    return "list GPUs with their limits and ceilings, the compiler, and recordings";
  }
  std::string_view details() const override {
    return "--calibrate measures each GPU and keeps the figures in the cache: streams that only read, copy, and\n"
           "read and write 8 to 1 and 1 to 8 (of 8 GiB, less on small GPUs), reads from L2, the tensor cores,\n"
           "and the least launch. They are the ceilings that floors and roofline fractions come from. Of the\n"
           "machine it measures copies from and to the host's memory, pinned and pageable, on the GPU's NUMA\n"
           "node and on others, copies to another GPU, and what a launch costs.\n"
           "--topology shows each GPU's NUMA node and what lies between each two: NV18 is 18 NVLinks, PIX one PCIe\n"
           "switch, PXB several, PHB the CPU's PCIe host bridge, NODE several of these on one NUMA node, SYS the\n"
           "link between NUMA nodes, board a common board. What NVML and /sys do not say is '?'.\n";
  }
  void declare(OptionTable& table) override {
    table.flag("calibrate", calibrate_, "measure the ceilings, copies and launches, and keep them");
    table.flag("topology", topology_, "show where GPUs and NUMA nodes are, and nothing else");
    declare_cache(table, cache_);
  }
  int run(Output& output, std::stop_token stop) override;

 private:
  bool calibrate_ = false, topology_ = false;
  CacheChoice cache_;
};

std::string load_text(const std::optional<GpuLoad>& load) {
  if (!load) return "unknown: NVML does not say";
  return format("%d other processes, ", load->foreign_processes) + bytes_text(static_cast<double>(load->free_bytes)) +
         " free";
}

// Unknown figures of the machine are many where it has one node or one GPU, so they take no rows of their own.
void add_ceilings(Table& table, const Ceilings& ceilings) {
  bool knows_machine = false;
  for (const CeilingFigure& figure : kCeilingFigures) {
    const std::optional<double>& value = ceilings.*figure.value;
    knows_machine = knows_machine || (figure.of_machine && value);
    if (value || !figure.of_machine)
      table.add({figure.title, value ? ceiling_text(figure, *value) : "not measured: --calibrate"});
  }
  if (!knows_machine) table.add({"copies, launches", "not measured: --calibrate"});
}

void print_gpu(const DeviceInfo& info, const Ceilings& ceilings, const Output& output) {
  const DeviceLimits& limits = info.limits;
  const HardwareKey& key = info.key;
  Table table({});
  table.add({"architecture", info.architecture});
  table.add({"SMs",
             format("%d at up to %d MHz, %d threads and %s of registers each", limits.sm_count, key.sm_clock_khz / 1000,
                    limits.threads_per_sm, bytes_text(4.0 * static_cast<double>(limits.registers_per_sm)).c_str())});
  table.add({"shared memory", bytes_text(static_cast<double>(limits.shared_per_block)) + " a block, " +
                                  bytes_text(static_cast<double>(limits.shared_per_sm)) + " an SM"});
  table.add({"L2", bytes_text(static_cast<double>(limits.l2_bytes))});
  table.add({"memory", bytes_text(static_cast<double>(limits.memory_bytes)) +
                           format(" at up to %d MHz", key.memory_clock_khz / 1000)});
  table.add({"PCI id", info.pci_bus_id});
  table.add({"UUID", info.uuid});
  table.add({"in use", load_text(info.load)});
  table.add({"driver", key.driver});
  add_ceilings(table, ceilings);
  table.add({"key", key.text()});
  output.result() << info.id << "  " << key.name << "\n" << table.text("  ", output.columns());
}

Document gpu_document(const DeviceInfo& info, const Ceilings& ceilings) {
  Document document = device_document(info);
  document.update(Document(info.limits));
  document["sm_clock_khz"] = info.key.sm_clock_khz;
  document["memory_clock_khz"] = info.key.memory_clock_khz;
  document["foreign_processes"] = info.load ? Document(info.load->foreign_processes) : Document(nullptr);
  document["free_bytes"] = info.load ? Document(info.load->free_bytes) : Document(nullptr);
  for (const CeilingFigure& figure : kCeilingFigures) document[figure.name] = number_or_null(ceilings.*figure.value);
  return document;
}

Document list_recordings(const Output& output) {
  Document documents = Document::array();
  Table table({"recording", "kernel", "problem", "GPU", "recorded"});
  std::string damaged;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    const RecordingHeader& header = shipped.header;
    const std::string name = shipped.name();
    if (!shipped.damage.empty()) {
      damaged += "  " + name + " cannot be read: " + shipped.damage + "\n";
      documents.push_back({{"id", "replay:" + name}, {"error", shipped.damage}});
      continue;
    }
    table.add({name, header.kernel, shown_problem(header.kernel, header.problem, output), header.hardware,
               header.recorded_at});
    documents.push_back({{"id", "replay:" + name},
                         {"kernel", header.kernel},
                         {"problem", header.problem},
                         {"gpu", header.hardware},
                         {"recorded_at", header.recorded_at}});
  }
  if (!documents.empty()) {
    output.result() << "\nRecordings (--device replay:NAME)\n" << table.text("  ", output.columns()) << damaged;
  }
  return documents;
}

// The list is also for finding out what is wrong with a machine: no usual place for a cache, or a damaged one
// there, costs it the ceilings alone.
std::unique_ptr<Cache> open_for_ceilings(const CacheChoice& choice, const Output& output) {
  if (choice.none || (choice.path.empty() && choice.usual.empty() && !Cache::find_default_path())) return nullptr;
  try {
    return open_existing_cache(choice);
  } catch (const BrokenEnvironment& error) {
    if (!choice.path.empty()) throw;
    output.warn(std::string("The measured ceilings are not known: ") + error.what());
    return nullptr;
  }
}

struct FoundCompiler {
  std::string name;      // "nvrtc 13.0.88"
  std::string why_none;  // set if there is none, or if it does not know the architecture
};

FoundCompiler find_compiler(const std::vector<DeviceInfo>& gpus) {
  const std::string architecture = gpus.empty() ? CompileRequest{}.architecture : gpus.front().architecture;
  try {
    return {Compiler({.architecture = architecture}).toolchain(), ""};
  } catch (const BrokenEnvironment& error) {
    return {"", error.what()};
  }
}

// "NV18, no P2P"; "?" for what is unknown.
std::string path_text(const Topology& topology, std::size_t a, std::size_t b) {
  for (const Topology::Pair& pair : topology.pairs) {
    if (pair.from != std::min(a, b) || pair.to != std::max(a, b)) continue;
    return (pair.path.empty() ? "?" : pair.path) + (pair.peer_access ? "" : ", no P2P");
  }
  return "-";
}

std::string number_text(const std::optional<int>& number) { return number ? std::to_string(*number) : "?"; }
Document number_document(const std::optional<int>& number) { return number ? Document(*number) : Document(nullptr); }

void print_topology(const CudaTopology& found, const Output& output) {
  const auto& [list, topology] = found;
  std::vector<std::string> header = {"GPU", "PCI id", "NUMA node", "NVLinks"};
  for (const DeviceInfo& info : list.devices) header.push_back(info.id);
  Table table(header);
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    const Topology::Place& place = topology.places.at(i);
    std::vector<std::string> row = {list.devices[i].id, list.devices[i].pci_bus_id, number_text(place.numa_node),
                                    number_text(place.nvlinks)};
    for (std::size_t j = 0; j < list.devices.size(); ++j) row.push_back(path_text(topology, i, j));
    table.add(row);
  }
  output.result() << table.text("", output.columns());
  for (const NumaNode& node : topology.nodes)
    output.result() << "NUMA node " << node.number << ": CPUs " << node.cpus << "\n";
  if (topology.nodes.empty()) output.result() << "The NUMA nodes of this machine are unknown.\n";
}

Document topology_document(const CudaTopology& found) {
  const auto& [list, topology] = found;
  Document gpus = Document::array(), pairs = Document::array(), nodes = Document::array();
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    Document gpu = device_document(list.devices[i]);
    gpu["numa_node"] = number_document(topology.places.at(i).numa_node);
    gpu["nvlinks"] = number_document(topology.places.at(i).nvlinks);
    gpus.push_back(std::move(gpu));
  }
  for (const Topology::Pair& pair : topology.pairs)
    pairs.push_back({{"from", list.devices.at(pair.from).id},
                     {"to", list.devices.at(pair.to).id},
                     {"path", text_or_null(pair.path)},
                     {"nvlinks", number_document(pair.nvlinks)},
                     {"peer_access", pair.peer_access}});
  for (const NumaNode& node : topology.nodes) nodes.push_back({{"number", node.number}, {"cpus", node.cpus}});
  return {{"gpus", gpus}, {"why_none", text_or_null(list.why_empty)}, {"pairs", pairs}, {"numa_nodes", nodes}};
}

int show_topology(Output& output) {
  const CudaTopology found = read_cuda_topology();
  if (found.list.devices.empty()) {
    output.result() << paragraph("No GPU here: " + found.list.why_empty, output.columns());
  } else {
    print_topology(found, output);
  }
  output.document(topology_document(found));
  return kDone;
}

int DevicesCommand::run(Output& output, std::stop_token stop) {
  if (topology_ && calibrate_) throw BadInput("--topology measures nothing; leave out --calibrate");
  if (topology_) return show_topology(output);
  const CudaDeviceList gpus = list_cuda_devices();
  if (gpus.devices.empty() && calibrate_) {
    throw BrokenEnvironment("--calibrate needs a GPU, and there is none here: " + gpus.why_empty);
  }
  for (const DeviceInfo& info : gpus.devices) {
    if (!calibrate_ || stop.stop_requested()) break;
    Progress progress(output, {});
    calibrate({.device = info.id, .cache = cache_}, {.events = {.listener = progress.listener()}, .stop = stop});
  }
  const std::unique_ptr<Cache> cache = open_for_ceilings(cache_, output);
  Document documents = Document::array();
  for (const DeviceInfo& info : gpus.devices) {
    const Ceilings ceilings = stored_ceilings(cache.get(), info.key);
    print_gpu(info, ceilings, output);
    documents.push_back(gpu_document(info, ceilings));
  }
  if (gpus.devices.empty()) {
    const std::string found = gpus.broken ? "No GPU can be used: " : "No GPU here: ";
    output.result() << paragraph(found + gpus.why_empty, output.columns());
  }
  const FoundCompiler compiler = find_compiler(gpus.devices);
  output.result() << (compiler.why_none.empty()
                          ? "Compiler: " + compiler.name + "\n"
                          : paragraph("Nothing can be compiled here: " + compiler.why_none, output.columns()));
  const Document recordings = list_recordings(output);
  output.document({{"gpus", documents},
                   {"why_none", gpus.devices.empty() ? Document(gpus.why_empty) : Document(nullptr)},
                   {"compiler", text_or_null(compiler.name)},
                   {"why_no_compiler", text_or_null(compiler.why_none)},
                   {"recordings", recordings}});
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace moetune
