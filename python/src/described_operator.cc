// Operators of kernels that a kernel.json describes: moetune_show_call reads the family off the tensors. Each has a
// schema that its users know, or is launch, which takes any such kernel.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "operators.h"

namespace moetune::python {
namespace {

// As another call with this text gets it; never freed, as families are known by it.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts->insert(text).first->c_str();
}

class DescribedOperator : public Operator {
 public:
  DescribedOperator(std::string name, std::string kernel, std::string facts)
      : name_(std::move(name)), kernel_(std::move(kernel)), facts_(std::move(facts)) {}

  const char* name() const override { return name_.c_str(); }
  const char* kernel() const override { return kernel_.c_str(); }
  std::string specialization(const FamilyKey& key) const override { return key.as<const char*>(); }

  std::unique_ptr<moetune_shown_call> show(const Overload& overload, const Given& given, CallPlan&) const override {
    return shown(given.tensors, facts_of(overload, given));
  }

  void plan(const Overload& overload, const Given& given, CallPlan& plan) const override {
    const auto call = show(overload, given, plan);
    plan.key.of = this;
    for (const DLTensor* const tensor : given.tensors)
      if (tensor != nullptr) plan.key.device = tensor->device.device_id;
    plan.key.set(kept(call->specialization));
    plan.problem = call->problem;
    plan.options = kept(call->options);
    plan.extents.count = call->extent_count;
    for (size_t i = 0; i < call->extent_count; ++i) {
      plan.extents.values[i] = call->extents[i];
      plan.is_idle = plan.is_idle || call->extents[i] == 0;
    }
    for (size_t slot = 0; slot < call->slot_count; ++slot) {
      const moetune_slot& one = call->slots[slot];
      if (given_at(given, plan, slot) || one.role == 0 || one.present == 0) continue;
      TensorShape made{static_cast<int>(slot), "", {one.code, one.bits, one.lanes}, one.rank, {}};
      std::copy(one.shape, one.shape + one.rank, made.sizes.begin());
      plan.outputs.add(made);
      if (one.role == 2 && overload.makes_outputs)
        refuse("'" + std::string(one.name) + "' is read and written: call the overload .out with it");
    }
  }

  void complete(const Given& given, moetune_arguments& arguments) const override { arguments.reals[0] = given.scale; }

 protected:
  virtual std::string facts_of(const Overload& overload, const Given& given) const {
    std::string facts = facts_;
    const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ",") + fact; };
    for (const Parameter& parameter : overload.parameters) {
      if (parameter.fact == nullptr) continue;
      const int64_t value = given.integers[static_cast<size_t>(parameter.place)];
      if (parameter.kind == Parameter::kFlag) {
        const bool is_of_false = *parameter.fact == '!';
        if ((value != 0) != is_of_false) add(parameter.fact + is_of_false);
      } else {
        add(std::string(parameter.fact) + "=" +
            (parameter.kind == Parameter::kChoice ? parameter.choices[static_cast<size_t>(value)]
                                                  : std::to_string(value)));
      }
    }
    return facts;
  }

  std::unique_ptr<moetune_shown_call> shown(const DLTensor* const* tensors, const std::string& facts) const {
    auto call = std::make_unique<moetune_shown_call>();
    call->size = sizeof *call;
    check(moetune_show_call(kernel(), nullptr, 0, nullptr, call.get()));
    if (tensors != nullptr) check(moetune_show_call(kernel(), tensors, call->slot_count, facts.c_str(), call.get()));
    return call;
  }

 private:
  static bool given_at(const Given& given, const CallPlan& plan, size_t slot) {
    if (plan.listed == 0) return given.tensors[slot] != nullptr;
    const auto end = plan.slots.begin() + static_cast<ptrdiff_t>(plan.listed);
    return std::find(plan.slots.begin(), end, static_cast<int8_t>(slot)) != end;
  }

  const std::string name_, kernel_, facts_;
};

// The longest context is a fact, unless tokens are chosen: what the page table has room for, unless the caller knows
// better.
class LatentOperator final : public DescribedOperator {
 public:
  LatentOperator(const char* name, bool chosen) : DescribedOperator(name, "mla_decode", ""), chosen_(chosen) {}

 protected:
  std::string facts_of(const Overload&, const Given& given) const override {
    std::string facts = chosen_ ? "tokens=chosen" : "tokens=all";
    if (given.tensors[MOETUNE_MLA_DECODE_GROUP_SCALES] != nullptr) facts += ",kv_scale=group";
    if (chosen_) return facts;
    int64_t context = given.integers[kLatentContext];
    require_at_least(0, "context", context);
    const DLTensor* const pages = given.tensors[MOETUNE_MLA_DECODE_PAGE_TABLE];
    const DLTensor* const kv = given.tensors[MOETUNE_MLA_DECODE_KV];
    if (pages == nullptr || kv == nullptr || pages->ndim != 2 || kv->ndim != 3) return facts;  // refused as such
    if (context == 0 && __builtin_mul_overflow(pages->shape[1], kv->shape[1], &context))
      refuse("'page_table' and 'kv' have more tokens than a sequence can have");
    return context == 0 ? facts : facts + ",context=" + std::to_string(context);
  }
  std::span<const OtherName> other_names() const override { return kOtherNames; }

 private:
  static constexpr OtherName kOtherNames[] = {{"o", "out"}};
  const bool chosen_;
};

// Scales tell whether they are of heads by their number; the layout, which index heads have.
class TransferOperator final : public DescribedOperator {
 public:
  TransferOperator() : DescribedOperator("kv_transfer", "kv_transfer", "") {}

 protected:
  std::string facts_of(const Overload& overload, const Given& given) const override {
    const DLTensor* const source = given.tensors[MOETUNE_KV_TRANSFER_SOURCE];
    const DLTensor* const target = given.tensors[MOETUNE_KV_TRANSFER_TARGET];
    const DLTensor* const from = given.tensors[MOETUNE_KV_TRANSFER_SOURCE_PAGES];
    const DLTensor* const to = given.tensors[MOETUNE_KV_TRANSFER_TARGET_PAGES];
    if (from == nullptr && to == nullptr) refuse("neither 'source_pages' nor 'target_pages' is given");
    if (to != nullptr && overload.makes_outputs) refuse("'target_pages' are pages of a pool: give it as 'target'");
    if (to != nullptr && from == nullptr) require_pages("source", source, "target_pages", *to);
    if (from != nullptr && to == nullptr) require_pages("target", target, "source_pages", *from);
    const int64_t sms = given.integers[kTransferSms];
    require_at_least(0, "sms", sms);
    const DLTensor* const scales = given.tensors[MOETUNE_KV_TRANSFER_SCALES];
    const bool each = scales != nullptr && scales->ndim == 2 && scales->shape[1] != 1;
    return std::string("scale=") +
           (scales == nullptr                          ? "none"
            : !each                                    ? "tensor"
            : given.integers[kTransferHeadsFirst] != 0 ? "outer"
                                                       : "inner") +
           (sms == 0 ? "" : ",sms=" + std::to_string(sms));
  }

 private:
  // The kernel would read or write behind an end without a list that has fewer.
  void require_pages(const char* name, const DLTensor* end, const char* list_name, const DLTensor& list) const {
    if (end == nullptr || end->ndim == 0 || list.ndim == 0 || end->shape[0] == list.shape[0]) return;
    refuse("'" + std::string(name) + "' has " + std::to_string(end->shape[0]) + " pages; '" + list_name + "' lists " +
           std::to_string(list.shape[0]));
  }
};

// One kernel's calls by launch.
class LaunchedKernel final : public DescribedOperator {
 public:
  explicit LaunchedKernel(const std::string& kernel) : DescribedOperator(kernel, kernel, "") {}

  std::unique_ptr<moetune_shown_call> show(const Overload&, const Given& given, CallPlan& plan) const override {
    const LaunchedCall& launched = given.launched;
    const auto slots = shown(nullptr, "");
    require_numbers("integers", launched.integer_count, slots->integer_count);
    require_numbers("reals", launched.real_count, slots->real_count);
    const DLTensor* placed[MOETUNE_MAX_TENSORS]{};
    const std::string facts(launched.facts);
    plan.listed = launched.read + launched.written;
    const auto place = [&](bool written, size_t first, size_t count, const moetune_shown_call& of, bool all) {
      size_t next = 0;
      for (size_t slot = 0; slot < of.slot_count && next < count; ++slot) {
        if ((of.slots[slot].role != 0) != written || (of.slots[slot].present == 0 && !all)) continue;
        plan.slots[first + next] = static_cast<int8_t>(slot);
        placed[slot] = given.tensors[first + next++];
      }
      if (next < count)
        refuse("it " + std::string(written ? "writes " : "reads ") + std::to_string(next) + " tensors; " +
               std::to_string(count) + " are given");
    };
    place(false, 0, launched.read, *slots, true);
    if (launched.written == 0) return shown(placed, facts);
    size_t writable = 0;
    for (size_t slot = 0; slot < slots->slot_count; ++slot) writable += slots->slots[slot].role != 0;
    // Fewer than there can be: what is read and the facts say which.
    const bool all = writable == launched.written;
    place(true, launched.read, launched.written, all ? *slots : *shown(placed, facts), all);
    return shown(placed, facts);
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    const LaunchedCall& launched = given.launched;
    std::copy_n(launched.integers.begin(), launched.integer_count, arguments.integers);
    std::copy_n(launched.reals.begin(), launched.real_count, arguments.reals);
  }

 private:
  void require_numbers(const char* list, size_t count, size_t most) const {
    if (count > most)
      refuse("its call has " + std::to_string(most) + " " + list + "; " + std::to_string(count) + " are given");
  }
};

class LaunchOperator final : public Operator {
 public:
  const char* name() const override { return "launch"; }
  const char* kernel() const override { return "launch"; }
  std::string specialization(const FamilyKey&) const override { return ""; }

  std::unique_ptr<moetune_shown_call> show(const Overload& overload, const Given& given,
                                           CallPlan& plan) const override {
    return of(given).show(overload, given, plan);
  }
  void plan(const Overload& overload, const Given& given, CallPlan& plan) const override {
    of(given).plan(overload, given, plan);
  }

 private:
  // Never freed, as families are known by it.
  const Operator& of(const Given& given) const {
    static std::mutex mutex;
    static auto* const kernels = new std::map<std::string, LaunchedKernel, std::less<>>;
    const std::lock_guard lock(mutex);
    const auto known = kernels->find(given.launched.kernel);
    if (known != kernels->end()) return known->second;
    const std::string kernel(given.launched.kernel);
    moetune_shown_call call{};
    call.size = sizeof call;
    if (kernel.find('\0') != kernel.npos) refuse("the kernel's name holds a null character");
    check(moetune_show_call(kernel.c_str(), nullptr, 0, nullptr, &call));
    return kernels->try_emplace(kernel, kernel).first->second;
  }
};

}  // namespace

const Operator& described_operator(const char* name, const char* kernel, const char* facts) {
  return *new DescribedOperator(name, kernel, facts);
}

const Operator& mla_decode_operator() {
  static const LatentOperator made("mla_decode", false);
  return made;
}

const Operator& mla_decode_chosen_operator() {
  static const LatentOperator made("mla_decode_chosen", true);
  return made;
}

const Operator& kv_transfer_operator() {
  static const TransferOperator made;
  return made;
}

const Operator& launch_operator() {
  static const LaunchOperator made;
  return made;
}

}  // namespace moetune::python
