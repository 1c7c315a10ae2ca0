// The EVP interface allocates a context for each digest, also when one is reused (OpenSSL 3.0), and a decode
// step that fills a block must not allocate: hence the older functions.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/block_hash.h"

#include <openssl/sha.h>

#include <cstring>

namespace octavo {
namespace {

BlockHash digest(const BlockHash& parent, const void* data, size_t bytes) {
  SHA256_CTX context;
  unsigned char out[SHA256_DIGEST_LENGTH];
  SHA256_Init(&context);
  SHA256_Update(&context, &parent, sizeof parent);
  SHA256_Update(&context, data, bytes);
  SHA256_Final(out, &context);
  BlockHash hash;
  std::memcpy(&hash, out, sizeof hash);
  return hash;
}

}  // namespace

BlockHash root_hash(std::string_view salt) { return digest({}, salt.data(), salt.size()); }

BlockHash block_hash(const BlockHash& parent, std::span<const int32_t> tokens) {
  return digest(parent, tokens.data(), tokens.size_bytes());
}

}  // namespace octavo
