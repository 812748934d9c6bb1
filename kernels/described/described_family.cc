#include "kernels/described/described_family.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

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
        if (size > 1) steps.push_back(Step{stride, size});
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

}  // namespace

std::unique_ptr<const FamilyInterface> described_family(std::shared_ptr<const Description> description,
                                                        const Problem& problem) {
  return std::make_unique<DescribedFamily>(std::move(description), problem);
}

}  // namespace moetune
