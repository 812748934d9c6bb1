// wgmma of Grid. A warp's products are computed when its group is committed, from what shared memory and A's registers
// hold then, which must still be there when a lane waits for them.
#include <algorithm>
#include <cstring>

#include "kernels/dtype.h"
#include "tests/simt/grid.h"
#include "tests/simt/matrix_operand.h"

namespace moetune::testing {
namespace {

constexpr unsigned kWarpLanes = 32, kWarpRows = 16, kReadUnit = 16, kMostColumns = 256, kWarpsOfGroup = 4;
constexpr std::uint8_t kSumPoison = 0xFF;

unsigned element_bytes(const simt::Multiply& one) { return one.element == 'e' ? 1 : 2; }
unsigned depth(const simt::Multiply& one) { return 32 / element_bytes(one); }

bool same_product(const simt::Multiply& a, const simt::Multiply& b) {
  return a.element == b.element && a.add == b.add && a.transposed_a == b.transposed_a &&
         a.transposed_b == b.transposed_b && a.columns == b.columns && a.a == b.a && a.b == b.b &&
         (a.a_words == nullptr) == (b.a_words == nullptr);
}

std::uint64_t mixed(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * 0x9e37'79b9'7f4a'7c15;
  return digest ^ digest >> 29;
}

const std::vector<float>& values_of(char element) {
  const auto table = [](DType type) {
    std::vector<float> values(type == DType::e4m3 ? 256 : 65536);
    for (std::uint32_t bits = 0; bits < values.size(); ++bits)
      values[bits] = static_cast<float>(load_element(type, &bits, 0));
    return values;
  };
  static const std::vector<float> bf16 = table(DType::bf16), f16 = table(DType::f16), e4m3 = table(DType::e4m3);
  return element == 'b' ? bf16 : element == 'h' ? f16 : e4m3;
}

// Element `i` of packed ones, by the values that their bits stand for.
float element_at(const std::vector<float>& values, const std::uint8_t* bytes, std::size_t i) {
  if (values.size() == 256) return values[bytes[i]];
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
  return values[bits];
}

bool is_poison(const GridSums& sums) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(sums.place);
  return std::all_of(bytes, bytes + sums.values.size() * sizeof(float),
                     [](std::uint8_t byte) { return byte == kSumPoison; });
}

}  // namespace

void Grid::multiply_begin() { running_->products.has_begun = true; }

void Grid::multiply(const simt::Multiply* one) {
  GridLane& lane = running_->products;
  if (!lane.has_begun) fail("wgmma without wgmma_begin in its group");
  if (one->columns % 8 != 0 || one->columns < 8 || one->columns > kMostColumns)
    fail("wgmma of " + std::to_string(one->columns) + " columns");
  const std::size_t count = one->columns / 2;
  GridSums* own = nullptr;
  for (GridSums& sums : lane.sums) {
    if (sums.place == one->sum && sums.values.size() == count) {
      own = &sums;
    } else if (sums.place < one->sum + count && one->sum < sums.place + sums.values.size()) {
      fail("wgmma on a part of the accumulators of one that has not ended");
    }
  }
  if (own == nullptr) {
    own = &lane.sums.emplace_back();
    own->place = one->sum;
    own->values.assign(one->sum, one->sum + count);
    std::memset(one->sum, kSumPoison, count * sizeof(float));
  }
  own->group = lane.group;
  GridMultiply& issued = lane.issued.emplace_back();
  issued.one = *one;
  issued.group = lane.group;
  if (one->a_words != nullptr) std::copy_n(one->a_words, 4, issued.a_words.begin());
}

void Grid::multiply_commit() {
  GridThread& thread = *running_;
  exchange("wgmma commit_group", ~0U, 0);
  if (thread.warp->groups == thread.products.group) {
    compute(*thread.warp, thread.products.group);
    ++thread.warp->groups;
  }
  ++thread.products.group;
  thread.products.has_begun = false;
}

std::size_t Grid::warp_number(const GridWarp& warp) const {
  return static_cast<std::size_t>(&warp - running_->block->warps.data());
}

// All lanes have issued the group, and none has waited for it.
void Grid::compute(GridWarp& warp, unsigned group) {
  std::vector<std::size_t> first(kWarpLanes), count(kWarpLanes);  // each lane's products of the group
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    const std::vector<GridMultiply>& issued = warp.lanes[i].products.issued;
    const auto begin = std::find_if(issued.begin(), issued.end(), [&](const auto& one) { return one.group == group; });
    first[i] = static_cast<std::size_t>(begin - issued.begin());
    count[i] = issued.size() - first[i];
    if (count[i] != count[0]) fail("the lanes of its warp have not issued the same number of wgmma");
  }
  for (std::size_t at = 0; at < count[0]; ++at) compute_one(warp, at, first);
}

void Grid::compute_one(GridWarp& warp, std::size_t at, const std::vector<std::size_t>& first) {
  GridOperands operands;
  operands.one = warp.lanes[0].products.issued[first[0] + at].one;
  operands.group = warp.lanes[0].products.issued[first[0] + at].group;
  const simt::Multiply& one = operands.one;
  const unsigned columns = one.columns, most_k = depth(one), in_word = 4 / element_bytes(one);
  read_operands(warp, operands);
  const std::vector<float>& elements = values_of(one.element);
  std::vector<float> a(std::size_t{kWarpRows} * most_k), b(std::size_t{most_k} * columns),
      sum(std::size_t{kWarpRows} * columns);
  std::vector<std::vector<float>*> values(kWarpLanes);
  // Accumulators and A in registers: a lane has rows lane / 4 and 8 further.
  const auto place = [&](unsigned lane, unsigned i) {
    return (lane / 4 + i % 4 / 2 * 8) * columns + i / 4 * 8 + lane % 4 * 2 + i % 2;
  };
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    GridLane& lane = warp.lanes[i].products;
    const GridMultiply& issued = lane.issued[first[i] + at];
    if (!same_product(issued.one, one)) fail("the lanes of its warp do not agree in a wgmma's operands");
    const auto own = std::find_if(lane.sums.begin(), lane.sums.end(),
                                  [&](const GridSums& sums) { return sums.place == issued.one.sum; });
    values[i] = &own->values;
    if (one.add) {
      for (unsigned v = 0; v < columns / 2; ++v) sum[place(i, v)] = (*values[i])[v];
    }
    if (one.a_words == nullptr) continue;
    for (unsigned word = 0; word < 4; ++word) {
      for (unsigned e = 0; e < in_word; ++e)
        a[(i / 4 + word % 2 * 8) * most_k + word / 2 * (most_k / 2) + i % 4 * in_word + e] =
            element_at(elements, reinterpret_cast<const std::uint8_t*>(&issued.a_words[word]), e);
    }
  }
  if (one.a_words == nullptr) {
    for (unsigned row = 0; row < kWarpRows; ++row) {
      for (unsigned k = 0; k < most_k; ++k)
        a[row * most_k + k] =
            element_at(elements, operands.a.data(), one.transposed_a ? k * kWarpRows + row : row * most_k + k);
    }
  }
  for (unsigned k = 0; k < most_k; ++k) {
    for (unsigned column = 0; column < columns; ++column)
      b[k * columns + column] =
          element_at(elements, operands.b.data(), one.transposed_b ? k * columns + column : column * most_k + k);
  }
  for (unsigned row = 0; row < kWarpRows; ++row) {
    for (unsigned k = 0; k < most_k; ++k) {
      const float factor = a[row * most_k + k];
      for (unsigned column = 0; column < columns; ++column)
        sum[row * columns + column] += factor * b[k * columns + column];
    }
  }
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    for (unsigned v = 0; v < columns / 2; ++v) (*values[i])[v] = sum[place(i, v)];
  }
  ++warp.products;
  for (const std::uint64_t word : {std::uint64_t{one.a}, std::uint64_t{one.b},
                                   std::uint64_t{columns} << 8 | static_cast<unsigned char>(one.element)})
    warp.product_digest = mixed(warp.product_digest, word);
  warp.operands.push_back(std::move(operands));
}

// The warp's 16 rows of A, unless it is in registers, and all of B, in units of 16 bytes.
void Grid::read_operands(const GridWarp& warp, GridOperands& operands) {
  const simt::Multiply& one = operands.one;
  const auto read = [&](std::uint64_t descriptor, bool transposed, unsigned begin, unsigned places,
                        std::vector<std::uint8_t>& bytes) {
    std::string error;
    const MatrixOperand operand(descriptor, element_bytes(one), transposed, error);
    if (!error.empty()) fail("wgmma: " + error);
    const unsigned in_unit = kReadUnit / element_bytes(one), most_k = depth(one);
    bytes.clear();
    for (unsigned outer = 0; outer < (transposed ? most_k : places); ++outer) {
      for (unsigned inner = 0; inner < (transposed ? places : most_k); inner += in_unit) {
        const std::uint32_t address =
            transposed ? operand.address(begin + inner, outer) : operand.address(begin + outer, inner);
        if (address + kReadUnit > launch_.shape.dynamic_shared)
          fail("wgmma reads to byte " + std::to_string(address + kReadUnit) + " of dynamic shared memory, which has " +
               std::to_string(launch_.shape.dynamic_shared));
        const std::uint8_t* const from = running_->block->shared->data() + address;
        bytes.insert(bytes.end(), from, from + kReadUnit);
      }
    }
  };
  const auto row = static_cast<unsigned>(warp_number(warp)) % kWarpsOfGroup * kWarpRows;
  if (one.a_words == nullptr) read(one.a, one.transposed_a, row, kWarpRows, operands.a);
  read(one.b, one.transposed_b, 0, one.columns, operands.b);
}

void Grid::multiply_wait(unsigned pending) {
  GridThread& thread = *running_;
  exchange("wgmma wait_group", ~0U, 0);
  GridLane& lane = thread.products;
  const auto has_ended = [&](const auto& one) { return one.group + pending < lane.group; };
  for (const GridOperands& before : thread.warp->operands) {
    if (!has_ended(before)) continue;
    GridOperands now;
    now.one = before.one;
    read_operands(*thread.warp, now);
    if (now.a != before.a || now.b != before.b)
      fail("shared memory that a wgmma reads was changed before it had ended");
  }
  std::erase_if(thread.warp->operands, has_ended);
  for (const GridMultiply& one : lane.issued) {
    if (has_ended(one) && one.one.a_words != nullptr &&
        !std::equal(one.a_words.begin(), one.a_words.end(), one.one.a_words))
      fail("registers of A were changed before their wgmma had ended");
  }
  std::erase_if(lane.issued, has_ended);
  for (const GridSums& sums : lane.sums) {
    if (!has_ended(sums)) continue;
    if (!is_poison(sums)) fail("accumulators were changed before their wgmma had ended");
    std::copy(sums.values.begin(), sums.values.end(), sums.place);
  }
  std::erase_if(lane.sums, has_ended);
}

void Grid::check_warpgroups(const GridBlock& block) {
  for (std::size_t first = 0; first < block.warps.size(); first += kWarpsOfGroup) {
    const std::size_t end = std::min(first + kWarpsOfGroup, block.warps.size());
    for (std::size_t warp = first; warp < end; ++warp) {
      const GridWarp &one = block.warps[warp], &other = block.warps[first];
      if (one.products != other.products)
        fail("is the last of its block to end, where warp " + std::to_string(warp) + " has taken part in " +
             std::to_string(one.products) + " wgmma, and warp " + std::to_string(first) + " of its warpgroup in " +
             std::to_string(other.products));
      if (one.product_digest != other.product_digest)
        fail("is the last of its block to end, where the warps from " + std::to_string(first) +
             " on have given other operands to the same wgmma");
    }
    if (block.warps[first].products > 0 && end - first < kWarpsOfGroup)
      fail("wgmma by a warpgroup of " + std::to_string(end - first) + " warps");
  }
}

}  // namespace moetune::testing
