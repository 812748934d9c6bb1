#include "tuner/worker/numa.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/format.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSysText = 4096;  // of one of these files, a page of the kernel's
constexpr int kMostNodes = 64, kMostCpus = 8192, kMostPci = 64;

fs::path sysfs() {
  const char* const named = environment_variable("MOETUNE_SYSFS");
  return named != nullptr ? named : "/sys";
}

// The file's text without its end of line; "" if there is none.
std::string text_of(const fs::path& file) {
  try {
    std::string text = find_regular_file(file, kMostSysText).value_or("");
    text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
    return text;
  } catch (const BadInput&) {
    return "";
  }
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

// The numbers of a list of the kernel's, "0-3,8"; empty if it is none, or goes past `most`.
std::vector<int> listed(std::string_view text, int most) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    const std::optional<int> first = whole_number(item.substr(0, dash));
    const std::optional<int> last = dash == std::string_view::npos ? first : whole_number(item.substr(dash + 1));
    if (!first || !last || *last >= most || *first > *last) return {};
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

}  // namespace

std::vector<NumaNode> numa_nodes() {
  std::vector<NumaNode> nodes;
  const fs::path folder = sysfs() / "devices/system/node";
  for (const int number : listed(text_of(folder / "online"), kMostNodes)) {
    std::string cpus = text_of(folder / ("node" + std::to_string(number)) / "cpulist");
    if (!listed(cpus, kMostCpus).empty()) nodes.push_back({number, std::move(cpus)});
  }
  return nodes;
}

std::optional<int> numa_node_of(const std::string& pci_bus_id) {
  std::string name = pci_bus_id;
  const bool is_pci = name.size() < kMostPci && name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
  if (!is_pci || name.find(':') == std::string::npos) return std::nullopt;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return whole_number(text_of(sysfs() / "bus/pci/devices" / name / "numa_node"));  // -1: unknown
}

OnNode::OnNode(const NumaNode& node) : before_(kMostCpus / kWordBits) {
  std::vector<unsigned long> wanted(before_.size());
  for (const int cpu : listed(node.cpus, kMostCpus)) {
    const auto bit = static_cast<std::size_t>(cpu);
    wanted[bit / kWordBits] |= 1ul << bit % kWordBits;
  }
  const std::size_t bytes = before_.size() * sizeof before_[0];
  if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(before_.data())) != 0) return;
  moved_ = sched_setaffinity(0, bytes, reinterpret_cast<const cpu_set_t*>(wanted.data())) == 0;
}

OnNode::~OnNode() {
  if (moved_)
    sched_setaffinity(0, before_.size() * sizeof before_[0], reinterpret_cast<const cpu_set_t*>(before_.data()));
}

// Between two pages that nobody may touch: the system merges no neighbour with it, and /proc lists it by its address.
HostSlab::HostSlab(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t inner = (bytes + page - 1) / page * page;
  void* const mapped = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = mapped;
  mapped_bytes_ = inner + 2 * page;
  std::uint8_t* const begin = static_cast<std::uint8_t*>(mapped) + page;
  if (mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0) return;
  std::memset(begin, 1, inner);
  data_ = {begin, bytes};
}

HostSlab::~HostSlab() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

bool HostSlab::is_on(int node) const {
  std::ifstream maps("/proc/self/numa_maps");
  const std::string address = format("%zx ", reinterpret_cast<std::size_t>(data_.data()));
  for (std::string line; std::getline(maps, line);) {
    if (!line.starts_with(address)) continue;
    const std::size_t first = line.find(" N"), last = line.rfind(" N");
    return first != std::string::npos && first == last && line.substr(first).starts_with(format(" N%d=", node));
  }
  return false;
}

}  // namespace moetune
