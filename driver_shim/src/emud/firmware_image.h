/* A firmware image: what is in one, and whether it is good. docs/firmware.md is for those who make them.
 *
 * Nothing here touches a file or the device. */
#ifndef EMU_FIRMWARE_IMAGE_H
#define EMU_FIRMWARE_IMAGE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace emu {

constexpr char kImageMagic[8] = "EMUFWv1";
constexpr uint32_t kImageFormat = 1;

/* At the start of an image; the payload follows, and ends it. All integers are little-endian. */
struct ImageHeader {
  char magic[8];
  uint32_t format;
  uint32_t minimum_interface; // of the driver, as EMU_DRIVER_INTERFACE
  uint32_t rollback_index;
  uint32_t payload_bytes;
  char version[32];       // ends with a NUL
  uint8_t reserved[8];    // zero
  uint8_t digest[32];     // SHA-256 of the payload
  uint8_t signature[64];  // Ed25519, of all before it
};
static_assert(sizeof(ImageHeader) == 160 && offsetof(ImageHeader, signature) == 96);
static_assert(std::is_trivially_copyable_v<ImageHeader>);

/* Throws Refusal EMU_ERROR_BAD_FIRMWARE or EMU_ERROR_VERSION, naming expected and got. `interface_version` is the
 * driver's; `key` the public key that images are signed with. */
ImageHeader judge_image(std::span<const std::byte> image, uint32_t interface_version, const uint8_t (&key)[32]);

std::string hex(std::span<const uint8_t> bytes);

} // namespace emu

#endif
