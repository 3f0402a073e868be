#include "cleave/comm/local/local_world.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_transport.h"

namespace cleave::comm {

// ── What the devices share ───────────────────────────────────────────────────────────────────────

LocalShared::LocalShared(int devices, std::vector<HardwareThreads> places)
    : left_(static_cast<std::size_t>(devices)) {
  if (!places.empty()) cores_.emplace(devices, std::move(places));
  for (int device = 0; device < devices; ++device) {
    transports_.push_back(std::make_unique<LocalTransport>(*this, device));
  }
}

bool LocalShared::cores_suffice() const {
  return static_cast<unsigned>(size()) <= std::thread::hardware_concurrency();
}

// Members ask one after another; the n-th request of each for the same group is the same context.
int LocalShared::open_context(int parent, std::span<const int> devices, int caller) {
  const std::lock_guard lock(mutex_);
  const std::pair key(parent, std::vector<int>(devices.begin(), devices.end()));
  std::vector<int>& opened = contexts_[key];
  const std::size_t call = calls_[key][caller]++;
  if (call == opened.size()) opened.push_back(next_context_++);
  return opened[call];
}

void LocalShared::wake_all() {
  for (const auto& transport : transports_) transport->notify();
}

void LocalShared::leave(int device) {
  left_.at(device).store(true, std::memory_order_release);
  wake_all();
  if (cores_) cores_->leave(device);
}

void LocalShared::abort(int device, std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    reason_ = reason;
    aborted_by_ = device;
    aborted_.store(true, std::memory_order_release);
  }
  wake_all();
}

void LocalShared::check_running(int device, const Message& message) const {
  if (aborted_.load(std::memory_order_acquire)) [[unlikely]] {
    throw DeviceLost(detail::concat("device ", aborted_by_, " stopped (", reason_,
                                    ") while device ", device, " was at its ", describe(message)));
  }
}

// ── The world ────────────────────────────────────────────────────────────────────────────────────

LocalWorld::LocalWorld(int devices, std::vector<HardwareThreads> places) {
  require(devices >= 1, "a run needs at least one device, not ", devices);
  shared_ = std::make_unique<LocalShared>(devices, std::move(places));
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const {
  return shared_->size();
}

std::unique_ptr<Communicator> LocalWorld::join(int device) {
  if (SharedCores* cores = shared_->cores()) cores->enter(device);
  return std::make_unique<Communicator>(shared_->transport(device));
}

void LocalWorld::leave(int device) {
  shared_->leave(device);
}

void LocalWorld::abort(int device, std::string_view reason) {
  shared_->abort(device, reason);
}

namespace {

/// How long the other devices may go on after one has failed: what they compute at the moment.
constexpr std::chrono::seconds kLongestEnd{3};

/// The devices of one run on their threads.
class Crew {
 public:
  Crew(LocalWorld& world, const std::function<void(Communicator&)>& work)
      : world_(world), work_(work), running_(world.size()) {}

  void run(const OnStuck& on_stuck) {
    std::vector<std::thread> threads;
    for (int device = 0; device < world_.size(); ++device) start(device, threads);
    if (on_stuck) watch(on_stuck);
    for (std::thread& thread : threads) thread.join();
    if (first_) std::rethrow_exception(first_);
  }

 private:
  /// The devices that have no thread count as ended; those that have one are told.
  void start(int device, std::vector<std::thread>& threads) {
    if (std::ssize(threads) < device) return end(device);
    try {
      threads.emplace_back([this, device] { run_device(device); });
    } catch (const std::system_error& error) {
      const std::string reason =
          detail::concat("the system starts no thread for device ", device, " of ", world_.size(),
                         ": ", error.code().message(),
                         "; use fewer devices, or raise the limits on processes and memory");
      try {
        throw std::runtime_error(reason);
      } catch (...) {
        fail(device, reason);
      }
      end(device);
    }
  }

  void run_device(int device) {
    try {
      work_(*world_.join(device));
    } catch (const std::exception& error) {
      fail(device, error.what());
    } catch (...) {
      fail(device, "unknown exception");
    }
    end(device);
  }

  void end(int device) {
    world_.leave(device);
    const std::lock_guard lock(mutex_);
    --running_;
    news_.notify_all();
  }

  void fail(int device, std::string_view reason) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::current_exception();
    world_.abort(device, reason);
    news_.notify_all();
  }

  void watch(const OnStuck& on_stuck) {
    std::unique_lock lock(mutex_);
    const auto all_ended = [&] { return running_ == 0; };
    news_.wait(lock, [&] { return first_ != nullptr || all_ended(); });
    if (news_.wait_for(lock, kLongestEnd, all_ended)) return;
    try {
      std::rethrow_exception(first_);
    } catch (const std::exception& error) {
      on_stuck(error);
    } catch (...) {
      // The error is not ours; it is thrown again once all have ended.
    }
  }

  LocalWorld& world_;
  const std::function<void(Communicator&)>& work_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable news_;
  int running_;
  std::exception_ptr first_;
};

}  // namespace

void run_devices(LocalWorld& world, const std::function<void(Communicator&)>& work,
                 const OnStuck& on_stuck) {
  Crew(world, work).run(on_stuck);
}

void run_devices(int devices, const std::function<void(Communicator&)>& work,
                 const OnStuck& on_stuck) {
  LocalWorld world(devices);
  run_devices(world, work, on_stuck);
}

void run_pinned(int devices, int threads, const std::function<void(Communicator&)>& work,
                const OnStuck& on_stuck, Pin pin) {
  std::vector<HardwareThreads> cores = allowed_cores();
  if (!cores.empty()) std::ranges::rotate(cores, cores.begin() + ::getpid() % std::ssize(cores));
  Pinning pinning = plan_pinning(cores, devices, threads);
  if (pin == Pin::No) {
    for (auto* places : {&pinning.devices, &pinning.shared})
      std::ranges::fill(*places, HardwareThreads());
  }
  LocalWorld world(devices, pinning.shared);
  const auto pinned = [&](Communicator& device) {
    const HardwareThreads& own = pinning.devices[static_cast<std::size_t>(device.rank())];
    if (!own.empty()) pin_this_thread(own);
    work(device);
  };
  run_devices(world, pinned, on_stuck);
}

}  // namespace cleave::comm
