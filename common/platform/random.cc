#include "platform/random.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/siphash.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

constinit SipKey secret_key;

}  // namespace

void draw_key() {
  constexpr unsigned kDoNotWait = 1;  // GRND_NONBLOCK
  const SavedErrno saved;
  SipKey drawn;
  if (syscall(SYS_getrandom, &drawn, sizeof drawn, kDoNotWait) != sizeof drawn) {
    const auto* bytes = reinterpret_cast<const char*>(getauxval(AT_RANDOM));
    if (bytes != nullptr) memcpy(&drawn, bytes, sizeof drawn);
  }
  secret_key = drawn;
}

uint64_t secret(Secret name, uint64_t number) {
  const uint64_t words[] = {static_cast<uint64_t>(name), number};
  uint8_t message[sizeof words];
  memcpy(message, words, sizeof message);
  return SipHash(secret_key).of(message, sizeof message);
}

}  // namespace near
