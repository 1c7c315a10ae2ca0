// Team: the fork-join threads of one NUMA node (DESIGN.md, section 4).
//
// The caller is worker 0; size()-1 pinned threads help it. run(pieces, fn) calls fn(piece, worker) once for
// every piece and returns when all are done. Each worker starts on its own contiguous share of the pieces
// (same pieces, same core, same pages, step after step) and then takes over pieces that others have not
// started, so a descheduled worker delays at most the one piece that it holds. Split into more pieces than
// workers for that to help. Workers spin between the runs of a step and park when no run comes for a short
// while; an idle Team uses no CPU. One thread at a time may call run; runs do not nest.
#pragma once

#include <memory>
#include <vector>

namespace octavo {

struct TeamOptions {
  std::vector<int> cpus;  ///< one worker a CPU; the first is the caller's. Never empty.
  bool pin = true;        ///< bind worker i to cpus[i] (the caller's thread is bound by bind_caller)
};

class Team {
 public:
  explicit Team(TeamOptions options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;

  template <class F>
  void run(int pieces, const F& fn) {
    run_raw(
        pieces,
        [](const void* context, int piece, int worker) { (*static_cast<const F*>(context))(piece, worker); },
        &fn);
  }

  /// Binds the calling thread to the first CPU (no effect without pin).
  void bind_caller() const;

 private:
  using RawFn = void (*)(const void* context, int piece, int worker);
  void run_raw(int pieces, RawFn fn, const void* context);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
