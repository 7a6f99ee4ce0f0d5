/* Firmware images as the cases want them: signed with the test key, good unless a case breaks them. */
#ifndef EMU_TEST_FIRMWARE_IMAGES_H
#define EMU_TEST_FIRMWARE_IMAGES_H

#include <sodium.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "emud/firmware_image.h"
#include "harness.h"

namespace emu::test {

using Image = std::vector<std::byte>;

inline void sign(Image& image) {
  uint8_t seed[crypto_sign_SEEDBYTES], key[crypto_sign_SECRETKEYBYTES], ours[crypto_sign_PUBLICKEYBYTES];
  CHECK(sodium_hex2bin(seed, sizeof seed, EMU_FIRMWARE_TEST_KEY, 64, nullptr, nullptr, nullptr) == 0);
  CHECK(crypto_sign_seed_keypair(ours, key, seed) == 0);
  auto* const bytes = reinterpret_cast<uint8_t*>(image.data());
  CHECK(crypto_sign_detached(bytes + offsetof(ImageHeader, signature), nullptr, bytes, offsetof(ImageHeader, signature),
                             key) == 0);
}

/* `change` is applied to the header before it is signed. */
inline Image make_image(const std::string& version, uint32_t rollback_index, uint32_t payload_bytes = 100'000,
                        const std::function<void(ImageHeader&)>& change = [](ImageHeader&) {}) {
  ImageHeader header{};
  std::memcpy(header.magic, kImageMagic, sizeof header.magic);
  header.format = kImageFormat;
  header.minimum_interface = EMU_DRIVER_INTERFACE;
  header.rollback_index = rollback_index;
  header.payload_bytes = payload_bytes;
  version.copy(header.version, sizeof header.version - 1);
  Image image(sizeof header + payload_bytes, std::byte{0x5a});
  crypto_hash_sha256(header.digest, reinterpret_cast<const uint8_t*>(image.data()) + sizeof header, payload_bytes);
  change(header);
  std::memcpy(image.data(), &header, sizeof header);
  sign(image);
  return image;
}

/* The status of the first write that is not accepted, or of the last one. */
inline emu_status install(emu_device* device, const Image& image, size_t chunk = 40'000) {
  for (size_t offset = 0; offset < image.size(); offset += chunk) {
    const size_t bytes = std::min(chunk, image.size() - offset);
    const emu_status status = api->firmware_write(device, image.size(), offset, image.data() + offset, bytes);
    if (status != EMU_OK) return status;
  }
  return EMU_OK;
}

inline emu_device* open_device() {
  emu_device* device = nullptr;
  OK(api->device_open(0, &device));
  return device;
}

inline emu_firmware_info firmware_of(emu_device* device) {
  emu_firmware_info info{};
  info.size = sizeof info;
  OK(api->firmware_info(device, &info));
  return info;
}

inline std::string running(emu_device* device) {
  const emu_device_info info = info_of(device);
  CHECK(std::string(info.firmware) == firmware_of(device).version);
  return info.firmware;
}

} // namespace emu::test

#endif
