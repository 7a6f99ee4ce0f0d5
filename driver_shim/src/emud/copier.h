/* Host threads that move bytes: a large copy or fill is cut into pieces and spread. */
#ifndef EMU_COPIER_H
#define EMU_COPIER_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace emu {

class Copier {
 public:
  explicit Copier(unsigned threads); // the calling thread takes part: 1 starts none
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Each gives the bytes that it moved: fewer than `bytes` when `stopped` turned true between two pieces.
  size_t copy(void* to, const void* from, size_t bytes, const std::atomic<bool>& stopped); // ranges that do not overlap
  size_t move(void* to, const void* from, size_t bytes, const std::atomic<bool>& stopped); // ranges that may
  size_t fill(void* to, uint8_t value, size_t bytes, const std::atomic<bool>& stopped);

 private:
  using Piece = std::function<void(size_t offset, size_t bytes)>;
  size_t spread(size_t bytes, const Piece& piece, const std::atomic<bool>& stopped);
  bool do_one(std::unique_lock<std::mutex>& lock);
  void work();

  std::mutex callers_; // one spread at a time; who comes second does its own alone
  std::mutex mutex_;   // all that follows
  std::condition_variable started_;
  std::condition_variable finished_;
  const Piece* piece_ = nullptr;
  const std::atomic<bool>* stopped_ = nullptr;
  size_t bytes_ = 0;
  size_t next_ = 0;
  unsigned running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

} // namespace emu

#endif
