// Names the maker of a pack. A pack is code: its cubins run with the rights of the server that loads them.
//
// NAME.pack.sig holds signatures of NAME.pack, a line each, so that two makers may sign one pack, and so that a pack
// can be replaced under a reader: for a moment the file names the old and the new. A signature is Ed25519 over
// "moetune pack signature 1\n" and the SHA-512 of all bytes of the pack. It does not cover the file's name, nor its
// age: an older pack of the same maker is genuine.
//
// Texts, each line ended by a newline and nothing else between:
//   NAME.pack.sig   "moetune signature 1", then "KEY-ID SIGNATURE", 1 to 16 lines; hexadecimal, lower case
//   FILE            "moetune secret key 1", then the key; mode 0600
//   FILE.pub        "moetune public key 1", then the key
//
// Plain values; thread-safe. Errors: BadInput names the file and what is wrong with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ed25519.h"

namespace moetune {

inline constexpr std::size_t kMostPackBytes = std::size_t{1} << 30;  // that are checked in memory
inline constexpr std::size_t kMostSignatureBytes = 4096;

struct PackSignature {
  std::string key_id;  // 16 digits, of the key's SHA-512
  Signature signature{};
};

std::string key_id(const PublicKey& key);

// The signatures of a .sig file's text. `what` names it in errors.
std::vector<PackSignature> parse_signatures(std::string_view text, const std::string& what);
std::string signatures_text(const std::vector<PackSignature>& signatures);

PackSignature sign_pack(const SecretKey& key, std::string_view pack);

// Makes FILE and FILE.pub, neither of which may exist. Returns the public key.
PublicKey make_key_files(const std::filesystem::path& file);
// Refuses a file that others than its owner can read.
SecretKey read_secret_key(const std::filesystem::path& file);
PublicKey read_public_key(const std::filesystem::path& file);

std::filesystem::path signature_path(const std::filesystem::path& pack);

// Whether a service lists a file of this name as a pack, and a client takes it: "h200.pack", of letters, digits, '.',
// '_' and '-'; no path, no option and no hidden file.
bool is_pack_name(std::string_view name);

// The keys whose packs are loaded. None: every pack is.
class TrustedKeys {
 public:
  TrustedKeys() = default;
  // Each is a key in 64 digits, or the path of a FILE.pub.
  explicit TrustedKeys(const std::vector<std::string>& keys);

  bool empty() const { return keys_.empty(); }
  // "" if one of the keys has signed the pack; else why not, in words that go on after the pack's name.
  std::string why_refused(std::string_view pack, const std::vector<PackSignature>& signatures) const;
  // The bytes of a pack that one of the keys has signed. Throws BrokenEnvironment for any other.
  std::string read(const std::filesystem::path& pack) const;

 private:
  std::vector<PublicKey> keys_;
};

}  // namespace moetune
