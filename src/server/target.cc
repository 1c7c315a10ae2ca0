#include "server/http.h"

namespace octavo {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool split_target(std::string_view target, std::string& path, std::string& query) {
  path.clear();
  query.clear();
  if (size_t hash = target.find('#'); hash != target.npos) target = target.substr(0, hash);
  if (size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
    size_t slash = target.find('/', scheme + 3);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return target == "*";  // OPTIONS *
  if (size_t mark = target.find('?'); mark != target.npos) {
    query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  for (size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%') {
      if (i + 2 >= target.size() || hex(target[i + 1]) < 0 || hex(target[i + 2]) < 0) return false;
      c = static_cast<char>(hex(target[i + 1]) * 16 + hex(target[i + 2]));
      i += 2;
    }
    if (c == '/' && path.ends_with('/')) continue;  // clients that join "host/" and "/v1"
    path += c;
  }
  return true;
}

}  // namespace octavo
