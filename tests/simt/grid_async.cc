// mbarriers of Grid, and what lands in shared memory by itself: bulk copies, stores to another block, copies that an
// arrival follows.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/simt/grid.h"
#include "tests/simt/tensor_box.h"

namespace moetune::testing {
namespace {

constexpr std::uint64_t kMbarrierMark = 0xb417'e5b4'0000'0000;  // with the address: what an mbarrier's bytes hold
constexpr std::size_t kMbarrierBytes = 8;
constexpr std::int64_t kMostCounted = (1 << 20) - 1;
constexpr int kLandingPoison = 0xFF;  // NaN in every element type
constexpr unsigned kStaticBit = 30, kRankBit = 24;

std::string place_name(std::uint32_t address, const simt::Index& block) {
  return "byte " + std::to_string(address) + " of the shared memory of block " + format_index(block);
}

}  // namespace

GridBlock& Grid::owner_of(std::uint32_t& address, std::size_t bytes, std::size_t alignment, const char* what) {
  if (address >> kStaticBit != 0) fail(std::string(what) + " in static shared memory is not supported");
  const std::uint32_t rank = address >> kRankBit;
  address &= (1U << kRankBit) - 1;
  const auto& others = running_->block->cluster->blocks;
  GridBlock* const block = rank == 0 ? running_->block : rank <= others.size() ? others[rank - 1] : nullptr;
  if (block == nullptr)
    fail(std::string(what) + " in block " + std::to_string(rank - 1) + " of its cluster, which is not running");
  if (address % alignment != 0)
    fail(std::string(what) + " at byte " + std::to_string(address) + " of shared memory, which is no multiple of " +
         std::to_string(alignment));
  if (address + bytes > launch_.shape.dynamic_shared)
    fail(std::string(what) + " to byte " + std::to_string(address + bytes) + " of dynamic shared memory, which has " +
         std::to_string(launch_.shape.dynamic_shared));
  return *block;
}

std::uint8_t* Grid::shared_bytes(GridBlock& block, std::uint32_t address) {
  if (address >> kStaticBit == 0) return block.shared->data() + address;
  const std::uint32_t place = address - (1U << kStaticBit);
  return (in_place_ == &block ? launch_.module.shared_begin : block.static_shared.data()) + place;
}

// --- mbarriers ------------------------------------------------------------------------------------------------

GridMbarrier* Grid::mbarrier_at(GridBlock& block, std::uint32_t address, std::string& error) {
  const auto found = block.mbarriers.find(address);
  if (found == block.mbarriers.end()) {
    error = "there is no initialized mbarrier at " + place_name(address, block.threads[0].view.block);
    return nullptr;
  }
  std::uint64_t mark = 0;
  std::memcpy(&mark, shared_bytes(block, address), sizeof mark);
  if (mark == (kMbarrierMark | address)) return &found->second;
  error = "the mbarrier at " + place_name(address, block.threads[0].view.block) + " was overwritten";
  return nullptr;
}

std::string Grid::count(GridBlock& block, std::uint32_t address, unsigned arrivals, std::int64_t bytes) {
  std::string error;
  GridMbarrier* const barrier = mbarrier_at(block, address, error);
  if (barrier == nullptr) return error;
  const auto wrong = [&](const std::string& what) {
    return what + " at the mbarrier at " + place_name(address, block.threads[0].view.block) + ", in phase " +
           std::to_string(barrier->phase);
  };
  if (arrivals > barrier->pending)
    return wrong("an arrival more than the " + std::to_string(barrier->expected) + " of a phase");
  barrier->pending -= arrivals;
  barrier->bytes += bytes;
  if (std::abs(barrier->bytes) > kMostCounted) return wrong("more bytes than it can count");
  if (barrier->pending > 0 || barrier->bytes > 0) return "";
  if (barrier->bytes < 0) return wrong(std::to_string(-barrier->bytes) + " bytes landed that nobody expects");
  ++barrier->phase;
  barrier->pending = barrier->expected;
  for (GridThread* thread : barrier->waiting) make_ready(*thread);
  barrier->waiting.clear();
  idle_dispatches_ = 0;
  return "";
}

void Grid::mbarrier_init(unsigned address, unsigned arrivals) {
  GridBlock& block = owner_of(address, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
  if (&block != running_->block) fail("initializes an mbarrier of another block");
  if (arrivals < 1 || arrivals > kMostCounted) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals");
  if (!block.mbarriers.emplace(address, GridMbarrier{arrivals, arrivals, 0, 0, {}}).second)
    fail("initializes the mbarrier at byte " + std::to_string(address) + " of shared memory twice");
  const std::uint64_t mark = kMbarrierMark | address;
  std::memcpy(shared_bytes(block, address), &mark, sizeof mark);
}

void Grid::mbarrier_expect(unsigned address, unsigned bytes) {
  GridBlock& block = owner_of(address, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
  if (const std::string wrong = count(block, address, 0, bytes); !wrong.empty()) fail(wrong);
}

void Grid::mbarrier_arrive(unsigned address) {
  GridBlock& block = owner_of(address, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
  if (const std::string wrong = count(block, address, 1, 0); !wrong.empty()) fail(wrong);
  give_way();
}

// Looks again when it runs: whoever comes late by a whole round misses the phase, as on a GPU.
void Grid::mbarrier_wait(unsigned address, unsigned parity) {
  GridThread& thread = *running_;
  GridBlock& block = owner_of(address, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
  if (&block != thread.block) fail("waits for an mbarrier of another block");
  if (parity > 1) fail("waits for parity " + std::to_string(parity) + " of an mbarrier");
  for (;;) {
    std::string error;
    GridMbarrier* const barrier = mbarrier_at(block, address, error);
    if (barrier == nullptr) fail(error);
    if (barrier->phase % 2 != parity) return give_way();
    thread.mbarrier = address;
    thread.parity = parity;
    thread.state = ThreadState::mbarrier;
    barrier->waiting.push_back(&thread);
    leave();
  }
}

// --- what lands later -----------------------------------------------------------------------------------------

void Grid::check_map(const void* map, int rank) {
  const auto& tensor = *static_cast<const simt::TensorMap*>(map);
  if (tensor.mark != simt::TensorMap::kMark) fail("a tensor map that nobody encoded");
  if (rank != 0 && rank != tensor.rank)
    fail("a copy of rank " + std::to_string(rank) + " with a tensor map of rank " + std::to_string(tensor.rank));
}

void Grid::bulk_copy(const simt::BulkCopy* copy) {
  const bool is_box = copy->rank > 0;
  GridDelivery one;
  if (is_box) {
    check_map(copy->source, copy->rank);
    const auto& map = *static_cast<const simt::TensorMap*>(copy->source);
    one.swizzle_bytes = map.swizzle_bytes;
    one.bytes = std::make_shared<const std::vector<std::uint8_t>>(read_box(map, copy->at));
  } else {
    const auto* from = static_cast<const std::uint8_t*>(copy->source);
    if (copy->bytes == 0 || copy->bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
      fail("a bulk copy whose source or size is no multiple of 16");
    one.bytes = std::make_shared<const std::vector<std::uint8_t>>(from, from + copy->bytes);
  }
  one.asked_by = name_of(*running_);
  const unsigned own = 1U << running_->view.cluster_rank, blocks = copy->blocks == 0 ? own : copy->blocks;
  if (blocks >> cluster_size() != 0) fail("a copy to a block that the cluster does not have");
  for (std::uint32_t rank = 0; rank < cluster_size(); ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    const std::uint32_t prefix = (rank + 1) << kRankBit;
    one.destination = copy->destination | prefix;
    one.barrier = copy->barrier | prefix;
    if (copy->destination >> kRankBit != 0 || copy->barrier >> kRankBit != 0)
      fail("a bulk copy to what is no dynamic shared memory of its block");
    one.block = &owner_of(one.destination, one.bytes->size(), is_box ? 128 : 16, "a bulk copy");
    owner_of(one.barrier, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
    for (const GridDelivery& other : deliveries_) {
      if (other.block == one.block && other.bytes != nullptr &&
          other.destination < one.destination + one.bytes->size() &&
          one.destination < other.destination + other.bytes->size())
        fail("asks for a copy to where one of " + other.asked_by + " has not landed");
    }
    send(one, copy->source);
  }
}

void Grid::store_async(unsigned address, unsigned barrier, const void* words, unsigned bytes) {
  GridDelivery one;
  const auto* from = static_cast<const std::uint8_t*>(words);
  one.bytes = std::make_shared<const std::vector<std::uint8_t>>(from, from + bytes);
  one.destination = address;
  one.barrier = barrier;
  one.block = &owner_of(one.destination, bytes, bytes, "a store");
  if (&owner_of(one.barrier, kMbarrierBytes, kMbarrierBytes, "an mbarrier") != one.block)
    fail("a store to one block that an mbarrier of another counts");
  one.asked_by = name_of(*running_);
  send(one, words);
}

void Grid::send(GridDelivery delivery, const void* from) {
  std::string wrong;
  if (mbarrier_at(*delivery.block, delivery.barrier, wrong) == nullptr) fail(wrong);
  std::uint8_t* const to = shared_bytes(*delivery.block, delivery.destination);
  // Words that a block sends to where it has them already stay as they are.
  if (to != from) std::memset(to, kLandingPoison, delivery.bytes->size());
  // Late, readers that do not wait show; at once, writers that do not.
  if (random() % 3 < options_.seed % 4) {
    if (wrong = land(delivery); !wrong.empty()) fail(wrong);
  } else {
    deliveries_.push_back(std::move(delivery));
  }
}

std::string Grid::land(const GridDelivery& delivery) {
  GridBlock& block = *delivery.block;
  const std::vector<std::uint8_t>& bytes = *delivery.bytes;
  if (delivery.swizzle_bytes == 0) {
    std::memcpy(shared_bytes(block, delivery.destination), bytes.data(), bytes.size());
  } else {
    for (std::uint32_t i = 0; i < bytes.size(); i += 16)
      std::memcpy(shared_bytes(block, swizzled(delivery.destination + i, delivery.swizzle_bytes)), &bytes[i], 16);
  }
  return count(block, delivery.barrier, 0, -static_cast<std::int64_t>(bytes.size()));
}

bool Grid::deliver() {
  if (deliveries_.empty()) return false;
  const auto which = options_.seed == 0 ? 0 : static_cast<std::ptrdiff_t>(random() % deliveries_.size());
  const auto at = std::next(deliveries_.begin(), which);
  const GridDelivery one = std::move(*at);
  deliveries_.erase(at);
  idle_dispatches_ = 0;
  if (one.copier == nullptr) {
    if (const std::string wrong = land(one); !wrong.empty()) error_ = one.asked_by + ": " + wrong;
    return true;
  }
  running_ = one.copier;  // who is blamed if a source cannot be read
  for (bool arrived = false; !arrived && error_.empty();) {
    arrived = one.copier->view.oldest_copy->arrives;
    error_ = make_next_copy(*one.copier);
  }
  running_ = nullptr;
  return true;
}

// --- cp.async -------------------------------------------------------------------------------------------------

// Makes a thread's oldest pending copy, or the arrival that is next. Says what is wrong.
std::string Grid::make_next_copy(GridThread& thread) {
  simt::PendingCopy* const copy = thread.view.oldest_copy;
  std::string wrong;
  if (copy->arrives) {
    wrong = count(*thread.block, copy->destination, 1, 0);
    if (!wrong.empty()) wrong = name_of(thread) + ": " + wrong;
  } else if (std::uint8_t* const to = shared_bytes(*thread.block, copy->destination); copy->source == nullptr) {
    std::memset(to, 0, copy->bytes);
  } else {
    std::memcpy(to, copy->source, copy->bytes);
  }
  thread.view.oldest_copy = copy->next;
  std::free(copy);
  return wrong;
}

void Grid::make_copies(unsigned group) {
  GridThread& thread = *running_;
  const auto is_older = [&](const simt::PendingCopy* copy) {
    return copy != nullptr && static_cast<int>(copy->group - group) < 0;
  };
  while (is_older(thread.view.oldest_copy)) {
    if (thread.view.oldest_copy->arrives) {
      const auto mine = [&](const GridDelivery& one) { return one.copier == &thread; };
      deliveries_.erase(std::find_if(deliveries_.begin(), deliveries_.end(), mine));
    }
    if (error_ = make_next_copy(thread); !error_.empty()) leave();
  }
}

void Grid::await_copies() {
  std::uint32_t address = running_->view.newest_copy->destination;
  GridDelivery one;
  one.block = &owner_of(address, kMbarrierBytes, kMbarrierBytes, "an mbarrier");
  if (one.block != running_->block) fail("an arrival behind copies at an mbarrier of another block");
  one.copier = running_;
  deliveries_.push_back(std::move(one));
}

// All its threads have ended; the last of them calls it.
void Grid::end_block(GridBlock& block) {
  check_warpgroups(block);
  for (const GridDelivery& one : deliveries_) {
    if (one.block == &block && one.bytes != nullptr)
      fail("is the last of its block to end, where what " + one.asked_by + " sent to byte " +
           std::to_string(one.destination) + " of shared memory has not landed");
  }
  std::erase_if(deliveries_, [&](const GridDelivery& one) { return one.block == &block; });
  block.cluster->blocks[block.number % cluster_size()] = nullptr;
}

}  // namespace moetune::testing
