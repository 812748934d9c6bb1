#include "cache/pack_signature.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSignatureHead = "moetune signature 1\n";
constexpr std::string_view kSecretHead = "moetune secret key 1\n";
constexpr std::string_view kPublicHead = "moetune public key 1\n";
constexpr std::string_view kDomain = "moetune pack signature 1\n";
constexpr std::size_t kMostSignatures = 16;
constexpr std::size_t kIdDigits = 16;
constexpr int kMostLooks = 20;

std::string signed_message(std::string_view pack) {
  const auto digest = sha512(pack);
  return std::string(kDomain) + std::string(digest.begin(), digest.end());
}

// The key of a file of two lines.
template <std::size_t Size>
void parse_key(std::string_view text, std::string_view head, const fs::path& file,
               std::array<std::uint8_t, Size>& key) {
  const bool framed = text.size() == head.size() + 2 * Size + 1 && text.starts_with(head) && text.back() == '\n';
  if (!framed || !read_hex(text.substr(head.size(), 2 * Size), key.data(), Size))
    throw BadInput(file.string() + " is no " + std::string(head.substr(8, 10)) +
                   " as `moetune cache new-key` writes it");
}

void write_new_file(const fs::path& file, const std::string& text, mode_t mode) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0)
    throw BadInput(errno == EEXIST ? file.string() + " exists; name another file for the key"
                                   : "cannot make " + file.string() + ": " + std::strerror(errno));
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const bool kept = written == static_cast<ssize_t>(text.size()) && ::fsync(descriptor) == 0;
  const int error = errno;
  if (::close(descriptor) == 0 && kept) return;
  ::unlink(file.c_str());
  throw BrokenEnvironment("cannot write " + file.string() + ": " + std::strerror(error));
}

}  // namespace

std::string key_id(const PublicKey& key) {
  const auto digest = sha512({reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()});
  return hex_text(digest.data(), kIdDigits / 2);
}

std::vector<PackSignature> parse_signatures(std::string_view text, const std::string& what) {
  const BadInput malformed(what + " is no signature as `moetune cache sign` writes it");
  if (text.size() > kMostSignatureBytes || !text.starts_with(kSignatureHead)) throw malformed;
  text.remove_prefix(kSignatureHead.size());
  constexpr std::size_t kLine = kIdDigits + 1 + 128 + 1;
  if (text.empty() || text.size() % kLine != 0 || text.size() / kLine > kMostSignatures) throw malformed;
  std::vector<PackSignature> all;
  for (; !text.empty(); text.remove_prefix(kLine)) {
    PackSignature one;
    std::array<std::uint8_t, kIdDigits / 2> id;
    one.key_id = text.substr(0, kIdDigits);
    if (!read_hex(one.key_id, id.data(), id.size()) || text[kIdDigits] != ' ' || text[kLine - 1] != '\n' ||
        !read_hex(text.substr(kIdDigits + 1, 128), one.signature.data(), one.signature.size()))
      throw malformed;
    all.push_back(std::move(one));
  }
  return all;
}

std::string signatures_text(const std::vector<PackSignature>& signatures) {
  std::string text(kSignatureHead);
  for (const PackSignature& one : signatures)
    text += one.key_id + " " + hex_text(one.signature.data(), one.signature.size()) + "\n";
  return text;
}

PackSignature sign_pack(const SecretKey& key, std::string_view pack) {
  return {key_id(public_key_of(key)), sign(key, signed_message(pack))};
}

PublicKey make_key_files(const fs::path& file) {
  const SecretKey key = make_secret_key();
  const PublicKey own = public_key_of(key);
  const std::string public_text = std::string(kPublicHead) + hex_text(own.bytes.data(), own.bytes.size()) + "\n";
  write_new_file(file, std::string(kSecretHead) + hex_text(key.seed.data(), key.seed.size()) + "\n", 0600);
  try {
    write_new_file(file.string() + ".pub", public_text, 0644);
  } catch (...) {
    ::unlink(file.c_str());
    throw;
  }
  return own;
}

SecretKey read_secret_key(const fs::path& file) {
  SecretKey key;
  parse_key(read_regular_file(file, kMostSignatureBytes), kSecretHead, file, key.seed);
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0)
    throw BadInput(file.string() + " can be read by others; a secret key is its owner's alone: chmod 600");
  return key;
}

PublicKey read_public_key(const fs::path& file) {
  PublicKey key;
  parse_key(read_regular_file(file, kMostSignatureBytes), kPublicHead, file, key.bytes);
  return key;
}

bool is_pack_name(std::string_view name) {
  constexpr std::size_t kLongest = 128, kEnding = std::string_view(".pack").size();
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return name.size() <= kLongest && name.size() > kEnding && name.ends_with(".pack") && is_word(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
}

fs::path signature_path(const fs::path& pack) { return pack.string() + ".sig"; }

TrustedKeys::TrustedKeys(const std::vector<std::string>& keys) {
  for (const std::string& text : keys) {
    PublicKey key;
    if (!read_hex(text, key.bytes.data(), key.bytes.size())) key = read_public_key(text);
    keys_.push_back(key);
  }
}

std::string TrustedKeys::why_refused(std::string_view pack, const std::vector<PackSignature>& signatures) const {
  if (signatures.empty()) return "is not signed";
  const std::string message = signed_message(pack);
  bool known = false;
  for (const PackSignature& one : signatures) {
    for (const PublicKey& key : keys_) {
      if (key_id(key) != one.key_id) continue;
      known = true;
      if (is_signed(key, message, one.signature)) return "";
    }
  }
  return known ? "does not match its signature; take both from their maker again"
               : "is signed by " + signatures.front().key_id + ", which is not a trusted key";
}

std::string TrustedKeys::read(const fs::path& pack) const {
  const fs::path signature = signature_path(pack);
  try {
    std::optional<std::string> before;
    for (int look = 1;; ++look) {
      const std::optional<std::string> text = find_regular_file(signature, kMostSignatureBytes);
      if (!text) throw BrokenEnvironment(pack.string() + " is not signed (there is no " + signature.string() + ")");
      std::string bytes = read_regular_file(pack, kMostPackBytes);
      const std::string why = why_refused(bytes, parse_signatures(*text, signature.string()));
      if (why.empty()) return bytes;
      // A pack that is replaced meanwhile gets a new signature file too, which says that looking again is of use.
      if (before == text || look == kMostLooks) throw BrokenEnvironment(pack.string() + " " + why);
      before = text;
    }
  } catch (const BadInput& error) {
    throw BrokenEnvironment(error.what());
  }
}

}  // namespace moetune
