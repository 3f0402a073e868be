#include "cleave/engine/run/mover.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::engine {

namespace {

/// What passes between an accelerator and a disk at a time.
constexpr std::int64_t kBounced = 4 << 20;

}  // namespace

Mover::Mover(Memory& memory, Memory& outside, std::size_t most)
    : memory_(memory), outside_(outside), posts_(most), thread_([this] { work(); }) {}

Mover::~Mover() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  thread_.join();
}

std::uint64_t Mover::post(Way way, std::span<const Copy> copies) {
  const std::lock_guard lock(mutex_);
  CLEAVE_CHECK(posted_ - done_ < posts_.size(), "more than ", posts_.size(), " moves at once");
  posts_[posted_ % posts_.size()] = {.way = way, .copies = copies};
  news_.notify_all();
  return posted_++;
}

bool Mover::done(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return done_ > number;
}

Mover::Times Mover::wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return done_ > number; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return posts_[number % posts_.size()].times;
}

void Mover::drain() noexcept {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return done_ == posted_; });
}

void Mover::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [&] { return ends_ || done_ < posted_; });
    if (done_ == posted_) return;
    Post& post = posts_[done_ % posts_.size()];
    lock.unlock();
    std::exception_ptr failure;
    post.times.begin = Clock::now();
    try {
      carry_out(post);
    } catch (...) {
      failure = std::current_exception();
    }
    post.times.end = Clock::now();
    lock.lock();
    if (failure_ == nullptr) failure_ = failure;
    ++done_;
    news_.notify_all();
  }
}

void Mover::carry_out(const Post& post) {
  for (const Copy& copy : post.copies) {
    if (outside_.on_host(copy.outside) || memory_.on_host(copy.inside)) {
      move(post.way, copy);
      continue;
    }
    bounce_.resize(kBounced);
    for (std::int64_t done = 0; done < copy.bytes; done += kBounced) {
      const std::span part(bounce_.data(),
                           static_cast<std::size_t>(std::min(kBounced, copy.bytes - done)));
      if (post.way == Way::In) outside_.copy_out(copy.outside + done, part);
      if (post.way == Way::In) memory_.move_in(copy.inside + done, part);
      if (post.way == Way::Out) memory_.move_out(copy.inside + done, part);
      if (post.way == Way::Out) outside_.copy_in(copy.outside + done, part);
    }
  }
}

/// One of the two memories is the host's; the other one knows how to copy.
void Mover::move(Way way, const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(copy.bytes);
  if (outside_.on_host(copy.outside)) {
    if (way == Way::Out) memory_.move_out(copy.inside, {copy.outside, bytes});
    if (way == Way::In) memory_.move_in(copy.inside, {copy.outside, bytes});
  } else {
    if (way == Way::Out) outside_.copy_in(copy.outside, {copy.inside, bytes});
    if (way == Way::In) outside_.copy_out(copy.outside, {copy.inside, bytes});
  }
}

}  // namespace cleave::engine
