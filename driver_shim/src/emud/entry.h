/* An entry for a map, made before there is anything to undo: to fill it in and insert it does not throw. */
#ifndef EMU_ENTRY_H
#define EMU_ENTRY_H

namespace emu {

template <typename Map>
typename Map::node_type new_entry() {
  Map one;
  one.try_emplace({});
  return one.extract(one.begin());
}

} // namespace emu

#endif
