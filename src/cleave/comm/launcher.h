#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cleave/comm/communicator.h"
#include "cleave/comm/local/local_world.h"

namespace cleave::comm {

/// What a device does; `world` is all devices of the run, as it sees them.
using DeviceWork = std::function<void(Communicator& world)>;

/// The threads of devices that only sleep: they need no cores of their own.
inline constexpr int kNoThreads = 0;

/// Gives every device of a run its world.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// The processes that take part in the run: what they agree on before there are devices. A world
  /// of one where this process has them all.
  virtual Communicator& processes() = 0;

  /// How many devices there are, where whoever started the processes has decided it.
  virtual std::optional<int> devices() const = 0;

  /// Whether the processes see the same files; else only the first sees those of the run.
  virtual bool shares_files() const = 0;

  /// Whether each of `devices` devices is a process of its own.
  bool has_own_processes(int devices) const { return devices == 1 || this->devices(); }

  /// Runs `work` on every device of this process, each with `threads` threads, and returns when all
  /// have ended. Throws the first exception.
  virtual void run(int devices, int threads, const DeviceWork& work,
                   const OnStuck& on_stuck = {}) = 0;

  /// Whether devices that are threads stay on cores of their own; they do unless told otherwise.
  void set_pin(Pin pin) { pin_ = pin; }

 protected:
  Pin pin_ = Pin::Yes;
};

/// Devices in this process: one is the calling thread, several are threads of their own.
class LocalLauncher final : public Launcher {
 public:
  Communicator& processes() override { return *alone_; }
  std::optional<int> devices() const override { return std::nullopt; }
  bool shares_files() const override { return true; }
  void run(int devices, int threads, const DeviceWork& work, const OnStuck& on_stuck) override;

 private:
  LocalWorld one_{1};
  std::unique_ptr<Communicator> alone_ = one_.join(0);
};

/// Each process is one device of `world`, which somebody else brought together: mpirun, or a
/// server.
class ProcessLauncher final : public Launcher {
 public:
  enum class Files : std::uint8_t { Shared, OfTheFirst };

  explicit ProcessLauncher(Communicator& world, Files files = Files::Shared)
      : world_(world), files_(files) {}

  Communicator& processes() override { return world_; }
  std::optional<int> devices() const override { return world_.size(); }
  bool shares_files() const override { return files_ == Files::Shared; }
  void run(int devices, int threads, const DeviceWork& work, const OnStuck& on_stuck) override;

 private:
  Communicator& world_;
  Files files_;
};

}  // namespace cleave::comm
