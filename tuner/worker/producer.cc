#include "tuner/worker/producer.h"

#include <algorithm>

namespace moetune {

Producer::Producer(Harness& harness, const std::vector<std::vector<FreshPart>>& by_turn, const cuda::Stream& stream)
    : harness_(harness) {
  static_assert(sizeof(FreshPart) == 2 * sizeof(std::uint64_t));
  std::vector<FreshPart> all;
  for (const std::vector<FreshPart>& parts : by_turn) {
    Turn turn{all.size() * sizeof(FreshPart), parts.size(), 0};
    for (const FreshPart& part : parts) turn.words += part.words;
    all.insert(all.end(), parts.begin(), parts.end());
    turns_.push_back(turn);
  }
  const std::size_t bytes = all.size() * sizeof(FreshPart);
  list_ = cuda::allocate(static_cast<std::int64_t>(std::max(bytes, sizeof(FreshPart))));
  if (bytes > 0) cuda::copy_to_device(list_.get(), {reinterpret_cast<const std::uint8_t*>(all.data()), bytes}, stream);
}

void Producer::enqueue(std::int64_t turn) {
  const Turn& one = turns_.at(static_cast<std::size_t>(turn));
  harness_.produce(list_.get() + one.offset, one.parts, one.words);
}

}  // namespace moetune
