// Signatures of packs: what is accepted is what was signed, and by whom.
#include "cache/pack_signature.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/cache/support.h"
#include "tests/refusal.h"

using namespace moetune;
using namespace cache_test;

namespace {

std::string refusal(const TrustedKeys& keys, const fs::path& pack) {
  return broken([&] { keys.read(pack); });
}

struct Signed {
  Signed() {
    make_key_files(dir / "key");
    make_key_files(dir / "other");
    write_file(pack, "the bytes of a pack");
    write_file(signature_path(pack), signatures_text({by("key", "the bytes of a pack")}));
  }
  PackSignature by(const std::string& key, const std::string& bytes) const {
    return sign_pack(read_secret_key(dir / key), bytes);
  }
  TrustedKeys trusting(const std::string& key) const { return TrustedKeys({(dir / (key + ".pub")).string()}); }

  TempDir dir;
  const fs::path pack = dir / "a.pack";
};

std::string wrong_key(const std::vector<std::string>& keys) {
  return refusal_of([&] { TrustedKeys unused(keys); });
}

std::string malformed(const std::string& text) {
  return refusal_of([&] { parse_signatures(text, "a.pack.sig"); });
}

}  // namespace

TEST_CASE("Ed25519 and SHA-2 are those of their standards") {
  // RFC 8032, 7.1, test 2.
  SecretKey key;
  REQUIRE(read_hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", key.seed.data(), 32));
  const PublicKey own = public_key_of(key);
  CHECK(hex_text(own.bytes.data(), 32) == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const Signature made = sign(key, "\x72");
  CHECK(hex_text(made.data(), 64) ==
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  CHECK(is_signed(own, "\x72", made));
  CHECK_FALSE(is_signed(own, "\x73", made));
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a pack that a trusted key has signed is read") {
  const Signed files;
  CHECK(files.trusting("key").read(files.pack) == "the bytes of a pack");
  const auto text = read_file(files.dir / "key.pub");
  CHECK(TrustedKeys({text.substr(text.size() - 65, 64)}).read(files.pack) == "the bytes of a pack");
  // Two makers, and a line that is out of date.
  write_file(signature_path(files.pack),
             signatures_text({files.by("other", "what was there before"), files.by("other", "the bytes of a pack"),
                              files.by("key", "the bytes of a pack")}));
  CHECK(refusal(files.trusting("key"), files.pack) == "");
  CHECK(refusal(files.trusting("other"), files.pack) == "");
}

TEST_CASE("any other is refused, with the reason") {
  const Signed files;
  const TrustedKeys keys = files.trusting("key");
  CHECK(says(refusal(files.trusting("other"), files.pack), "which is not a trusted key"));
  const std::string text = read_file(signature_path(files.pack));
  for (std::size_t digit : {text.size() - 2, text.size() - 100, text.size() - 129}) {
    std::string altered = text;
    altered[digit] = altered[digit] == '0' ? '1' : '0';
    write_file(signature_path(files.pack), altered);
    CHECK(says(refusal(keys, files.pack), "does not match its signature"));
  }
  write_file(signature_path(files.pack), text);
  for (const char* bytes : {"the bytes of a pacK", "the bytes of a pac", "the bytes of a pack\n", ""}) {
    write_file(files.pack, bytes);
    CHECK(says(refusal(keys, files.pack), "does not match its signature"));
  }
  write_file(files.dir / "b.pack", "another pack");  // signed as well, and the signatures swapped
  write_file(signature_path(files.pack), signatures_text({files.by("key", "another pack")}));
  write_file(signature_path(files.dir / "b.pack"), text);
  CHECK(says(refusal(keys, files.pack), "does not match its signature"));
  CHECK(says(refusal(keys, files.dir / "b.pack"), "does not match its signature"));
  fs::remove(signature_path(files.pack));
  CHECK(says(refusal(keys, files.pack), "is not signed"));
}

TEST_CASE("a signature without its own domain is none") {
  const Signed files;
  const SecretKey key = read_secret_key(files.dir / "key");
  const auto digest = sha512("the bytes of a pack");
  for (const std::string& message : {std::string("the bytes of a pack"), std::string(digest.begin(), digest.end())}) {
    write_file(signature_path(files.pack), signatures_text({{key_id(public_key_of(key)), sign(key, message)}}));
    CHECK(says(refusal(files.trusting("key"), files.pack), "does not match its signature"));
  }
}

TEST_CASE("huge and odd files are not read") {
  const Signed files;
  const TrustedKeys keys = files.trusting("key");
  fs::resize_file(files.pack, kMostPackBytes + 1);  // a hole
  CHECK(says(refusal(keys, files.pack), "is larger than"));
  fs::remove(files.pack);
  REQUIRE(::mkfifo(files.pack.c_str(), 0600) == 0);
  CHECK(says(refusal(keys, files.pack), "is not a regular file"));
  fs::resize_file(signature_path(files.pack), std::uintmax_t{1} << 40);
  CHECK(says(refusal(keys, files.pack), "is larger than"));
}

TEST_CASE("a signature's text is as it is written, to the byte") {
  const Signed files;
  const std::string text = read_file(signature_path(files.pack));
  CHECK(malformed(text) == "");
  CHECK(signatures_text(parse_signatures(text, "")) == text);
  for (std::size_t size = 0; size < text.size(); ++size) CHECK(says(malformed(text.substr(0, size)), "a.pack.sig"));
  const std::string line = text.substr(text.find('\n') + 1);
  std::string upper = text;
  std::transform(upper.begin() + 20, upper.end(), upper.begin() + 20, [](unsigned char c) { return std::toupper(c); });
  std::string many = text;
  for (int i = 0; i < 16; ++i) many += line;
  for (const std::string& wrong :
       {text + " ", text + "\n", "\n" + text, upper, many, text + std::string(1, '\0'), "moetune signature 2\n" + line})
    CHECK(malformed(wrong) != "");
}

TEST_CASE("keys: new files only, the secret one its owner's alone, texts to the byte") {
  const Signed files;
  struct stat facts = {};
  REQUIRE(::stat((files.dir / "key").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  const std::string secret = read_file(files.dir / "key");
  CHECK_THROWS_WITH_AS(make_key_files(files.dir / "key"), doctest::Contains("exists; name another"), BadInput);
  CHECK(read_file(files.dir / "key") == secret);
  write_file(files.dir / "new.pub", "taken");
  CHECK_THROWS_AS(make_key_files(files.dir / "new"), BadInput);
  CHECK_FALSE(fs::exists(files.dir / "new"));  // nothing half-written
  fs::permissions(files.dir / "key", fs::perms::owner_read | fs::perms::group_read);
  CHECK_THROWS_WITH_AS(read_secret_key(files.dir / "key"), doctest::Contains("chmod 600"), BadInput);

  CHECK(says(wrong_key({(files.dir / "key").string()}), "is no public key"));  // the secret one
  CHECK(says(wrong_key({std::string(63, 'a')}), "cannot read"));
  CHECK(says(wrong_key({""}), "cannot read"));
  write_file(files.dir / "short.pub", "moetune public key 1\nab\n");
  CHECK(says(wrong_key({(files.dir / "short.pub").string()}), "is no public key"));
}
