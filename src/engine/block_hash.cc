#include "engine/block_hash.h"

#include <openssl/evp.h>

#include <cstring>

#include "base/error.h"

namespace octavo {

BlockHasher::BlockHasher() : context_(EVP_MD_CTX_new()) {
  OCTAVO_CHECK(context_ && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1, "no SHA-256");
}

BlockHasher::~BlockHasher() { EVP_MD_CTX_free(context_); }

BlockHash BlockHasher::digest(const BlockHash& parent, const void* data, size_t bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  // A null type restarts the digest that the context already has, without allocating.
  bool ok = EVP_DigestInit_ex(context_, nullptr, nullptr) == 1 &&
            EVP_DigestUpdate(context_, &parent, sizeof parent) == 1 &&
            EVP_DigestUpdate(context_, data, bytes) == 1 && EVP_DigestFinal_ex(context_, out, nullptr) == 1;
  OCTAVO_CHECK(ok, "SHA-256 failed");
  BlockHash hash;
  std::memcpy(&hash, out, sizeof hash);
  return hash;
}

BlockHash BlockHasher::root(std::string_view salt) { return digest({}, salt.data(), salt.size()); }

BlockHash BlockHasher::next(const BlockHash& parent, std::span<const int32_t> tokens) {
  return digest(parent, tokens.data(), tokens.size_bytes());
}

}  // namespace octavo
