// Whose certificate a server takes, and for how long.

#include <filesystem>
#include <optional>

#include "comm/server_fixture.h"
#include <sys/stat.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/tcp_world.h"

namespace cleave::comm {
namespace {

class CredentialsTest : public ServerTest {
 protected:
  Letter renew(const Identity& identity) {
    const Tls tls(identity);
    return ask_server(contact(tls), {"renew", public_key_of(identity.key)});
  }
};

TEST_F(CredentialsTest, ShowBothClocksWhenACertificateBeginsLater) {
  start(2);
  const Identity good = enrol("good");
  Identity early{.key = make_key(), .authority = good.authority};
  early.certificate =
      certify(registry_.authority(), public_key_of(early.key), "early", 3 * kDay, kDay);
  const std::string refused = refusal(early);
  EXPECT_TRUE(
      refused.starts_with("the server refuses: its certificate is not accepted: certificate is not "
                          "yet valid: it begins "))
      << refused;
  EXPECT_TRUE(refused.ends_with(" UTC; compare the clocks of both machines")) << refused;
  EXPECT_TRUE(logged("(early): its certificate is not accepted: certificate is not yet valid"));
}

TEST_F(CredentialsTest, BeginADayEarlyForClocksThatAreBehind) {
  start(1);
  const CertificateFacts facts = read_certificate(enrol("phone").certificate);
  EXPECT_LT(facts.begins, std::chrono::system_clock::now() - 23h);
}

TEST_F(CredentialsTest, AreRefusedFromAnotherServerEvenUnderItsName) {
  start(2);
  const testing::TemporaryDirectory elsewhere;
  Registry other(elsewhere.path() / "server");
  Identity foreign{.key = make_key(), .authority = other.authority().certificate};
  foreign.certificate = certify(other.authority(), public_key_of(foreign.key), "good", kDay);
  enrol("good");
  EXPECT_NE(refusal(foreign).find("its certificate is not accepted: "), std::string::npos);
  EXPECT_TRUE(logged("(good): its certificate is not accepted: "));
}

TEST_F(CredentialsTest, AreNotRenewedOnceRevoked) {
  start(1);
  const Identity phone = enrol("phone");
  registry_.revoke("phone");
  EXPECT_EQ(testing::user_error([&] { renew(phone); }),
            "the server refuses: its certificate was revoked");
}

TEST_F(CredentialsTest, AreRevokedWithAllThatTheyWereRenewedTo) {
  start(2);
  const Identity old = enrol("phone");
  Identity renewed = old;
  renewed.certificate = renew(old).at(1);
  Identity again = old;
  again.certificate = renew(renewed).at(1);
  EXPECT_EQ(registry_.revoke("phone").name, "phone");
  for (const Identity& each : {old, renewed, again})
    EXPECT_EQ(refusal(each), "the server refuses: its certificate was revoked");
}

TEST_F(CredentialsTest, AreNeededForAsLongAsADeviceTakesPart) {
  start(2);
  const Identity own = enrol("own"), phone = enrol("phone");
  const Tls tls_own(own), tls_phone(phone);
  ServerLine first(contact(tls_own)), second(contact(tls_phone));
  first.open();
  first.join({.name = "own", .port = 1, .key = server_->own_key()});
  second.open();
  second.join({.name = "phone", .port = 1});
  server_->set_silence(1h);
  begin(2);
  ASSERT_TRUE(first.await_epoch({}).has_value());
  registry_.revoke("phone");
  EXPECT_TRUE(logged("device 1 (phone) is lost: its certificate was revoked"));
  EXPECT_EQ(refusal(phone), "the server refuses: its certificate was revoked");
}

TEST_F(CredentialsTest, OfTwoDevicesWithOneNameAreRevokedByFingerprint) {
  start(2);
  const Identity first = enrol("phone"), second = enrol("phone");
  EXPECT_NE(testing::user_error([&] { registry_.revoke("phone"); }).find("names 2 devices"),
            std::string::npos);
  registry_.revoke(read_certificate(first.certificate).fingerprint);
  EXPECT_EQ(refusal(first), "the server refuses: its certificate was revoked");
  EXPECT_EQ(registry_.fault_of(read_certificate(second.certificate).fingerprint), "");
}

TEST_F(CredentialsTest, OutliveTheServerInACopyOfItsDirectory) {
  start(1);
  const Identity phone = enrol("phone"), lost = enrol("lost");
  registry_.revoke("lost");
  std::filesystem::copy(directory_.path() / "server", directory_.path() / "backup",
                        std::filesystem::copy_options::recursive);
  const Registry backup(directory_.path() / "backup");
  EXPECT_EQ(backup.fingerprint(), registry_.fingerprint());
  EXPECT_EQ(backup.fault_of(read_certificate(phone.certificate).fingerprint), "");
  EXPECT_EQ(backup.fault_of(read_certificate(lost.certificate).fingerprint),
            "its certificate was revoked");
}

TEST_F(CredentialsTest, AreNeededToAskHowTheRunGoes) {
  start(1);
  const Tls stranger({});
  for (const Letter& letter : {Letter{"status"}, Letter{"relay", "0", "1"}, Letter{"answer", "x"},
                               Letter{"renew", public_key_of(make_key())}})
    EXPECT_EQ(testing::user_error([&] { ask_server(contact(stranger), letter); }),
              "the server refuses: it shows no certificate; enrol it first with an invitation");
}

TEST_F(CredentialsTest, AreNotWrittenForNamesThatAreNone) {
  start(1);
  const Tls stranger({});
  for (const std::string& name : {std::string(), std::string(65, 'x')}) {
    const Invitation invitation = parse_invitation(registry_.invite(10min));
    EXPECT_EQ(testing::user_error([&] {
                ask_server(contact(stranger),
                           {"enrol", invitation.token, public_key_of(make_key()), name});
              }),
              "the server refuses: the name of a device has 1 to 64 bytes, not " +
                  std::to_string(name.size()));
  }
}

TEST_F(CredentialsTest, AndTokensAreInNoLog) {
  start(2);
  const Invitation invitation = parse_invitation(registry_.invite(10min));
  const Tls stranger({});
  const std::string key = make_key();
  const Letter question = {"enrol", invitation.token, public_key_of(key), "phone"};
  ask_server(contact(stranger), question);
  EXPECT_NE(testing::user_error([&] { ask_server(contact(stranger), question); }), "");
  EXPECT_TRUE(logged("that invitation was used already"));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(log_.find(invitation.token), std::string::npos);
  EXPECT_EQ(log_.find("PRIVATE"), std::string::npos);
}

TEST_F(CredentialsTest, DoNotHelpADeviceWithAnotherProgram) {
  start(2);
  const Identity own = enrol("own"), odd = enrol("odd");
  const Tls tls_own(own), tls_odd(odd);
  ServerLine first(contact(tls_own));
  first.open();
  first.join({.name = "own", .port = 1, .key = server_->own_key()});
  TcpWorld device(contact(tls_odd), {.name = "odd"}, "127.0.0.1");
  begin(2);
  ASSERT_TRUE(device.await_epoch({}).has_value());
  EXPECT_EQ(testing::user_error([&] { device.run("0dd", [](Communicator&) {}); }),
            "this device compiles the run to program 0dd, and the server has program 5eed; build "
            "cleave from the same source on both");
  EXPECT_TRUE(logged("(odd) is lost: this device compiles the run to program 0dd"));
}

TEST(Identity, SignsTextsThatItsCertificateChecks) {
  const Identity server = make_authority("server", std::chrono::hours(1));
  const std::string signature = sign(server.key, "what leaves whom");
  EXPECT_EQ(signature.size(), 128u);
  EXPECT_TRUE(is_signed_by(server.certificate, "what leaves whom", signature));
  EXPECT_FALSE(is_signed_by(server.certificate, "what leaves who", signature));
  EXPECT_FALSE(is_signed_by(server.certificate, "what leaves whom", "no digits"));
  const Identity other = make_authority("other", std::chrono::hours(1));
  EXPECT_FALSE(is_signed_by(other.certificate, "what leaves whom", signature));
}

TEST(Registry, KeepsKeysToItself) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "server";
  const std::string first = Registry(path).fingerprint();
  EXPECT_EQ(Registry(path).fingerprint(), first);
  struct stat status {};
  ASSERT_EQ(stat((path / "key.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);

  chmod((path / "key.pem").c_str(), 0644);
  EXPECT_NE(
      testing::user_error([&] { Registry registry(path); }).find("others may read the private key"),
      std::string::npos);
}

TEST(Identity, OfADeviceIsReadableByItsOwnerAlone) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "phone";
  store_identity(make_authority("phone", kDay), path);
  struct stat status {};
  ASSERT_EQ(stat((path / "key.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);

  chmod((path / "key.pem").c_str(), 0640);
  EXPECT_NE(
      testing::user_error([&] { load_identity(path); }).find("others may read the private key"),
      std::string::npos);
}

// What is in the way of one file stands for a power cut before it.
TEST(Identity, IsMadeAnewWhereNotAllOfItWasWritten) {
  const testing::TemporaryDirectory directory;
  const auto make = [] { return make_authority("server", kDay); };
  for (const char* file : {"authority.pem", "certificate.pem", "key.pem"}) {
    const std::filesystem::path path = directory.path() / ("without " + std::string(file));
    const std::filesystem::path obstacle = path / (std::string(file) + ".new");
    std::filesystem::create_directories(obstacle / "not empty");
    EXPECT_ANY_THROW(kept_identity(path, make)) << file;
    std::filesystem::remove_all(obstacle);

    EXPECT_TRUE(is_pair(kept_identity(path, make))) << file;
  }
}

TEST(Identity, IsNotOfTwo) {
  const testing::TemporaryDirectory directory;
  store_identity(make_authority("phone", kDay), directory.path() / "a");
  store_identity(make_authority("phone", kDay), directory.path() / "b");
  std::filesystem::copy_file(directory.path() / "b/key.pem", directory.path() / "a/key.pem",
                             std::filesystem::copy_options::overwrite_existing);

  EXPECT_EQ(testing::user_error([&] { load_identity(directory.path() / "a"); }),
            "certificate.pem in " + directory.path("a") +
                " is not of key.pem beside it; put both back from one copy");
}

}  // namespace
}  // namespace cleave::comm
