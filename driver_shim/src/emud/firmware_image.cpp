#include "firmware_image.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "refusal.h"

namespace emu {
namespace {

static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_BYTES == sizeof(ImageHeader::signature));
static_assert(crypto_hash_sha256_BYTES == sizeof(ImageHeader::digest));

Refusal bad(const std::string& cause) {
  return Refusal(EMU_ERROR_BAD_FIRMWARE, EMU_SCOPE_COMMAND, "firmware image: " + cause,
                 "install an image as its maker published it");
}

template <size_t N, typename T>
bool all_zero(const T (&bytes)[N], size_t from = 0) {
  return std::all_of(bytes + from, bytes + N, [](T byte) { return byte == 0; });
}

} // namespace

std::string hex(std::span<const uint8_t> bytes) {
  std::string out;
  for (const uint8_t byte : bytes) out += format("%02x", byte);
  return out;
}

ImageHeader judge_image(std::span<const std::byte> image, uint32_t interface_version, const uint8_t (&key)[32]) {
  ImageHeader header;
  if (image.size() < sizeof header) {
    throw bad(format("cut short: expected at least %zu bytes, got %zu", sizeof header, image.size()));
  }
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.magic, kImageMagic, sizeof header.magic) != 0) {
    const auto* const got = reinterpret_cast<const uint8_t*>(header.magic);
    throw bad(std::string("expected it to begin with ") + kImageMagic + ", got bytes " +
              hex({got, sizeof header.magic}));
  }
  if (header.format != kImageFormat) throw bad(format("expected format %u, got %u", kImageFormat, header.format));
  const size_t whole = sizeof header + size_t(header.payload_bytes);
  if (image.size() != whole) {
    throw bad(format("%s: expected %zu bytes, got %zu", image.size() < whole ? "cut short" : "too long", whole,
                     image.size()));
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(image.data());
  if (crypto_sign_verify_detached(header.signature, bytes, offsetof(ImageHeader, signature), key) != 0) {
    throw bad("expected a signature by key " + hex({key, 8}) + "..., got " + hex({header.signature, 8}) +
              "..., which is none");
  }
  uint8_t digest[sizeof header.digest];
  crypto_hash_sha256(digest, bytes + sizeof header, header.payload_bytes);
  if (std::memcmp(digest, header.digest, sizeof digest) != 0) {
    throw bad("expected a payload of digest " + hex({header.digest, 8}) + "..., got " + hex({digest, 8}) + "...");
  }
  // Signed, so its maker wrote what follows; that does not make it right.
  const size_t name = strnlen(header.version, sizeof header.version);
  const bool printable = std::all_of(header.version, header.version + name, [](char c) { return c > ' ' && c < 127; });
  if (name == 0 || !printable || name == sizeof header.version || !all_zero(header.version, name)) {
    throw bad(format("expected a version of 1 to %zu printable characters and zeros", sizeof header.version - 1));
  }
  if (!all_zero(header.reserved)) throw bad("expected zeros in its reserved bytes");
  if (header.minimum_interface / 1000 != interface_version / 1000 ||
      header.minimum_interface > interface_version) {
    throw Refusal(EMU_ERROR_VERSION, EMU_SCOPE_DEVICE,
                  format("firmware %s is for another driver: expected interface %u.%u or an older minor, got %u.%u",
                         header.version, interface_version / 1000, interface_version % 1000,
                         header.minimum_interface / 1000, header.minimum_interface % 1000),
                  format("install an emu-driver-shim of interface %u.%u or a newer minor first",
                         header.minimum_interface / 1000, header.minimum_interface % 1000));
  }
  return header;
}

} // namespace emu
