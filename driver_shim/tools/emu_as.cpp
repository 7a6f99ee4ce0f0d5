/* emu-as: program text to a program that the device loads. */
#include "machine.h"
#include "tool.h"

int main(int argc, char** argv) {
  return emu::tool::run(argc, argv, "usage: emu-as [FILE | -] [-o OUT]\n",
                        [](const std::string& text, std::string& why) -> std::optional<std::string> {
                          const auto binary = emu::machine::assemble(text, why);
                          if (!binary) return std::nullopt;
                          return std::string(reinterpret_cast<const char*>(binary->data()), binary->size());
                        });
}
