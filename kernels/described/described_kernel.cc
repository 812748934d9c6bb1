#include "kernels/described/described_kernel.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>

#include "base/error.h"
#include "kernels/described/bound_formulas.h"
#include "kernels/described/call_reader.h"
#include "kernels/described/described_plan.h"
#include "kernels/described/description.h"
#include "kernels/described/npy_file.h"

namespace moetune {
namespace {

class DescribedFamily final : public FamilyInterface {
 public:
  DescribedFamily(std::shared_ptr<const Description> description, const Problem& problem)
      : description_(std::move(description)),
        formulas_(*description_, description_->of_problem, nullptr, problem.dims, DeviceLimits()) {
    for (const DescribedTensor& tensor : description_->tensors) {
      slots_.push_back({Name(tensor.name), type_of(tensor.type, problem.dims), tensor.role,
                        is_present(tensor, formulas_), tensor.alignment});
      auto& places = extent_places_.emplace_back();
      for (const Formula size : tensor.shape)
        places.push_back(tensor.any.contains(places.size()) ? std::nullopt : extent_of(size));
    }
    for (const Dimension& dimension : description_->schema)
      if (free_position(*description_, dimension.name)) free_.push_back(&dimension);
  }

  std::span<const TensorSlot> tensors() const override { return slots_; }

  void check(const Extents& extents) const override {
    if (extents.size() != free_.size()) refuse("takes " + std::to_string(free_.size()) + " free dimensions");
    for (std::size_t i = 0; i < free_.size(); ++i) {
      if (extents[i] >= free_[i]->minimum && extents[i] <= free_[i]->maximum) continue;
      refuse(free_[i]->name + "=" + std::to_string(extents[i]) + " is out of range (from " +
             std::to_string(free_[i]->minimum) + " to " + std::to_string(free_[i]->maximum) + ")");
    }
    BoundFormulas::Values values(formulas_, extents, {});
    for (const DescribedRule& rule : description_->rules)
      if (!values.holds(rule.rule)) refuse(rule.why);
  }

  // Rows begin where vectors may, or are those of a contiguous tensor.
  void check_call(const Extents& extents, const Call& call) const override {
    const BoundFormulas::Values values(formulas_, extents, {});
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].present) check_strides(slot, values, call);
  }

  TablePoint table_point(const Extents& extents, std::int64_t) const override {
    TablePoint point;
    for (std::size_t i = 0; i < extents.size() && i < decltype(point.position)::capacity(); ++i)
      point.position.push_back(extents[i]);
    return point;
  }

  TablePoint table_point_of(const Problem& problem) const override {
    Extents extents;
    for (const Dimension* const dimension : free_) extents.push_back(problem[dimension->name]);
    return table_point(extents, 0);
  }

  Extents extents_at(const TablePoint& point, const Extents& like) const override {
    Extents extents = like;
    for (std::size_t i = 0; i < extents.size() && i < point.position.size(); ++i) extents[i] = point.position[i];
    return extents;
  }

  std::vector<std::string> varying_dimensions() const override { return description_->free_dimensions; }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    call = description_->default_call;
    extents.clear();
    for (std::size_t i = 0; i < free_.size(); ++i) extents.push_back(kNotGiven);
    if (!options.empty()) read_options(options, extents, call);
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].present) read_extents(slot, require_tensor(slots_, tensors, slot), extents);
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (extents[i] == kNotGiven)
        refuse("no tensor's shape says '" + free_[i]->name + "': give it as an option, " + free_[i]->name + "=...");
    check(extents);
    BoundFormulas::Values values(formulas_, extents, {});
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].present) check_shape(slot, *tensors[slot], values, call);
    check_call(extents, call);
  }

 private:
  static constexpr std::int64_t kNotGiven = -1;

  struct Step {
    std::int64_t stride = 0, size = 0;
    auto operator<=>(const Step&) const = default;
  };

  [[noreturn]] void refuse(const std::string& rule) const { throw BadInput(description_->name + ": " + rule); }

  // The free dimension that a size is, by itself.
  std::optional<std::size_t> extent_of(Formula size) const {
    const std::string& text = description_->formulas[size].text();
    return free_position(*description_, text.starts_with("problem.") ? std::string_view(text).substr(8) : text);
  }

  void read_options(std::string_view options, Extents& extents, Call& call) const {
    for (const auto& [name, text] : split_assignment(options, "the options")) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) refuse(name + "=" + text + " is no number");
      const auto position = free_position(*description_, name);
      if (!position) {
        set_field(call, description_->call, name, value);
      } else if (value >= 0 && value < 0x1p53 && value == static_cast<double>(static_cast<std::int64_t>(value))) {
        extents[*position] = static_cast<std::int64_t>(value);
      } else {
        refuse(name + "=" + text + " is no size");
      }
    }
  }

  void read_extents(std::size_t slot, const TensorView& tensor, Extents& extents) const {
    const auto& places = extent_places_[slot];
    if (tensor.shape.size() != places.size())
      refuse("tensor '" + slots_[slot].name.text() + "' is " + shape_text(tensor) + "; it must have " +
             std::to_string(places.size()) + " dimensions");
    for (std::size_t d = 0; d < places.size(); ++d)
      if (places[d] && extents[*places[d]] == kNotGiven) extents[*places[d]] = tensor.shape[d];
  }

  void check_strides(std::size_t slot, const BoundFormulas::Values& values, const Call& call) const {
    const DescribedTensor& tensor = description_->tensors[slot];
    const std::int64_t bytes = dtype_bytes(slots_[slot].dtype), least = tensor.role != Role::input;
    FixedVector<Step, TensorView::kMaxRank> steps;
    std::int64_t dense = 1, extent = 1;
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      const std::int64_t size = values.raw(tensor.shape[d]);
      if (d < tensor.strides.size()) {
        const std::int64_t stride = call.integers[tensor.strides[d]];
        if (stride != dense &&
            (stride < least || stride > kMostTensorElements || stride * bytes % slots_[slot].alignment != 0))
          refuse(description_->call.integers[tensor.strides[d]].name + " is " + std::to_string(stride) +
                 " elements; it must be a multiple of " + std::to_string(slots_[slot].alignment) +
                 " bytes, or contiguous");
        const bool interleaved = tensor.interleaved && tensor.any.contains(d);
        if (size > 1 && !interleaved) steps.push_back(Step{stride, size});
      }
      dense = grown(slot, dense, size);
      if (d >= tensor.strides.size()) extent = dense;
    }
    if (tensor.role == Role::input) return;
    std::ranges::sort(steps);
    for (const auto& [stride, size] : steps) {  // each steps over all that the smaller ones span
      if (stride < extent) refuse("the strides of '" + tensor.name + "' let elements overlap");
      extent += grown(slot, stride, size - 1);
    }
  }

  // The elements of `count` parts of so many. None that is refused would fit a GPU's memory.
  std::int64_t grown(std::size_t slot, std::int64_t elements, std::int64_t count) const {
    if (__builtin_mul_overflow(elements, count, &elements) || elements > kMostTensorElements)
      refuse("tensor '" + slots_[slot].name.text() + "' has more than 2^40 elements");
    return elements;
  }

  [[noreturn]] void refuse_shape(std::size_t slot, const TensorView& tensor,
                                 const BoundFormulas::Values& values) const {
    TensorView right = tensor;
    for (std::size_t d = 0; d < right.shape.size(); ++d)
      if (!description_->tensors[slot].any.contains(d))
        right.shape[d] = values.raw(description_->tensors[slot].shape[d]);
    refuse("tensor '" + slots_[slot].name.text() + "' is " + shape_text(tensor) + "; it must be " + shape_text(right));
  }

  // Puts its strides into the call, too.
  void check_shape(std::size_t slot, const TensorView& tensor, const BoundFormulas::Values& values, Call& call) const {
    const std::vector<Formula>& shape = description_->tensors[slot].shape;
    const std::vector<std::size_t>& strides = description_->tensors[slot].strides;
    std::int64_t dense = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t size = description_->tensors[slot].any.contains(d) ? tensor.shape[d] : values.raw(shape[d]);
      if (tensor.shape[d] != size) refuse_shape(slot, tensor, values);
      const bool is_dense = tensor.shape[d] == 1 || tensor.strides[d] == dense;
      if (d < strides.size()) {
        call.integers[strides[d]] = is_dense ? dense : tensor.strides[d];
      } else if (!is_dense) {
        refuse("tensor '" + slots_[slot].name.text() + "' is not contiguous");
      }
      dense = grown(slot, dense, size);
    }
  }

  std::shared_ptr<const Description> description_;
  BoundFormulas formulas_;
  std::vector<TensorSlot> slots_;
  std::vector<std::vector<std::optional<std::size_t>>> extent_places_;
  std::vector<const Dimension*> free_;  // in the order of Extents
};

// `problem` is any of the family's.
std::unique_ptr<const FamilyInterface> described_family(std::shared_ptr<const Description> description,
                                                        const Problem& problem) {
  return std::make_unique<DescribedFamily>(std::move(description), problem);
}

constexpr std::int64_t kMostValues = 1 << 20, kMostComputed = 1 << 24;

TensorView contiguous_view(DType dtype, const FixedVector<std::int64_t, TensorView::kMaxRank>& shape) {
  TensorView view{dtype, shape, shape};
  std::int64_t dense = 1;
  for (std::size_t d = shape.size(); d-- > 0; dense *= shape[d]) view.strides[d] = dense;
  return view;
}

class DescribedKernel final : public Kernel {
 public:
  explicit DescribedKernel(Description description)
      : description_(std::make_shared<const Description>(std::move(description))) {
    // Binds everything once, so that a name in place of a number is found now.
    const Problem problem = parse("");
    Config config;
    for (const Parameter& parameter : description_->space.parameters)
      config.set(parameter.name, parameter.values.front());
    const DeviceLimits limits = limits_of_architecture("sm_90a");
    launcher(config, problem, limits);
    reference(Reference::exact, problem, {}, limits);
    values_of(problem);
  }

  const std::string& name() const override { return description_->name; }
  const std::string& summary() const override { return description_->summary; }
  const ProblemSchema& schema() const override { return description_->schema; }
  const std::vector<Preset>& presets() const override { return description_->presets; }
  const std::vector<std::string>& free_dimensions() const override { return description_->free_dimensions; }
  const CallSchema& call_schema() const override { return description_->call; }
  Call default_call(const Problem& problem) const override {
    const Bound bound = values_of(problem);
    Call call = description_->default_call;
    for (const DescribedTensor& tensor : description_->tensors) {
      std::int64_t dense = 1;
      for (std::size_t d = tensor.shape.size(); d-- > 0; dense *= size_of(tensor, d, bound))
        if (d < tensor.strides.size()) call.integers[tensor.strides[d]] = dense;
    }
    return call;
  }

  void check(const Problem& problem) const override {
    const Bound bound = values_of(problem);
    for (const DescribedRule& rule : description_->rules)
      if (!value_of(bound, rule.rule, INT64_MIN + 1, INT64_MAX)) throw BadInput(name() + ": " + rule.why);
    try {
      check_buffers(buffers_of(problem, default_call(problem), std::nullopt));
    } catch (const std::logic_error& error) {
      throw BadInput(name() + ": " + error.what());
    }
  }

  void check_call(const Problem& problem, const Call& call) const override {
    family_interface(problem)->check_call(extents_of(problem), call);
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    return buffers_of(problem, call, seed);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return described_family(description_, problem);
  }

  ShownCall shown_call(std::span<const TensorView* const> given, std::string_view facts) const override {
    const std::vector<DescribedTensor>& slots = description_->tensors;
    if (given.size() > slots.size())
      throw BadInput(name() + ": there are " + std::to_string(given.size()) + " tensors; it takes " +
                     std::to_string(slots.size()));
    ShownCall call;
    for (const DescribedTensor& tensor : slots)
      call.tensors.push_back({.name = Name(tensor.name), .role = tensor.role});
    call.integers = description_->call.integers.size();
    call.reals = description_->call.reals.size();
    for (const DescribedTensor& tensor : slots) call.integers -= tensor.strides.size();
    if (given.empty()) return call;
    Problem problem{name(), {}};
    read_call(*description_, given, facts, problem.dims, call);
    if (std::ranges::count(call.extents, 0) > 0) return call;
    // Tensors that the caller leaves to others are contiguous.
    std::vector<TensorView> made(slots.size());
    std::vector<const TensorView*> views(given.begin(), given.end());
    views.resize(slots.size());
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (views[slot] != nullptr || !call.tensors[slot].present) continue;
      made[slot] = contiguous_view(call.tensors[slot].dtype, call.tensors[slot].shape);
      views[slot] = &made[slot];
    }
    Extents extents;
    Call ignored;
    family_interface(problem)->bind(views, call.options, extents, ignored);
    return call;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return described_launcher(description_, &config, problem, limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits& limits) const override {
    if (description_->has_answers) return answers_plan(which, problem);
    const auto& config = description_->reference_config;
    const auto made =
        described_launcher(description_, config ? &*config : nullptr, problem, limits, which == Reference::exact);
    Plan plan;
    plan.unit = made->unit();
    made->plan(extents_of(problem), call, plan);
    return plan;
  }

  bool reference_computes() const override { return !description_->has_answers; }

  Cost cost(const Problem& problem) const override {
    const Bound bound = values_of(problem);
    Cost cost{.inputs = Inputs::warm};
    for (const Buffer& buffer : buffers_of(problem, default_call(problem), std::nullopt)) {
      if (buffer.is_read()) cost.read_bytes += static_cast<double>(buffer.bytes());
      if (buffer.is_written()) cost.written_bytes += static_cast<double>(buffer.bytes());
      if (buffer.rotates) cost.inputs = Inputs::cold;
    }
    const DescribedCost& described = description_->cost;
    const auto number = [&](Formula formula) { return static_cast<double>(value_of(bound, formula, 0, INT64_MAX)); };
    if (described.read_bytes) cost.read_bytes = number(*described.read_bytes);
    if (described.written_bytes) cost.written_bytes = number(*described.written_bytes);
    for (const auto& [type, count] : described.flops) {
      const DType of = type_of(type, problem.dims);
      (of == DType::bf16   ? cost.flops.bf16
       : of == DType::f16  ? cost.flops.fp16
       : of == DType::e4m3 ? cost.flops.e4m3
                           : cost.flops.fp32) += number(count);
    }
    return cost;
  }

 private:
  // Shapes, fills, checks, rules and costs of one problem.
  struct Bound {
    std::unique_ptr<const BoundFormulas> formulas;
    Extents extents;
  };

  Bound values_of(const Problem& problem) const {
    return {
        std::make_unique<BoundFormulas>(*description_, description_->of_problem, nullptr, problem.dims, DeviceLimits()),
        extents_of(problem)};
  }

  std::int64_t value_of(const Bound& bound, Formula formula, std::int64_t least, std::int64_t most) const {
    const std::int64_t value = BoundFormulas::Values(*bound.formulas, bound.extents, {}).raw(formula);
    if (value != kUndefined && value >= least && value <= most) return value;
    const Expression& expression = description_->formulas[formula];
    throw BadInput(expression.where() + ": \"" + expression.text() + "\" is " +
                   (value == kUndefined ? std::string("undefined (") + kWhyUndefined + ")" : std::to_string(value)) +
                   "; it must be from " + std::to_string(least) + " to " + std::to_string(most));
  }

  // Without a seed, files and lists stand as zeros, and there are no answers among them.
  std::vector<Buffer> buffers_of(const Problem& problem, const Call& call, std::optional<std::uint64_t> seed) const {
    const Bound bound = values_of(problem);
    std::vector<Buffer> buffers, written;
    for (const DescribedTensor& tensor : description_->tensors) {
      if (!is_present(tensor, *bound.formulas)) continue;
      Buffer buffer = buffer_of(tensor, problem, call, bound);
      const bool is_input = tensor.role == Role::input;
      const bool is_listed = tensor.fill == Fill::Kind::integers;
      if (is_listed || tensor.fill == Fill::Kind::arrays) {
        if (!seed) buffer.fill.kind = Fill::Kind::zeros;
        if (seed && is_listed) list_values(tensor, bound, *seed, buffer);
        if (seed && !is_listed) buffer.fill.contents = contents_of(tensor.files, buffer);
      }
      if (seed && !tensor.answers.empty()) {
        Buffer& answer = buffers.emplace_back();
        answer.name = answer_name(written.size());
        answer.dtype = exact_dtype(buffer.dtype);
        answer.elements = buffer.elements;
        answer.fill.kind = Fill::Kind::arrays;
        answer.fill.contents = contents_of(tensor.answers, answer);
      }
      (is_input ? buffers : written).push_back(std::move(buffer));
    }
    std::ranges::move(written, std::back_inserter(buffers));
    return buffers;
  }

  // Computes the elements of a fill by formula, or of offsets.
  void list_values(const DescribedTensor& tensor, const Bound& bound, std::uint64_t seed, Buffer& buffer) const {
    if (buffer.elements > kMostComputed || (tensor.total && buffer.elements < 2))
      throw BadInput(name() + ": tensor '" + tensor.name + "' has " + std::to_string(buffer.elements) +
                     " elements; such a fill is of " + (tensor.total ? "2" : "1") + " to 16,777,216");
    const auto count = static_cast<std::size_t>(buffer.elements);
    std::vector<std::int32_t>& list = buffer.fill.integers;
    if (tensor.total) {
      const auto total = static_cast<std::uint64_t>(value_of(bound, *tensor.total, 0, INT32_MAX));
      std::mt19937_64 random(seed);
      list.resize(count);
      for (std::int32_t& offset : list) offset = static_cast<std::int32_t>(random() % (total + 1));
      list.front() = 0, list.back() = static_cast<std::int32_t>(total);
      std::ranges::sort(list);
      return;
    }
    std::vector<std::uint8_t> bytes(tensor.over != 0 ? static_cast<std::size_t>(buffer.bytes()) : 0);
    BoundFormulas::Values values(*bound.formulas, bound.extents, {});
    for (std::size_t i = 0; i < count; ++i) {
      values.set_element(static_cast<std::int64_t>(i));
      const std::int64_t value = values.raw(*tensor.element);
      if (value == kUndefined || value < INT32_MIN || value > INT32_MAX ||
          (is_integer(buffer.dtype) &&
           round_to(buffer.dtype, static_cast<double>(value)) != static_cast<double>(value)))
        throw BadInput(description_->formulas[*tensor.element].where() + ": at i = " + std::to_string(i) +
                       " it has no value that a " + std::string(dtype_name(buffer.dtype)) + " holds");
      if (tensor.over == 0) {
        list.push_back(static_cast<std::int32_t>(value));
      } else {
        store_element(buffer.dtype, bytes.data(), static_cast<std::int64_t>(i),
                      round_to(buffer.dtype, static_cast<float>(static_cast<double>(value) / tensor.over)));
      }
    }
    if (tensor.over == 0) return;
    buffer.fill.kind = Fill::Kind::arrays;
    buffer.fill.contents = {std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes))};
  }

  // No tensor has a name with a dot.
  static std::string answer_name(std::size_t position) { return "answer." + std::to_string(position); }

  // Copies what files hold to where a reference would write it.
  Plan answers_plan(Reference which, const Problem& problem) const {
    Plan plan;
    plan.unit.source = "templates/common/answers.cu";
    std::size_t position = 0;
    for (const Buffer& buffer : buffers_of(problem, default_call(problem), std::nullopt)) {
      if (!buffer.is_written()) continue;
      const bool rounds = which == Reference::baseline && exact_dtype(buffer.dtype) != buffer.dtype;
      Launch& launch = plan.launches.emplace_back();
      launch.entry = EntryName(rounds ? "moetune_round_answer" : "moetune_copy_answer");
      launch.grid = {static_cast<std::uint32_t>(std::clamp<std::int64_t>(buffer.elements / 256, 1, 4096)), 1, 1};
      launch.block = {256, 1, 1};
      launch.arguments.push_back({Name("from"), Pointer{Name(answer_name(position++)), 0}});
      launch.arguments.push_back({Name("to"), Pointer{Name(buffer.name), 0}});
      if (rounds) launch.arguments.push_back({Name("type"), static_cast<std::int64_t>(buffer.dtype)});
      const std::int64_t bytes = buffer.elements * dtype_bytes(exact_dtype(buffer.dtype));
      launch.arguments.push_back({Name("size"), rounds ? buffer.elements : bytes});
    }
    return plan;
  }

  using Content = std::shared_ptr<const std::vector<std::uint8_t>>;

  // Reads each file once in a process.
  std::vector<Content> contents_of(const std::vector<std::string>& files, const Buffer& buffer) const {
    const std::lock_guard lock(mutex_);
    std::vector<Content> contents;
    for (const std::string& file : files) {
      Content& content = contents_[file + " " + std::string(dtype_name(buffer.dtype))];
      if (!content) {
        content = std::make_shared<const std::vector<std::uint8_t>>(
            read_array(std::filesystem::path(description_->file).parent_path() / file, buffer.dtype, buffer.elements));
        content_bytes_ += static_cast<std::int64_t>(content->size());
      }
      if (content_bytes_ > kMostArrayBytes) throw BadInput(name() + ": its files hold more than 1,000,000,000 bytes");
      if (static_cast<std::int64_t>(content->size()) != buffer.bytes())
        throw BadInput(name() + ": " + file + " is of another problem than this one");
      contents.push_back(content);
    }
    return contents;
  }

  std::int64_t size_of(const DescribedTensor& tensor, std::size_t dimension, const Bound& bound) const {
    return value_of(bound, tensor.shape[dimension], 1, kMostTensorElements);
  }

  Buffer buffer_of(const DescribedTensor& tensor, const Problem& problem, const Call& call, const Bound& bound) const {
    Buffer buffer{.name = tensor.name,
                  .dtype = type_of(tensor.type, problem.dims),
                  .elements = 1,
                  .role = tensor.role,
                  .rotates = tensor.cold,
                  .fresh = tensor.fresh};
    std::int64_t dense = 1, last = 0;  // elements of a contiguous tensor; the last element's place
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      const std::int64_t size = size_of(tensor, d, bound),
                         stride = d < tensor.strides.size() ? call.integers[tensor.strides[d]] : dense;
      std::int64_t step = 0;
      if (__builtin_mul_overflow(dense, size, &dense) || __builtin_mul_overflow(stride, size - 1, &step) ||
          __builtin_add_overflow(last, step, &last) || dense > kMostTensorElements || last >= kMostTensorElements)
        throw BadInput(name() + ": tensor '" + tensor.name + "' has more than 2^40 elements");
    }
    buffer.elements = last + 1;
    buffer.fill.kind = tensor.fill;
    buffer.fill.scale = tensor.scale;
    if (tensor.cold_if) buffer.rotates = tensor.cold && value_of(bound, *tensor.cold_if, 0, INT64_MAX) != 0;
    if (tensor.scale_by)
      buffer.fill.scale = static_cast<float>(static_cast<double>(value_of(bound, *tensor.scale_by, 0, kMostValues)) /
                                             (tensor.over != 0 ? tensor.over : 1));
    if (tensor.values) buffer.fill.values = value_of(bound, *tensor.values, 1, kMostValues);
    if (tensor.role == Role::input) return buffer;
    buffer.check = {tensor.check, tensor.tolerance, "", 0};
    if (tensor.segments) buffer.check.segment_length = value_of(bound, *tensor.segments, 1, kMostTensorElements);
    if (tensor.terms) buffer.check.tolerance.terms = static_cast<double>(value_of(bound, *tensor.terms, 1, INT64_MAX));
    // The terms whose rounding may leave such an error (summation_error of the worker's validator).
    if (tensor.error) buffer.check.tolerance.terms = std::pow(*tensor.error * 0x1p23, 2);
    // A sum in f64 rounds 2^29 times as finely.
    if (tensor.terms && buffer.dtype == DType::f64) buffer.check.tolerance.terms *= 0x1p-58;
    return buffer;
  }

  std::shared_ptr<const Description> description_;
  mutable std::mutex mutex_;  // of these two
  mutable std::map<std::string, Content> contents_;
  mutable std::int64_t content_bytes_ = 0;
};

}  // namespace

std::unique_ptr<const Kernel> described_kernel(Description description) {
  return std::make_unique<DescribedKernel>(std::move(description));
}

}  // namespace moetune
