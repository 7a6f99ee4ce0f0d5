/* emu-objdump: a program to the text that it can be assembled from. */
#include "machine.h"
#include "tool.h"

int main(int argc, char** argv) {
  return emu::tool::run(argc, argv, "usage: emu-objdump [FILE | -] [-o OUT]\n",
                        [](const std::string& binary, std::string& why) -> std::optional<std::string> {
                          const auto* bytes = reinterpret_cast<const std::byte*>(binary.data());
                          const auto text = emu::machine::disassemble({bytes, binary.size()}, why);
                          if (!text) why = " " + why;
                          return text;
                        });
}
