/* Memory that a client maps too. */
#ifndef EMU_SHARED_H
#define EMU_SHARED_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "descriptor.h"

namespace emu {

struct Shared {
  Descriptor fd;
  Mapping memory; // none where the host has no memory or descriptor for it; errno says why
};

/* Sealed: a client that made it smaller would end emud with SIGBUS. */
inline Shared share(const char* name, size_t bytes) {
  Shared made{Descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), Mapping()};
  if (made.fd && ftruncate(made.fd.get(), off_t(bytes)) == 0 &&
      fcntl(made.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    made.memory = Mapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd.get(), 0), bytes);
  }
  return made;
}

} // namespace emu

#endif
