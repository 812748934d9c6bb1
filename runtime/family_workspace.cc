// Finds what a family's choices need of a workspace within some extents, and which winners a promise leaves out.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/family.h"

namespace moetune {
namespace {

constexpr double kFine = 1.19;    // extents that differ by a quarter of an octave are looked at together
constexpr int kMostBoxes = 4096;  // then what is left is taken as a whole

struct Box {
  Extents low, high;
  bool ragged = false;
};

// The axis along which a box is widest by more than `most`; nullopt if none is.
std::optional<std::size_t> widest_axis(const Box& box, double most) {
  std::optional<std::size_t> widest;
  for (std::size_t axis = 0; axis < box.low.size(); ++axis) {
    const double ratio = static_cast<double>(box.high[axis]) / static_cast<double>(box.low[axis]);
    if (box.low[axis] == box.high[axis] || ratio <= most) continue;
    most = ratio;
    widest = axis;
  }
  return widest;
}

}  // namespace

void Family::look_through(const DispatchTable& table, const Extents& most, const Look& look) const {
  Box all{most, most};
  for (std::int64_t& extent : all.low) extent = 1;
  std::vector<Box> boxes{all};
  if (interface_->has_ragged()) boxes.push_back({all.low, all.high, true});
  for (int count = 0; !boxes.empty(); ++count) {
    const Box box = boxes.back();
    boxes.pop_back();
    if (box.ragged && !interface_->table_point(box.high, 1).ragged) continue;
    // Goes down to the very extents for defaults: more of them may be one in a box than are.
    const bool is_one = defaults_.within(box.low, box.high, box.ragged).is_one();
    const std::optional<std::size_t> axis = count < kMostBoxes ? widest_axis(box, is_one ? kFine : 1) : std::nullopt;
    const std::vector<Need> needs = needs_between(table, box.low, box.high, box.ragged);
    if (!look(needs, !axis || needs.size() < 2) || !axis) continue;
    Box below = box, above = box;
    const double middle = std::sqrt(static_cast<double>(box.low[*axis]) * static_cast<double>(box.high[*axis]));
    below.high[*axis] = std::clamp(static_cast<std::int64_t>(middle), box.low[*axis], box.high[*axis] - 1);
    above.low[*axis] = below.high[*axis] + 1;
    boxes.push_back(below);
    boxes.push_back(above);
  }
}

std::vector<Family::Need> Family::needs_between(const DispatchTable& table, const Extents& low, const Extents& high,
                                                bool ragged) const {
  DispatchTable::Region region{low, high, interface_->last_point(low), interface_->last_point(high)};
  if (ragged) {
    // The least total; a batch of one is not ragged, and larger ones may lie before it.
    const TablePoint least = interface_->table_point(low, 1);
    if (least.ragged)
      region.first = least;
    else if (!region.first.position.empty())
      region.first.position[0] = 1;
    region.first.ragged = region.last.ragged = true;
  }
  Extents most = high;
  try {
    interface_->check(most);
  } catch (const BadInput&) {  // no problem has these extents, but some that are less in one of them
    most = interface_->extents_at(region.last, high);
  }
  std::vector<Need> needs;
  table.visit_possible(region, [&](std::uint32_t entry) {
    const bool is_known = std::ranges::find(needs, entry, &Need::entry) != needs.end();
    if (!is_known) needs.push_back({entry, workspace_at(entry, most)});
  });
  return needs;
}

std::int64_t Family::workspace_within(const DispatchTable& table, const Extents& extents, std::int64_t bytes,
                                      bool with_unfit) const {
  look_through(table, extents, [&](std::span<const Need> needs, bool is_last) {
    std::int64_t most = bytes;
    for (const Need& need : needs) {
      if (with_unfit || need.bytes != kUnfit) most = std::max(most, need.bytes);
    }
    if (is_last) bytes = most;
    return most > bytes;
  });
  return bytes;
}

Family::Entries Family::too_large(const DispatchTable& table, const Promise& promise) const {
  Entries found;
  look_through(table, promise.extents, [&](std::span<const Need> needs, bool is_last) {
    bool is_any = false;
    for (const Need& need : needs) {
      if (need.bytes <= promise.bytes || found.contains(need.entry)) continue;
      is_any = true;
      if (is_last) found.insert(need.entry);
    }
    return is_any;
  });
  return found;
}

// A winner that is left out gives way to what was measured at its place before, or else to none.
std::unique_ptr<const DispatchTable> Family::keep_promises(std::unique_ptr<const DispatchTable> made,
                                                           std::vector<std::string>& warnings) {
  // Reads the table as the files would have it, before any promise takes choices out.
  for (Promise& promise : promises_) promise.wanted = workspace_within(*made, promise.extents, promise.bytes, false);
  const auto without = [&](const Entries& left_out, const DispatchTable* before) {
    std::vector<DispatchTable::Measured> kept;
    for (const DispatchTable::Measured& one : made->measured()) {
      const DispatchTable::Measured* stays = &one;
      if (left_out.contains(one.entry)) stays = before != nullptr ? before->measured_at(one.point) : nullptr;
      if (stays != nullptr && !left_out.contains(stays->entry)) kept.push_back(*stays);
    }
    return std::make_unique<const DispatchTable>(
        std::move(kept), std::vector<std::uint32_t>(made->default_entries().begin(), made->default_entries().end()),
        defaults_);
  };
  for (const Promise& promise : promises_) {
    Entries left_out = too_large(*made, promise);
    if (left_out.empty()) continue;
    warnings.push_back(
        kernel_.name() + " " + problem_text(promise.extents) + ": " + std::to_string(left_out.size()) +
        " of its configurations need more workspace than the " + std::to_string(promise.bytes) +
        " bytes that were promised, and are not picked" +
        (promise.wanted > promise.bytes ? "; moetune_offer_workspace takes " + std::to_string(promise.wanted) : ""));
    if (made->constant()) continue;
    made = without(left_out, table());
    // Choices that come into their place may be too large as well.
    if (left_out = too_large(*made, promise); !left_out.empty()) made = without(left_out, nullptr);
  }
  return made;
}

}  // namespace moetune
