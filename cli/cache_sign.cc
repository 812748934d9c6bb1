// cache new-key, sign and check: who made a pack (cache/pack_signature.h).
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "cache/check.h"
#include "cache/pack_signature.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "jobs/session/documents.h"

namespace moetune {

int make_key(const CacheArguments& arguments, Output& output) {
  const std::string& file = arguments.operand;
  const PublicKey key = make_key_files(file);
  const std::string text = hex_text(key.bytes.data(), key.bytes.size());
  output.result() << file << " signs packs; keep it secret.\n"
                  << file << ".pub says whom to trust: key " << key_id(key) << "\n";
  output.document({{"secret_key", file}, {"public_key", file + ".pub"}, {"key_id", key_id(key)}, {"public", text}});
  return kDone;
}

int sign_cache(const CacheArguments& arguments, Output& output) {
  if (arguments.key.empty()) throw BadInput("which key? --key FILE; `moetune cache new-key FILE` makes one");
  const SecretKey key = read_secret_key(arguments.key);
  const std::filesystem::path pack = arguments.operand;
  std::string bytes = read_regular_file(pack, kMostPackBytes);
  const PackSignature made = sign_pack(key, bytes);
  if (Cache::open_content(pack, std::move(bytes), Cache::Mode::read_only).manifest() == nullptr)
    throw BadInput(pack.string() + " is no pack; `moetune cache export` makes one");
  const std::string file = signature_path(pack).string();
  replace_file(file, signatures_text({made}));
  output.result() << file << ": signed by key " << made.key_id << "\n";
  output.document({{"pack", pack.string()}, {"signature", file}, {"key_id", made.key_id}});
  return kDone;
}

int check_named_cache(const CacheArguments& arguments, Output& output) {
  if (!arguments.operand.empty() && !arguments.cache.path.empty())
    throw BadInput("check: a file is named twice; give it as a word or by --cache");
  CacheChoice choice = arguments.cache;
  if (!arguments.operand.empty()) choice.path = arguments.operand;
  if (std::error_code unknown; !arguments.operand.empty() && !std::filesystem::exists(choice.path, unknown) && !unknown)
    throw BadInput("there is no file " + choice.path);
  if (!arguments.trust.empty()) {
    // Checks the very bytes that were verified; the file may change meanwhile.
    std::string bytes = TrustedKeys({arguments.trust}).read(choice.file());
    Cache pack = Cache::open_content(choice.file(), std::move(bytes), Cache::Mode::inspect);
    return check_cache(arguments, pack, output);
  }
  const std::unique_ptr<Cache> cache = open_named_cache(choice, Cache::Mode::inspect);
  return cache == nullptr ? print_nothing_tuned(choice, output) : check_cache(arguments, *cache, output);
}

}  // namespace moetune
