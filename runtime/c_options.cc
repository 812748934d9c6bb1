#include "runtime/c_options.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/version.h"

namespace moetune {
namespace {

// The size of the options in version 1.0; a caller of that version leaves the later fields at zero.
constexpr std::size_t kFirstOptions = offsetof(moetune_open_options, trusted_keys);
constexpr std::size_t kLargestOptions = 4096;  // of any version to come

// A caller of a later version may set nothing that this one would ignore: it could be what keeps a file out.
moetune_open_options known_options(const moetune_open_options* all) {
  const std::size_t size = required(all, "options").size;
  if ((size != kFirstOptions && size < sizeof(moetune_open_options)) || size > kLargestOptions)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT,
                       "options.size is " + std::to_string(size) + "; set it to sizeof(moetune_open_options)");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(all);
  if (std::any_of(bytes + std::min(size, sizeof *all), bytes + size, [](unsigned char b) { return b != 0; }))
    throw RuntimeError(MOETUNE_UNSUPPORTED, "options hold fields of a later moetune than " + std::string(version()) +
                                                "; leave them zero, or load that library");
  moetune_open_options given{};
  std::memcpy(&given, bytes, std::min(size, sizeof given));
  return given;
}

}  // namespace

OpenOptions options_of(const moetune_open_options* all) {
  const moetune_open_options given = known_options(all);
  OpenOptions options{.device = given.device, .allow_recorded = given.allow_recorded != 0};
  if (given.path_count > 0) required(given.paths, "options.paths");
  for (std::size_t i = 0; i < given.path_count; ++i) options.paths.emplace_back(&required(given.paths[i], "a path"));
  if (given.trusted_key_count > 0) required(given.trusted_keys, "options.trusted_keys");
  for (std::size_t i = 0; i < given.trusted_key_count; ++i)
    options.trusted_keys.emplace_back(&required(given.trusted_keys[i], "a trusted key"));
  return options;
}

}  // namespace moetune
