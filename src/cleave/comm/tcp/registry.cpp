#include "cleave/comm/tcp/registry.h"

#include <algorithm>
#include <utility>

#include <sqlite3.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/utf8.h"

namespace cleave::comm {
namespace {

using std::chrono::hours;
using std::chrono::system_clock;

constexpr hours kAuthorityValid{10 * 365 * 24};
constexpr const char* kPrefix = "cleave1-";
constexpr std::size_t kTokenDigits = 32, kFingerprintDigits = 64;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS devices("
    " fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL, enrolled INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, revoked INTEGER, first TEXT);"
    "CREATE TABLE IF NOT EXISTS invitations("
    " token TEXT PRIMARY KEY, expires INTEGER NOT NULL, used INTEGER);";

std::int64_t seconds_of(system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

system_clock::time_point time_of_seconds(std::int64_t seconds) {
  return system_clock::time_point(std::chrono::seconds(seconds));
}

std::int64_t now_in_seconds() {
  return seconds_of(system_clock::now());
}

// A registry of an earlier version does not know which certificates are of one device.
constexpr const char* kFirstIsThere =
    "SELECT 1 FROM pragma_table_info('devices') WHERE name = 'first'";
constexpr const char* kAddFirst =
    "ALTER TABLE devices ADD COLUMN first TEXT; UPDATE devices SET first = fingerprint;";

/// One statement of SQL and its arguments.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    check(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(std::int64_t number) {
    check(sqlite3_bind_int64(statement_, ++bound_, number));
    return *this;
  }

  /// True while there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) check(code);
    return false;
  }

  std::string text(int column) const {
    const unsigned char* value = sqlite3_column_text(statement_, column);
    return value == nullptr ? "" : reinterpret_cast<const char*>(value);
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  void check(int code) const {
    if (code != SQLITE_OK)
      throw IoError(std::string("the registry of devices: ") + sqlite3_errmsg(database_));
  }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace

struct Registry::Database {
  sqlite3* handle = nullptr;
  ~Database() { sqlite3_close(handle); }
};

Registry::Registry(const std::filesystem::path& directory)
    : database_(std::make_unique<Database>()) {
  authority_ =
      kept_identity(directory, [] { return make_authority("cleave server", kAuthorityValid); });
  const std::string file = (directory / "registry.sqlite").string();
  if (sqlite3_open(file.c_str(), &database_->handle) != SQLITE_OK)
    throw IoError("cannot open " + file + ": " + sqlite3_errmsg(database_->handle));
  sqlite3_busy_timeout(database_->handle, 5000);
  const auto change = [&](const char* tables) {
    if (sqlite3_exec(database_->handle, tables, nullptr, nullptr, nullptr) != SQLITE_OK)
      throw IoError("cannot use " + file + ": " + sqlite3_errmsg(database_->handle));
  };
  change(kTables);
  if (!Statement(database_->handle, kFirstIsThere).step()) change(kAddFirst);
}

Registry::~Registry() = default;

std::string Registry::fingerprint() const {
  return read_certificate(authority_.certificate).fingerprint;
}

// Only a hash of the token is kept: whoever reads the database cannot use it.
std::string Registry::invite(std::chrono::minutes valid) {
  const std::string token = random_token();
  Statement(database_->handle, "INSERT INTO invitations(token, expires) VALUES(?, ?)")
      .bind(sha256(token))
      .bind(seconds_of(system_clock::now() + valid))
      .step();
  return kPrefix + token + "-" + fingerprint();
}

std::string Registry::enrol(const std::string& token, const std::string& public_key,
                            const std::string& name, hours valid) {
  // What is wrong with the request must not cost the invitation.
  check_device_name(name);
  const std::string certificate = certify(authority_, public_key, name, valid);
  const std::string hash = sha256(token);
  // One statement decides, so that two who come at once cannot both have it.
  Statement(database_->handle,
            "UPDATE invitations SET used = ? WHERE token = ? AND used IS NULL AND expires > ?")
      .bind(now_in_seconds())
      .bind(hash)
      .bind(now_in_seconds())
      .step();
  if (sqlite3_changes(database_->handle) == 0) {
    Statement look(database_->handle, "SELECT used FROM invitations WHERE token = ?");
    const bool known = look.bind(hash).step();
    require(known, "this server did not write that invitation");
    require(look.is_null(0), "that invitation was used already; ask for another");
    throw UserError("that invitation has expired; ask for another");
  }
  note(certificate, name, "");
  return certificate;
}

std::string Registry::renew(const std::string& fingerprint, const std::string& public_key,
                            hours valid) {
  Statement look(database_->handle, "SELECT name, first FROM devices WHERE fingerprint = ?");
  require(look.bind(fingerprint).step(), "this server has enrolled no such device");
  const std::string certificate = certify(authority_, public_key, look.text(0), valid);
  note(certificate, look.text(0), look.text(1));
  return certificate;
}

void Registry::note(const std::string& certificate, const std::string& name,
                    const std::string& first) {
  const CertificateFacts facts = read_certificate(certificate);
  Statement(database_->handle,
            "INSERT INTO devices(fingerprint, name, enrolled, expires, first)"
            " VALUES(?, ?, ?, ?, ?)")
      .bind(facts.fingerprint)
      .bind(name)
      .bind(now_in_seconds())
      .bind(seconds_of(facts.ends))
      .bind(first.empty() ? facts.fingerprint : first)
      .step();
}

std::string Registry::fault_of(const std::string& fingerprint) const {
  Statement look(database_->handle, "SELECT revoked FROM devices WHERE fingerprint = ?");
  if (!look.bind(fingerprint).step()) return "this server has enrolled no such device";
  return look.is_null(0) ? "" : "its certificate was revoked";
}

std::vector<DeviceRecord> Registry::devices() const {
  std::vector<DeviceRecord> records;
  Statement look(database_->handle,
                 "SELECT name, fingerprint, enrolled, expires, revoked, first FROM devices"
                 " ORDER BY enrolled, name, rowid");
  while (look.step())
    records.push_back({.name = look.text(0),
                       .fingerprint = look.text(1),
                       .first = look.text(5),
                       .enrolled = time_of_seconds(look.number(2)),
                       .expires = time_of_seconds(look.number(3)),
                       .revoked = !look.is_null(4)});
  return records;
}

DeviceRecord Registry::revoke(const std::string& which) {
  std::vector<DeviceRecord> matching;
  for (const DeviceRecord& device : devices()) {
    const bool fits = device.name == which || device.fingerprint.starts_with(which);
    if (!fits || device.revoked) continue;
    const auto same = std::ranges::find(matching, device.first, &DeviceRecord::first);
    if (same == matching.end()) {
      matching.push_back(device);
    } else {
      *same = device;
    }
  }
  require(matching.size() == 1, "\"", which, "\" names ", matching.size(),
          " devices with a certificate; give a name or the beginning of a fingerprint that cleave "
          "serve devices lists of one device only");
  Statement(database_->handle, "UPDATE devices SET revoked = ? WHERE first = ?")
      .bind(now_in_seconds())
      .bind(matching[0].first)
      .step();
  return matching[0];
}

void check_device_name(const std::string& name) {
  require(!name.empty() && name.size() <= 64, "the name of a device has 1 to 64 bytes, not ",
          name.size());
  require(printable_line(name) == name, "the name of a device is a line of UTF-8, not \"",
          printable_line(name), "\"; choose another with --name");
}

Invitation parse_invitation(const std::string& text) {
  const std::string prefix = kPrefix;
  const std::string rest = text.starts_with(prefix) ? text.substr(prefix.size()) : "";
  const bool well = rest.size() == kTokenDigits + 1 + kFingerprintDigits &&
                    rest[kTokenDigits] == '-' &&
                    rest.find_first_not_of("0123456789abcdef-") == std::string::npos;
  require(well, "this is no invitation; copy the whole line that cleave serve invite prints");
  return {rest.substr(0, kTokenDigits), rest.substr(kTokenDigits + 1)};
}

}  // namespace cleave::comm
