"""Makes the layers of a clean machine: base system, interpreter, torch and its closure.

Only here are images made. A layer's tag is the digest of what it was made from;
the tag is what finds it again. Making one needs no network but for the packages
of the base system.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import docker
import msgspec
from docker.errors import DockerException, ImageNotFound
from docker.types import Mount

from qualify import owner, process
from qualify.container import OWNER_LABEL, engine_errors, started, sweep
from qualify.content import code_of, sha256_of
from qualify.engine import Engine
from qualify.errors import EngineError, HostError, RoomError
from qualify.images import Image
from qualify.interpreter import PROOF, Interpreter, Moved
from qualify.sandbox import Sandbox, plan
from qualify.stage import Output, Stages, key_of, locked
from qualify.wheelhouse import Closure

REPOSITORY = "qualify"
USED_LABEL = "qualify.layer"
STEP_SECONDS = 1800
KEPT_BYTES = 60 * 10**9
"""All of the matrix takes 48: four Pythons with torch's CUDA build have 5.5 GB in each of their
rooms, and the engine counts what images share with each of them."""
NAMELESS_SECONDS = 3600
"""After which an image without a name gets none: the engine takes minutes to write a large one."""
VENV = "/opt/venv"
ADD_USER = "useradd --uid 1000 --create-home room && chmod 755 /home/room"
"""Open to others, because root without capabilities is one of them."""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One image of the engine. `python` is the full version of its interpreter."""

    id: str
    tag: str
    python: str


def room_image(
    stages: Stages,
    engine: Engine,
    image: Image,
    moved: Moved | None,
    minor: str,
    closure: Closure,
) -> Layer:
    """The image of a room: `image`, its own Python or the `moved` one, and the closure."""
    with engine.open_client(STEP_SECONDS) as client:
        base = base_image(stages, client, image)
        python = "/usr/bin/python3"
        if moved is not None:
            base = interpreter_image(stages, client, image, base, moved, minor)
            python = f"/opt/python/{minor}/bin/python3"
        return _torch_image(stages, client, image, base, python, closure)


def base_image(stages: Stages, client: docker.DockerClient, image: Image) -> Layer:
    """The base system of `image`: from Debian's packages, or the upstream image named by digest.

    For a build image its tools are installed too, downloaded as wheels by this
    machine's pip, so that the image itself needs no network.
    """
    name, inputs = _base_inputs(image)

    def make(tag: str) -> None:
        raw = image.upstream or f"{tag}-raw"
        if not image.upstream:
            _from_packages(stages, client, image, raw)
        elif _find(client, raw) is None:
            client.images.pull(raw)
        try:
            with step(client, raw, network="bridge" if image.upstream else "none") as box:
                if image.upstream:
                    _add_packages(box, image)
                if image.tools:
                    _install_tools(stages, box, image)
                for link, target in image.links.items():
                    shell(box, ["mkdir", "-p", posixpath.dirname(link)])
                    shell(box, ["ln", "-s", target, link])
                _commit(box, tag)
        finally:
            if not image.upstream:
                client.images.remove(raw)

    return _ensure(stages, client, name, inputs, make)


def lacks_base(engine: Engine, images: Sequence[Image]) -> bool:
    """Whether a base system has to be made from packages."""
    with engine.open_client() as client:
        return any(
            not image.upstream and _find(client, _tag(*_base_inputs(image))) is None
            for image in images
        )


def _base_inputs(image: Image) -> tuple[str, dict[str, str]]:
    inputs = {"image": msgspec.json.encode(image).decode(), "code": code_of("layers")}
    return f"{image.name}-base", inputs


def _tag(name: str, inputs: dict[str, str]) -> str:
    return f"{REPOSITORY}/{name}:{key_of(name, inputs)[:16]}"


def interpreter_image(
    stages: Stages,
    client: docker.DockerClient,
    image: Image,
    base: Layer,
    moved: Moved,
    minor: str,
) -> Layer:
    """`base` with the `moved` interpreter in /opt/python/MINOR, proved by importing its modules."""
    inputs = {"base": base.tag, "interpreter": moved.key, "code": code_of("layers")}

    def make(tag: str) -> None:
        with step(client, base.tag) as box:
            folder = f"/opt/python/{minor}"
            shell(box, ["mkdir", "-p", folder])
            with tempfile.TemporaryFile() as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    archive.add(moved.path, arcname=".", filter=_root_owned)
                file.seek(0)
                box.put_archive(folder, file)
            shell(box, [f"{folder}/bin/python3", "-c", PROOF])
            _commit(box, tag)

    return _ensure(stages, client, f"{image.name}-python{minor}", inputs, make)


def _torch_image(
    stages: Stages,
    client: docker.DockerClient,
    image: Image,
    base: Layer,
    python: str,
    closure: Closure,
) -> Layer:
    inputs = {"base": base.tag, "closure": closure.sha256, "code": code_of("layers")}

    def make(tag: str) -> None:
        wheelhouse = {closure.folder: ("/wheelhouse", "ro")}
        with step(client, base.tag, volumes=wheelhouse) as box:
            for words in install_words(python):
                shell(box, words)
            _commit(box, tag)

    return _ensure(stages, client, f"{image.name}-torch-python{closure.python}", inputs, make)


def install_words(python: str) -> tuple[list[str], ...]:
    """The commands that make the virtual environment from /wheelhouse, offline."""
    pip = [f"{VENV}/bin/python", "-I", "-m", "pip", "--disable-pip-version-check"]
    install = ["install", "--quiet", "--no-index", "--no-cache-dir", "--root-user-action=ignore"]
    return (
        [python, "-I", "-m", "venv", VENV],
        [*pip, *install, "--find-links=/wheelhouse", "--requirement=/wheelhouse/requirements.txt"],
        [*pip, "check"],
    )


def sandbox_binds(
    moved: Moved | None, interpreter: Interpreter
) -> tuple[tuple[Path, str, bool], ...]:
    """What a sandbox adds to the system's folders to have `interpreter`."""
    return ((moved.path, f"/opt/python/{interpreter.minor}", False),) if moved else ()


def sandbox_layer(
    stages: Stages, moved: Moved | None, interpreter: Interpreter, closure: Closure
) -> Output:
    """The virtual environment of a sandbox, made inside one, so that its paths are right."""
    python = (
        f"/opt/python/{interpreter.minor}/bin/python3" if moved else str(interpreter.executable)
    )
    inputs = {
        "interpreter": moved.key if moved else sha256_of(interpreter.executable),
        "closure": closure.sha256,
        "code": code_of("layers"),
    }

    def make(folder: Path) -> None:
        binds = [
            *sandbox_binds(moved, interpreter),
            (closure.folder, "/wheelhouse", False),
            (folder, VENV, True),
        ]
        room = Sandbox(plan(binds=binds))
        try:
            room.start()
            for words in install_words(python):
                argv = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "HOME=/home/room", *words]
                done = room.execute(argv, user="root", stdin=b"", timeout=STEP_SECONDS)
                if not done.ok:
                    raise RoomError(
                        f"the torch layer could not be made: {' '.join(words[:6])} ended with "
                        f"{done.status}: {(done.stderr or done.stdout).strip()[-800:]}"
                    )
        finally:
            room.close()

    return stages.make("sandbox-layer", inputs, make)


def _ensure(
    stages: Stages,
    client: docker.DockerClient,
    name: str,
    inputs: dict[str, str],
    make: Callable[[str], None],
) -> Layer:
    """The image tagged for `inputs`, made under a lock if the engine does not have it."""
    start = time.monotonic()
    tag = _tag(name, inputs)
    found = _find(client, tag)
    reused = found is not None
    if found is None:
        wait = partial(stages.progress, f"{name}: another run has it")
        with locked(stages.root / f"images-{name}.lock", wait=wait):
            found = _find(client, tag)
            if found is None:
                stages.require_space(name)
                with stages.announced(name), engine_errors(f"make image {name}"):
                    make(tag)
                    found = client.images.get(tag)
                _bound(stages, client, keep=tag)
    _touch(stages, tag)
    stages.timings.append(
        Output(
            name=name,
            key=key_of(name, inputs),
            path=Path(tag),
            seconds=time.monotonic() - start,
            reused=reused,
        )
    )
    return Layer(id=found.id, tag=tag, python=found.labels.get("qualify.python", ""))


def _find(client: docker.DockerClient, tag: str) -> Any:
    with engine_errors("look for an image"):
        try:
            return client.images.get(tag)
        except ImageNotFound:
            return None


def _from_packages(stages: Stages, client: docker.DockerClient, image: Image, tag: str) -> None:
    with owner.scratch(stages.root, ".rootfs-") as scratch:
        archive = scratch / "rootfs.tar"
        done = process.run(
            [
                *_with_mounts_of_its_own(),
                "mmdebstrap",
                "--variant=minbase",
                f"--include={','.join(image.packages)}",
                f"--customize-hook=chroot $1 sh -c '{ADD_USER}'",
                *(['--aptopt=Acquire::Check-Valid-Until "false"'] if image.past_date else []),
                image.suite,
                archive,
            ],
            env={**os.environ, "TMPDIR": str(scratch)},
            timeout=STEP_SECONDS,
        )
        if not done.ok:
            raise HostError(
                f"mmdebstrap could not make {image.name} ({image.suite})",
                expected="exit status 0",
                got=done.stderr.strip()[-800:],
                mend="Check the network; it needs root or user namespaces, and Debian's keys",
            )
        # podman heeds a tag only as part of the name; docker takes both.
        # Whose it is, so that the image of a run that is killed now is removed by the next.
        mine = f'LABEL {OWNER_LABEL}="{owner.current().text()}"'
        client.api.import_image_from_file(str(archive), repository=tag, changes=[mine])


def _with_mounts_of_its_own() -> tuple[str, ...]:
    """For mmdebstrap as root, which mounts /proc and /sys below its scratch folder: when it is
    stopped they go with it, and are never in the way of who removes the folder. Without root it
    makes namespaces itself."""
    words = ("unshare", "--mount", "--")
    allowed = os.geteuid() == 0 and process.run([*words, "true"]).ok
    return words if allowed else ()


def _add_packages(box: Any, image: Image) -> None:
    shell(box, ["apt-get", "update", "-q"])
    shell(box, ["apt-get", "install", "-q", "-y", "--no-install-recommends", *image.packages])
    shell(box, ["sh", "-c", ADD_USER])


def _install_tools(stages: Stages, box: Any, image: Image) -> None:
    with owner.scratch(stages.root, ".tools-") as scratch:
        folder = scratch / "tools"
        words = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-deps"]
        words += ["--only-binary=:all:", f"--python-version={image.python}", f"--dest={folder}"]
        env = {**os.environ, "TMPDIR": str(scratch)}
        done = process.run([*words, *image.tools], env=env, timeout=600)
        if not done.ok:
            raise HostError(
                f"pip could not download the build tools of {image.name}",
                expected=" ".join(image.tools),
                got=done.stderr.strip()[-800:],
            )
        with io.BytesIO() as buffer:
            with tarfile.open(fileobj=buffer, mode="w") as archive:
                archive.add(folder, arcname="tools", filter=_root_owned)
            box.put_archive("/tmp", buffer.getvalue())
    install = ["python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    shell(box, [*install, "--find-links=/tmp/tools", *image.tools])
    shell(box, ["rm", "-r", "/tmp/tools"])


@contextlib.contextmanager
def step(
    client: docker.DockerClient,
    tag: str,
    *,
    volumes: Mapping[Path, tuple[str, str]] | None = None,
    network: str = "none",
    user: str = "0",
    hostname: str | None = None,
) -> Iterator[Any]:
    """A container in which a layer or a wheel is made; removed whatever happens.

    `volumes`: folder here to (folder there, "ro" or "rw"). They are mounts, since what an engine
    calls volumes is kept in the image, and gives each container of it an empty one.
    """
    sweep(client)
    mounts = [
        Mount(there, str(here), type="bind", read_only=mode == "ro")
        for here, (there, mode) in (volumes or {}).items()
    ]
    options = {"network_mode": network, "user": user, "hostname": hostname}
    with started(client, tag, mounts=mounts, **options) as box:
        yield box


def shell(box: Any, words: Sequence[str]) -> str:
    status, (out, err) = box.exec_run(list(words), demux=True)
    if status != 0:
        said = (err or out or b"").decode(errors="replace").strip()[-800:]
        raise EngineError(f"making an image: {' '.join(words[:6])} ended with {status}: {said}")
    return (out or b"").decode(errors="replace")


def _commit(box: Any, tag: str) -> None:
    """Commit with labels that say what it is and which Python it has (the venv's, if there)."""
    probe = f"for p in {VENV}/bin/python /opt/python/*/bin/python3 python3; do "
    probe += "$p -c 'import platform; print(platform.python_version())' 2>&- && break; done"
    python = shell(box, ["sh", "-c", probe]).strip()
    repository, _, version = tag.rpartition(":")
    # A commit inherits labels, and what is run from the image must not look like this step.
    labels = f'LABEL {USED_LABEL}="{tag}" qualify.python="{python}" {OWNER_LABEL}=""'
    box.commit(repository=repository, tag=version, changes=[labels])


def _is_named(image: dict[str, Any]) -> bool:
    return any(name != "<none>:<none>" for name in image["RepoTags"] or ())


def _root_owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _touch(stages: Stages, tag: str) -> None:
    used = stages.root / "images" / hashlib.sha256(tag.encode()).hexdigest()
    used.parent.mkdir(exist_ok=True)
    used.touch()


def _bound(stages: Stages, client: docker.DockerClient, *, keep: str) -> None:
    """Remove our least recently used images until `KEPT_BYTES` are kept, and those without a name:
    of a run that was killed while the engine wrote one."""
    aged = []
    # One answer: to ask for each image by itself fails when another run removes one meanwhile.
    for image in client.api.images(filters={"label": USED_LABEL}):
        if not _is_named(image) and time.time() - image["Created"] > NAMELESS_SECONDS:
            with contextlib.suppress(DockerException):
                client.images.remove(image["Id"])
            continue
        if image["Labels"].get(OWNER_LABEL):
            continue  # a sealed room's, which goes with its run
        tag = image["Labels"][USED_LABEL]
        used = stages.root / "images" / hashlib.sha256(tag.encode()).hexdigest()
        aged.append((used.stat().st_mtime if used.exists() else 0.0, tag, image["Size"]))
    total = sum(size for _, _, size in aged)
    for _, tag, size in sorted(aged):
        if total > KEPT_BYTES and tag != keep:
            with contextlib.suppress(DockerException):  # in use by a container or a child image
                client.images.remove(tag)
                total -= size
