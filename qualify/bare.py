"""What a room may hold: the packages that its image declares with what those need, and their files.

The questions are asked in the room, of dpkg and of the file system; the answers are judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PACKAGES = (
    "dpkg-query",
    "--show",
    "--showformat=${db:Status-Status}\t${Package}\t${Priority}\t${Essential}\t${Provides}\t"
    "${Depends}, ${Pre-Depends}\n",
)
"""A line for each package that dpkg knows: what was removed with its configuration left, too."""
INSTALLED, REMOVED = "installed", "config-files"
ALWAYS = ("apt",)
"""Beside those that are essential or required: mmdebstrap's variant minbase has it."""
FILES = """
set -e
places='/usr/local /opt /root /srv /mnt /media /home /tmp /var/tmp'
find $places -xdev '(' -path /opt/venv -o -path /opt/python -o -path {work} ')' -prune -o \\
  ! -type d ! -name .bashrc ! -name .profile ! -path /usr/local/man -print
find /etc -maxdepth 1 -name ld.so.preload -print
owned=$(mktemp -d) && trap 'rm -r "$owned"' EXIT
sed -E 's#^/(s?bin|lib(32|64|x32)?)/#/usr/\\1/#' /var/lib/dpkg/info/*.list > "$owned/list"
sort -u -o "$owned/list" "$owned/list"
find /usr /etc/ld.so.conf.d -xdev -type f ! -path '*/__pycache__/*' ! -path '/usr/local/*' \\
  ! -path /usr/share/info/dir > "$owned/found"
sort -o "$owned/found" "$owned/found"
comm -23 "$owned/found" "$owned/list"
find /usr /etc/ld.so.conf.d -xdev -type l ! -path '/usr/local/*' > "$owned/found"
sort -o "$owned/found" "$owned/found"
comm -23 "$owned/found" "$owned/list" | while read -r link; do
  readlink -f "$link" | sed -E 's#^/(s?bin|lib(32|64|x32)?)/#/usr/\\1/#' > "$owned/target"
  grep -qxFf "$owned/target" "$owned/list" || echo "$link"
done
"""
"""Files that no package and no layer of ours brought. Debian's base has two dot files for root, a
link for manual pages, and an index of info pages; Python's packages compile themselves, and links
that packages make when they are set up lead to files of packages."""
VENV = """
import csv, os, sys
venv = sys.argv[1]
own, listed = os.path.realpath(f"{venv}/bin/python"), {f"{venv}/pyvenv.cfg", f"{venv}/.gitignore"}
for site in (f"{venv}/lib/{name}/site-packages" for name in os.listdir(f"{venv}/lib")):
    for name in os.listdir(site):
        record = f"{site}/{name}/RECORD"
        if os.path.isfile(record):
            with open(record, newline="", encoding="utf-8") as file:
                rows = filter(None, csv.reader(file))
                listed.update(os.path.normpath(f"{site}/{row[0]}") for row in rows)
for folder, names, files in os.walk(venv):
    links = [name for name in names if os.path.islink(f"{folder}/{name}")]
    for path in (f"{folder}/{name}" for name in (*links, *files)):
        below, name = os.path.relpath(folder, venv), os.path.basename(path)
        activates = name.lower().startswith("activate")
        made = below == "bin" and (activates or os.path.realpath(path) == own)
        made |= path == f"{venv}/lib64" or (name.endswith(".pyc") and below.endswith("__pycache__"))
        if path not in listed and not made:
            print(path)
"""
"""Files of a virtual environment that no RECORD lists and that `venv` has not made. It is run by
that environment's Python, isolated and without its site."""
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_CONSTRAINT = re.compile(r"\([^)]*\)|:any")


def compare(listed: str, declared: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is declared and not there, and what is there and nothing declared needs.

    `listed` is what `PACKAGES` printed. Of alternatives each that is there counts as needed.
    """
    needs: dict[str, set[str]] = {}
    provided: dict[str, set[str]] = {}
    roots = {*declared, *ALWAYS}
    halfway: list[str] = []
    for line in listed.splitlines():
        status, name, priority, essential, provides, depends = line.split("\t")
        if status == REMOVED:
            continue
        if status != INSTALLED:
            halfway.append(f"{name} ({status})")
            continue
        needs[name] = _names(depends)
        for each in _names(provides):
            provided.setdefault(each, set()).add(name)
        if priority == "required" or essential == "yes":
            roots.add(name)
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        pending += provided.get(name, ())
        if name in needs and name not in reached:
            reached.add(name)
            pending += needs[name]
    return sorted(set(declared) - needs.keys()), sorted(needs.keys() - reached) + halfway


def _names(field: str) -> set[str]:
    return set(_NAME.findall(_CONSTRAINT.sub("", field)))
