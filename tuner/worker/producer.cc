#include "tuner/worker/producer.h"

#include <algorithm>

namespace moetune {

Producer::Producer(Harness& harness, const std::vector<std::vector<FreshPart>>& by_copy,
                   const cuda::Stream& stream)
    : harness_(harness) {
  static_assert(sizeof(FreshPart) == 2 * sizeof(std::uint64_t));
  std::vector<FreshPart> all;
  for (const std::vector<FreshPart>& parts : by_copy) {
    Copy copy{all.size() * sizeof(FreshPart), parts.size(), 0};
    for (const FreshPart& part : parts) copy.words += part.words;
    all.insert(all.end(), parts.begin(), parts.end());
    copies_.push_back(copy);
  }
  const std::size_t bytes = all.size() * sizeof(FreshPart);
  list_ = cuda::allocate(static_cast<std::int64_t>(std::max(bytes, sizeof(FreshPart))));
  if (bytes > 0)
    cuda::copy_to_device(list_.get(), {reinterpret_cast<const std::uint8_t*>(all.data()), bytes}, stream);
}

void Producer::enqueue(std::int64_t copy) {
  const Copy& one = copies_.at(static_cast<std::size_t>(copy));
  harness_.produce(list_.get() + one.offset, one.parts, one.words);
}

}  // namespace moetune
