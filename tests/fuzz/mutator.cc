#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <utility>

namespace moetune::fuzz {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

const std::vector<std::string> kNumbers = {"0",
                                           "-1",
                                           "1",
                                           "127",
                                           "65536",
                                           "2147483647",
                                           "-2147483648",
                                           "4294967296",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "18446744073709551615",
                                           "99999999999999999999999",
                                           "1e308",
                                           "1e-308",
                                           "1e999",
                                           "-0.0",
                                           "0.5",
                                           "nan",
                                           "null",
                                           "true",
                                           "\"\"",
                                           "[]",
                                           "{}"};

const std::string& pick(const std::vector<std::string>& list, Random& random) {
  return list[random.below(list.size())];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number that stands at or behind a random place, or nothing.
std::pair<std::size_t, std::size_t> number_in(const std::string& input, Random& random) {
  if (input.empty()) return {0, 0};
  std::size_t begin = random.below(input.size());
  while (begin < input.size() && !is_digit(input[begin])) ++begin;
  while (begin > 0 && begin < input.size() && is_digit(input[begin - 1])) --begin;
  std::size_t end = begin;
  while (end < input.size() && (is_digit(input[end]) || input[end] == '.')) ++end;
  return {begin, end - begin};
}

}  // namespace

Mutator::Mutator(std::vector<std::string> seeds, std::vector<std::string> words)
    : seeds_(std::move(seeds)), words_(std::move(words)) {
  words_.insert(words_.end(), kNumbers.begin(), kNumbers.end());
}

std::string Mutator::make(Random& random) const {
  std::string input = pick(seeds_, random);
  const std::uint64_t changes = std::uint64_t{1} << random.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) change(input, random);
  if (input.size() > kLongest) input.resize(kLongest);
  return input;
}

void Mutator::change(std::string& input, Random& random) const {
  const std::size_t at = random.below(input.size() + 1);
  const std::size_t left = input.size() - at;
  const std::size_t length = std::min<std::size_t>(left, 1 + random.below(std::uint64_t{1} << random.below(8)));
  switch (random.below(10)) {
    case 0:  // a bit
      if (left > 0) input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
      break;
    case 1:  // a byte
      if (left > 0) input[at] = static_cast<char>(random.below(256));
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, pick(words_, random));
      break;
    case 4:
      input.insert(at, input.substr(at, length));
      break;
    case 5: {
      const auto [begin, size] = number_in(input, random);
      if (size > 0) input.replace(begin, size, pick(kNumbers, random));
      break;
    }
    case 6:  // another word at the place of some bytes
      input.replace(at, length, pick(words_, random));
      break;
    case 7: {  // a piece of another seed
      const std::string& other = pick(seeds_, random);
      const std::size_t from = random.below(other.size() + 1);
      input.replace(at, length, other.substr(from, 1 + random.below(64)));
      break;
    }
    case 8:
      if (random.below(8) == 0) input.resize(at);
      break;
    default:  // the same again, many times
      if (length > 0 && random.below(8) == 0) {
        const std::string piece = input.substr(at, length);
        for (std::uint64_t i = random.below(2000); i > 0 && input.size() < kLongest; --i) input.insert(at, piece);
      }
  }
}

}  // namespace moetune::fuzz
