#include "kernels/described/described_plan.h"

#include <bit>
#include <cstring>

namespace moetune {
namespace {

using Values = BoundFormulas::Values;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 46, kMostThreads = 1 << 20, kMostU32 = 0xFFFFFFFF;

Dim3 dim3_of(const std::vector<Formula>& formulas, Values& values) {
  Dim3 dims{1, 1, 1};
  for (std::size_t i = 0; i < formulas.size(); ++i)
    dims[i] = static_cast<std::uint32_t>(values.within(formulas[i], 1, kMostU32));
  return dims;
}

class DescribedLauncher final : public Launcher {
 public:
  DescribedLauncher(std::shared_ptr<const Description> description, const DescribedProgram& program, CompileUnit unit,
                    BoundFormulas formulas, const Problem& problem)
      : description_(std::move(description)),
        program_(program),
        unit_(std::move(unit)),
        formulas_(std::move(formulas)) {
    for (const DescribedTensor& tensor : description_->tensors) types_.push_back(type_of(tensor.type, problem.dims));
    shapes_.emplace(*description_, description_->of_problem, nullptr, problem.dims, DeviceLimits());
    for (const DescribedTensor& tensor : description_->tensors) present_.push_back(is_present(tensor, *shapes_));
  }

  const CompileUnit& unit() const override { return unit_; }

  Extents plan_extents(const Extents& extents) const override {
    Extents read = extents;
    for (std::size_t i = 0; i < read.size(); ++i)
      if (!formulas_.reads_extent(i) && !sets_whole_tensors()) read[i] = 1;
    return read;
  }

  void plan(const Extents& extents, const Call& call, LaunchPlan& plan) const override {
    Values values(formulas_, extents, call);
    if (&program_ == &description_->program) add_scratch(values, plan);
    for (const DescribedLaunch& described : program_.launches) {
      if (!values.holds(described.when)) continue;
      if (described.is_memset) {
        add_memset(described, extents, values, plan);
      } else {
        add_launch(described, call, values, plan);
      }
    }
    if (!values.is_sound())
      for (Launch& launch : plan.launches) launch.grid = {0, 0, 0};
  }

 private:
  bool sets_whole_tensors() const {
    for (const DescribedLaunch& launch : program_.launches)
      if (launch.is_memset && !launch.bytes) return true;
    return false;
  }

  void add_scratch(Values& values, LaunchPlan& plan) const {
    for (const DescribedScratch& scratch : description_->scratch) {
      const std::int64_t bytes = values.within(scratch.bytes, 0, kMostBytes);
      if (bytes > 0) plan.scratch.push_back({scratch.name, bytes, scratch.zeroed});
    }
  }

  void add_memset(const DescribedLaunch& described, const Extents& extents, Values& values, LaunchPlan& plan) const {
    const std::int64_t bytes =
        described.bytes ? values.within(*described.bytes, 0, kMostBytes) : tensor_bytes(*described.tensor, extents);
    if (bytes > 0 && is_there(described.buffer, described.tensor, plan))
      plan.memsets.push_back({described.buffer, 0, bytes, described.value,
                              static_cast<std::uint32_t>(plan.launches.size()), described.symbol});
  }

  std::int64_t tensor_bytes(std::size_t tensor, const Extents& extents) const {
    Values shapes(*shapes_, extents, {});
    std::int64_t bytes = dtype_bytes(types_[tensor]);
    for (const Formula size : description_->tensors[tensor].shape)
      if (__builtin_mul_overflow(bytes, shapes.within(size, 1, kMostBytes), &bytes)) return 0;
    return bytes;
  }

  // A scratch of no bytes is none.
  bool is_there(const Name& buffer, const std::optional<std::size_t>& tensor, const LaunchPlan& plan) const {
    if (tensor) return present_[*tensor];
    for (const Scratch& scratch : plan.scratch)
      if (scratch.name == buffer) return true;
    return false;
  }

  void add_launch(const DescribedLaunch& described, const Call& call, Values& values, LaunchPlan& plan) const {
    Launch& launch = plan.launches.emplace_back();
    launch.entry = described.entry;
    launch.grid = dim3_of(described.grid, values);
    launch.block = dim3_of(described.block, values);
    launch.cluster = dim3_of(described.cluster, values);
    if (described.shared)
      launch.dynamic_shared = static_cast<std::uint32_t>(values.within(*described.shared, 0, kMostThreads));
    launch.programmatic_dependent = described.dependent;
    for (const DescribedArgument& argument : described.arguments) add_argument(argument, call, values, plan, launch);
  }

  void add_argument(const DescribedArgument& described, const Call& call, Values& values, const LaunchPlan& plan,
                    Launch& launch) const {
    using Kind = DescribedArgument::Kind;
    Argument& argument = launch.arguments.emplace_back();
    argument.name = described.name;
    switch (described.kind) {
      case Kind::pointer:
        if (is_there(described.buffer, described.tensor, plan))
          argument.value =
              Pointer{described.buffer, described.value ? values.within(*described.value, 0, kMostBytes) : 0};
        return;
      case Kind::i32:  // and what is narrower: the driver reads the low bytes
        argument.value = static_cast<std::int32_t>(values.within(*described.value, INT32_MIN, kMostU32));
        return;
      case Kind::i64:
        argument.value = values.within(*described.value, INT64_MIN + 1, INT64_MAX);
        return;
      case Kind::f32:
        argument.value = static_cast<float>(real_of(described, call, values));
        return;
      case Kind::f64:
        argument.value = std::bit_cast<std::int64_t>(real_of(described, call, values));
        return;
      case Kind::map:
        if (present_[*described.tensor]) argument.value = map_of(described, values);
        return;
      case Kind::fields:
        argument.value = struct_of(described, call, values);
        return;
    }
  }

  static StructValue struct_of(const DescribedArgument& described, const Call& call, Values& values) {
    std::array<std::uint64_t, decltype(StructValue::words)::capacity()> words{};
    std::size_t end = 0;
    for (const DescribedArgument& field : described.fields) {
      const std::size_t begin = (end + field.bytes - 1) / field.bytes * field.bytes;
      const std::uint64_t bits = bits_of(field, call, values);
      std::memcpy(reinterpret_cast<std::uint8_t*>(words.data()) + begin, &bits, field.bytes);
      end = begin + field.bytes;
    }
    StructValue value;
    for (std::size_t i = 0; i < (end + 7) / 8; ++i) value.words.push_back(words[i]);
    return value;
  }

  // The low bytes are those of the number.
  static std::uint64_t bits_of(const DescribedArgument& field, const Call& call, Values& values) {
    switch (field.kind) {
      case DescribedArgument::Kind::f32:
        return std::bit_cast<std::uint32_t>(static_cast<float>(real_of(field, call, values)));
      case DescribedArgument::Kind::f64:
        return std::bit_cast<std::uint64_t>(real_of(field, call, values));
      default:
        return static_cast<std::uint64_t>(field.bytes == 8 ? values.within(*field.value, INT64_MIN + 1, INT64_MAX)
                                                           : values.within(*field.value, INT32_MIN, kMostU32));
    }
  }

  static double real_of(const DescribedArgument& described, const Call& call, Values& values) {
    if (described.field) return call.reals[*described.field];
    return described.value ? static_cast<double>(values.within(*described.value, INT64_MIN + 1, INT64_MAX))
                           : described.real;
  }

  TensorMap map_of(const DescribedArgument& described, Values& values) const {
    TensorMap map;
    map.buffer = described.buffer;
    map.dtype = types_[*described.tensor];
    map.swizzle = described.swizzle;
    if (described.value) map.offset = values.within(*described.value, 0, kMostBytes);
    std::int64_t bytes = dtype_bytes(map.dtype);
    for (std::size_t i = 0; i < described.dims.size(); ++i) {
      const std::int64_t elements = values.within(described.dims[i], 1, kMostU32);
      map.dims.push_back(static_cast<std::uint64_t>(elements));
      map.box.push_back(static_cast<std::uint32_t>(values.within(described.box[i], 1, 256)));
      if (i + 1 == described.dims.size()) break;
      if (__builtin_mul_overflow(bytes, elements, &bytes)) bytes = 0;
      const std::int64_t stride =
          described.strides.empty() ? bytes : values.within(described.strides[i], 1, kMostBytes);
      map.strides.push_back(static_cast<std::uint64_t>(stride));
    }
    return map;
  }

  std::shared_ptr<const Description> description_;
  const DescribedProgram& program_;  // of the description
  CompileUnit unit_;
  BoundFormulas formulas_;
  std::vector<DType> types_;   // of the tensors
  std::vector<bool> present_;  // likewise
  std::optional<BoundFormulas> shapes_;
};

}  // namespace

CompileUnit described_unit(const Description& description, const DescribedProgram& program, const Config* config,
                           const Assignment& problem, const DeviceLimits& limits) {
  CompileUnit unit{"templates/" + description.name + "/" + program.source, {}, program.instances};
  for (const DescribedType& type : description.types) {
    for (const auto& [name, cuda] : type.types)
      if (type.of.empty() || problem.is(type.of, name)) unit.defines.emplace_back(type.macro, cuda);
  }
  for (const DescribedMacro& macro : description.macros) {
    if (config == nullptr && macro.of_configuration) continue;
    const BoundFormulas bound(description, {macro.value, macro.value + 1}, config, problem, limits);
    const std::int64_t value = Values(bound, {}, {}).raw(macro.value);
    // A macro without a value is not defined, so that what reads it does not compile.
    if (value != kUndefined) unit.defines.emplace_back(macro.name, std::to_string(value));
  }
  if (config == nullptr) return unit;
  for (const Parameter& parameter : description.space.parameters)
    if (!parameter.at_launch) unit.defines.emplace_back(parameter.name, config->at(parameter.name).text());
  return unit;
}

std::unique_ptr<const Launcher> described_launcher(std::shared_ptr<const Description> description, const Config* config,
                                                   const Problem& problem, const DeviceLimits& limits, bool exact) {
  const DescribedProgram& program = config != nullptr ? description->program : description->reference;
  CompileUnit unit = described_unit(*description, program, config, problem.dims, limits);
  if (config == nullptr) unit.defines.emplace_back("EXACT", exact ? "1" : "0");
  BoundFormulas formulas(*description, program.formulas, config, problem.dims, limits);
  return std::make_unique<DescribedLauncher>(std::move(description), program, std::move(unit), std::move(formulas),
                                             problem);
}

}  // namespace moetune
