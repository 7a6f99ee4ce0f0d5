/* Tokens: 128 random bits that stand for something of emud in any process. Who knows one may use it, and nobody guesses
 * one. */
#ifndef EMU_TOKEN_H
#define EMU_TOKEN_H

#include <sodium.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace emu {

using Token = std::pair<uint64_t, uint64_t>;

inline Token new_token() {
  Token token;
  randombytes_buf(&token.first, sizeof token.first);
  randombytes_buf(&token.second, sizeof token.second);
  return token;
}

template <typename T>
class Tokens {
 public:
  Token add(const std::shared_ptr<T>& what) {
    const Token token = new_token();
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    known_.emplace(token, what);
    return token;
  }
  std::shared_ptr<T> find(const Token& token) const { // none: nobody's, or of what is gone
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(token);
    return found == known_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<Token, std::weak_ptr<T>> known_;
};

} // namespace emu

#endif
