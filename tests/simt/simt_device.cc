#include "tests/simt/simt_device.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/simt/grid.h"
#include "tests/simt/guarded_memory.h"
#include "tests/simt/simt_module.h"
#include "tests/simt/tensor_box.h"

namespace moetune::testing {
namespace {

constexpr std::uint32_t kMostThreads = 1024, kMostShared = 227 << 10;
constexpr std::uint8_t kScratchPoison = 0xFF;

using Memory = std::map<std::string, GuardedMemory>;

GuardedMemory& sized(Memory& memory, const std::string& name, std::size_t bytes) {
  const auto found = memory.find(name);
  if (found != memory.end() && found->second.bytes().size() == bytes) return found->second;
  memory.erase(name);
  return memory.emplace(name, GuardedMemory(bytes)).first->second;
}

std::string describe(const Memory& memory, const char* kind, const void* address) {
  for (const auto& [name, bytes] : memory) {
    if (bytes.is_near(address))
      return "byte " + std::to_string(static_cast<const std::uint8_t*>(address) - bytes.data()) + " of " + kind + " '" +
             name + "', which has " + std::to_string(bytes.bytes().size());
  }
  return "";
}

void check_intact(const Memory& memory, const char* kind) {
  for (const auto& [name, bytes] : memory) {
    if (!bytes.is_intact())
      throw SimtError(std::string("bytes before the begin or just past the end of ") + kind + " '" + name +
                      "' were written");
  }
}

void check_shape(const Launch& launch) {
  const auto& [x, y, z] = launch.block;
  if (x * y * z == 0 || x * y * z > kMostThreads)
    throw SimtError(launch.entry.text() + ": blocks of " + std::to_string(x * y * z) + " threads");
  if (launch.dynamic_shared > kMostShared)
    throw SimtError(launch.entry.text() + ": " + std::to_string(launch.dynamic_shared) + " bytes of shared memory");
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > simt::Cluster::kMostBlocks)
    throw SimtError(launch.entry.text() + ": clusters of more than " + std::to_string(simt::Cluster::kMostBlocks) +
                    " blocks");
  for (std::size_t d = 0; d < 3; ++d) {
    if (launch.grid[d] % launch.cluster[d] != 0)
      throw SimtError(launch.entry.text() + ": clusters of " + std::to_string(launch.cluster[d]) +
                      " blocks in a grid of " + std::to_string(launch.grid[d]));
  }
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0)
    throw SimtError(launch.entry.text() + ": an empty grid");
}

const simt::Entry& find_entry(const simt::Module& module, const std::string& name) {
  for (int i = 0; i < module.entry_count; ++i) {
    if (module.entries[i].name == name) return module.entries[i];
  }
  throw std::logic_error("the unit was compiled without its entry " + name);
}

}  // namespace

struct SimtDevice::State {
  union Slot {
    void* pointer;
    std::int32_t i32;
    std::int64_t i64;
    float f32;
    simt::TensorMap map;
  };

  State(CompileUnit compiled, SimtOptions chosen)
      : unit(std::move(compiled)), options(chosen), stacks(FiberStacks::of(chosen.stack_bytes)) {}

  void make_scratch(const LaunchPlan& plan);
  void check_counters(const LaunchPlan& plan);
  void fill_buffers(const SimtBuffers& buffers);
  void set(const Memset& memset, const simt::Module& module);
  void hide(bool hidden);
  std::vector<Slot> slots_of(const Launch& launch, const simt::Entry& entry);
  void launch(const Launch& launch, const simt::Module& module);
  std::uint8_t* address(const Name& name, std::int64_t offset);

  CompileUnit unit;
  SimtOptions options;
  FiberStacks& stacks;
  std::set<std::string> entries;
  Memory scratch, buffers;
  SimtBuffers settled;
  bool inputs_are_there = false;  // once the launch in front could begin
};

void SimtDevice::State::make_scratch(const LaunchPlan& plan) {
  for (const Scratch& wanted : plan.scratch) {
    const auto bytes = static_cast<std::size_t>(wanted.bytes);
    const auto found = scratch.find(wanted.name.text());
    if (found != scratch.end() && found->second.bytes().size() == bytes) {
      found->second.make_intact();
      continue;
    }
    const std::span<std::uint8_t> fresh = sized(scratch, wanted.name.text(), bytes).bytes();
    std::fill(fresh.begin(), fresh.end(), wanted.zeroed ? std::uint8_t{0} : kScratchPoison);
  }
}

// Every kernel leaves its counters at zero, so that others may use the same memory after it.
void SimtDevice::State::check_counters(const LaunchPlan& plan) {
  for (const Scratch& counters : plan.scratch) {
    if (!counters.zeroed) continue;
    const std::span<const std::uint8_t> bytes = scratch.at(counters.name.text()).bytes();
    const auto left = std::find_if(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte != 0; });
    if (left != bytes.end())
      throw SimtError("byte " + std::to_string(left - bytes.begin()) + " of scratch '" + counters.name.text() +
                      "' is left at " + std::to_string(*left) + ", not at zero");
  }
}

void SimtDevice::State::fill_buffers(const SimtBuffers& given) {
  std::erase_if(buffers, [&](const auto& item) { return !given.contains(item.first); });
  settled.clear();
  for (const auto& [name, buffer] : given) {
    if (buffer.late()) settled.emplace(name, buffer);
    GuardedMemory& memory = sized(buffers, name, buffer.bytes().size());
    memory.allow_writing(true);
    memory.make_intact();
    std::copy(buffer.bytes().begin(), buffer.bytes().end(), memory.data());
    memory.allow_writing(buffer.is_written());
  }
}

// Of a byte of a buffer or scratch, or just past the last.
std::uint8_t* SimtDevice::State::address(const Name& name, std::int64_t offset) {
  if (name.empty()) return nullptr;
  for (Memory* memory : {&buffers, &scratch}) {
    const auto found = memory->find(name.text());
    if (found == memory->end()) continue;
    const auto size = static_cast<std::int64_t>(found->second.bytes().size());
    if (offset < 0 || offset > size)
      throw SimtError("the plan points to byte " + std::to_string(offset) + " of '" + name.text() + "', which has " +
                      std::to_string(size));
    return found->second.data() + offset;
  }
  throw SimtError("the plan names a buffer '" + name.text() + "', which nobody gave");
}

void SimtDevice::State::set(const Memset& memset, const simt::Module& module) {
  std::uint8_t* begin = address(memset.buffer, memset.offset);
  address(memset.buffer, memset.offset + memset.bytes);
  const auto bytes = static_cast<std::size_t>(memset.bytes);
  if (memset.symbol.empty()) {
    std::memset(begin, memset.value, bytes);
    return;
  }
  const simt::Entry& variable = find_entry(module, memset.symbol.text());
  if (variable.variable == nullptr || bytes > static_cast<std::size_t>(variable.count))
    throw SimtError("the variable '" + memset.symbol.text() + "' has " + std::to_string(variable.count) +
                    " bytes; the plan copies " + std::to_string(bytes) + " to it");
  std::memcpy(variable.variable, begin, bytes);
}

// The values of a launch's arguments, each as the kernel's parameter holds it.
std::vector<SimtDevice::State::Slot> SimtDevice::State::slots_of(const Launch& launch, const simt::Entry& entry) {
  const std::string where = launch.entry.text() + ": ";
  if (static_cast<std::size_t>(entry.count) != launch.arguments.size())
    throw SimtError(where + "takes " + std::to_string(entry.count) + " arguments, the plan has " +
                    std::to_string(launch.arguments.size()));
  std::vector<Slot> slots(launch.arguments.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    const simt::Parameter& parameter = entry.parameters[i];
    const auto expect = [&](char kind, unsigned size) {
      if (parameter.kind != kind || parameter.size != size)
        throw SimtError(where + "argument '" + argument.name.text() + "' does not fit its parameter's type");
    };
    if (const auto* pointer = std::get_if<Pointer>(&argument.value)) {
      expect('p', sizeof(void*));
      slots[i].pointer = address(pointer->buffer, pointer->offset);
    } else if (const auto* i32 = std::get_if<std::int32_t>(&argument.value)) {
      expect('i', 4);
      slots[i].i32 = *i32;
    } else if (const auto* i64 = std::get_if<std::int64_t>(&argument.value)) {
      if (parameter.kind != 'f') expect('i', 8);  // else a double's bits
      slots[i].i64 = *i64;
    } else if (const auto* f32 = std::get_if<float>(&argument.value)) {
      expect('f', 4);
      slots[i].f32 = *f32;
    } else if (const auto* value = std::get_if<StructValue>(&argument.value)) {
      const std::size_t bytes = value->words.size() * sizeof(std::uint64_t);
      if (parameter.kind != '?' || parameter.size > bytes || bytes > sizeof slots[i])
        throw SimtError(where + "argument '" + argument.name.text() + "' does not fit its parameter's type");
      std::memcpy(&slots[i], value->words.data(), bytes);
    } else {
      const TensorMap& map = std::get<TensorMap>(argument.value);
      expect('m', sizeof(simt::TensorMap));
      slots[i].map = encode_for_simt(map, address(map.buffer, map.offset));
    }
  }
  return slots;
}

// What the launch in front may write; of settled buffers that is NaN instead.
void SimtDevice::State::hide(bool hidden) {
  for (Memory* memory : {&buffers, &scratch}) {
    for (auto& [name, bytes] : *memory) {
      const auto found = memory == &buffers ? settled.find(name) : settled.end();
      if (found == settled.end()) {
        bytes.hide(hidden && (bytes.is_writable() || !inputs_are_there));
        continue;
      }
      bytes.allow_writing(true);
      for (const Range& late : *found->second.late()) {
        const auto begin = static_cast<std::size_t>(late.begin), count = static_cast<std::size_t>(late.count);
        if (hidden && !inputs_are_there)
          std::memset(bytes.data() + begin, kScratchPoison, count);
        else
          std::memcpy(bytes.data() + begin, found->second.bytes().data() + begin, count);
      }
      bytes.allow_writing(false);
    }
  }
}

void SimtDevice::State::launch(const Launch& launch, const simt::Module& module) {
  check_shape(launch);
  const simt::Entry& entry = find_entry(module, launch.entry.text());
  std::vector<Slot> slots = slots_of(launch, entry);
  std::vector<void*> arguments;
  for (Slot& slot : slots) arguments.push_back(&slot);
  const auto describe_any = [this](const void* address) {
    const std::string text = describe(buffers, "buffer", address);
    return text.empty() ? describe(scratch, "scratch", address) : text;
  };
  const auto hide_memory = [this](bool hidden) { hide(hidden); };
  const GridLaunch grid{module, &entry, arguments.data(), launch, describe_any, hide_memory};
  Grid run(grid, options, stacks);
  run.run();
  inputs_are_there = !run.allowed_dependents_early();
}

SimtDevice::SimtDevice(CompileUnit unit, SimtOptions options)
    : state_(std::make_unique<State>(std::move(unit), options)) {}

SimtDevice::~SimtDevice() = default;

void SimtDevice::run(const LaunchPlan& plan, const SimtBuffers& buffers) {
  State& state = *state_;
  std::set<std::string> entries = state.entries;
  for (const Launch& launch : plan.launches) entries.insert(launch.entry.text());
  for (const Memset& memset : plan.memsets)
    if (!memset.symbol.empty()) entries.insert("&" + memset.symbol.text());
  const simt::Module module = load_module(state.unit, entries, Grid::runtime());
  state.entries = std::move(entries);
  state.make_scratch(plan);
  state.fill_buffers(buffers);
  state.inputs_are_there = false;
  for (std::uint32_t i = 0; i <= plan.launches.size(); ++i) {
    const bool is_last = i == plan.launches.size();
    for (const Memset& memset : plan.memsets) {
      if (is_last ? memset.before >= i : memset.before == i) state.set(memset, module);
    }
    if (is_last) break;
    state.launch(plan.launches[i], module);
    check_intact(state.buffers, "buffer");
    check_intact(state.scratch, "scratch");
  }
  state.check_counters(plan);
  for (const auto& [name, buffer] : buffers) {
    if (!buffer.is_written()) continue;
    const std::span<std::uint8_t> bytes = state.buffers.at(name).bytes();
    std::copy(bytes.begin(), bytes.end(), buffer.bytes().begin());
  }
}

void SimtDevice::set_seed(std::uint64_t seed) { state_->options.seed = seed; }

void SimtDevice::forget_scratch() { state_->scratch.clear(); }

std::vector<std::uint8_t> SimtDevice::scratch(const std::string& name) const {
  const std::span<std::uint8_t> bytes = state_->scratch.at(name).bytes();
  return {bytes.begin(), bytes.end()};
}

}  // namespace moetune::testing
