#include "serve/own_devices.h"

#include <algorithm>
#include <iterator>

#include "serve/network.h"
#include "streams.h"

#include "cleave/base/check.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/tcp/tcp_world.h"
#include "cleave/comm/together.h"
#include "cleave/train/save/own_part.h"
#include "cleave/train/step/owner_flow.h"

namespace cleave::app {
namespace {

using comm::Candidate;

void train_own_part(comm::TcpWorld& device, const comm::Assignment& assignment,
                    const std::string& owner) {
  train::Config config = train::parse_config(assignment.run, "the server's config");
  const engine::CompiledStep step = train::compile_step(config);
  config.train.out = train::server_directory(step, config, assignment.device);
  try {
    device.run(program_hash(step), [&](comm::Communicator& world) {
      comm::ProcessLauncher launcher(world, comm::ProcessLauncher::Files::OfTheFirst);
      train::RunObserver nobody;
      train::RunOptions options = shared_options(world, {});
      options.part = train::OwnerPart{.owner = owner, .data = ""};
      train::run(config, options, nobody, launcher);
    });
  } catch (const DeviceLost&) {  // The first device says so.
  } catch (const comm::PeerFailed&) {
  }
}

void serve_as_device(comm::Server& server, const comm::ServerContact& contact,
                     const std::string& owner) {
  try {
    comm::TcpWorld device(contact, {.name = "server", .key = server.own_key(), .owner = owner},
                          server.address().host);
    while (const std::optional<comm::Assignment>& assignment = device.await_epoch({}))
      train_own_part(device, *assignment, owner);
    device.say_bye();
  } catch (const std::exception& error) {
    complain("cleave serve: a device of {}: {}\n", owner, error.what());
  }
}

}  // namespace

std::vector<std::string> owners_of_devices(const train::Config& config) {
  std::vector<std::string> names;
  if (config.edge.averages() && train::owners_are_apart(config)) {
    for (const edge::Owner& owner : train::flow_owners(config))
      names.insert(owner.role == edge::Role::Server ? names.begin() : names.end(), owner.name);
    return names;
  }
  for (const int owner : train::device_owners(config))
    names.push_back(config.edge.owners[static_cast<std::size_t>(owner)].name);
  return names;
}

std::optional<std::vector<Candidate>> arrange_by_owner(const train::Config& config,
                                                       const std::vector<Candidate>& candidates) {
  std::vector<Candidate> left = candidates, devices;
  for (const std::string& owner : owners_of_devices(config)) {
    const auto found = std::ranges::find(left, owner, &Candidate::owner);
    if (found == left.end()) return std::nullopt;
    devices.push_back(*found);
    left.erase(found);
  }
  return devices;
}

std::vector<Candidate> present_owners(const train::Config& config,
                                      const std::vector<Candidate>& candidates) {
  std::vector<Candidate> devices;
  for (const std::string& owner : owners_of_devices(config))
    std::ranges::copy_if(candidates, std::back_inserter(devices),
                         [&](const Candidate& candidate) { return candidate.owner == owner; });
  return devices;
}

void declare_absences(const std::vector<Candidate>& candidates, std::int64_t round,
                      train::Config& config) {
  std::vector<std::string>& absent = config.edge.absent;
  for (const int client : config.edge.with_role(edge::Role::Client)) {
    const std::string& name = config.edge.owners[static_cast<std::size_t>(client)].name;
    const bool here = std::ranges::find(candidates, name, &Candidate::owner) != candidates.end();
    const auto open = std::ranges::find_if(absent, [&](const std::string& text) {
      return text.starts_with(name + " ") && text.ends_with("-");
    });
    if (!here && open == absent.end()) absent.push_back(name + " " + std::to_string(round) + "-");
    if (!here || open == absent.end()) continue;
    const std::string first = open->substr(name.size() + 1, open->size() - name.size() - 2);
    if (std::stoll(first) < round) {
      *open += std::to_string(round - 1);
    } else {
      absent.erase(open);  // it was back before a round had passed
    }
  }
}

std::string missing_owners(const train::Config& config, const std::vector<Candidate>& candidates) {
  std::string missing;
  for (const int client : config.edge.with_role(edge::Role::Client)) {
    const std::string& name = config.edge.owners[static_cast<std::size_t>(client)].name;
    if (std::ranges::find(candidates, name, &Candidate::owner) == candidates.end())
      missing += (missing.empty() ? "" : ", ") + name;
  }
  return missing;
}

OwnDevices::OwnDevices(const train::Config& config, comm::Server& server,
                       const comm::ServerContact& contact) {
  const std::vector<std::string> owners = owners_of_devices(config);
  if (owners.empty()) return;
  for (auto i = std::ranges::count(owners, owners[0]); i > 1; --i)
    threads_.emplace_back(
        [&server, &contact, owner = owners[0]] { serve_as_device(server, contact, owner); });
}

OwnDevices::~OwnDevices() {
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace cleave::app
