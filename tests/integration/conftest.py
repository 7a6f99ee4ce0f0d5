"""What integration tests share: the pipeline's own wheels and rooms, made once, and rooms without
torch, so that what is tested is the room, of each kind that this machine has.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import pytest
from engines import TREE, engine_or_skip

from qualify import images, layers, pipeline, sandbox
from qualify.engine import Engine, RoomKind
from qualify.pipeline import Prepared
from qualify.room import RoomFacts, RoomSpec
from qualify.stage import Stages, cache_root

MAKE_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first makes images and wheels, or waits for the other worker to."""
    for item in items:
        asks = "stages" in getattr(item, "fixturenames", ())
        if asks and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(MAKE_SECONDS))


@pytest.fixture(scope="session")
def stages() -> Iterator[Stages]:
    """The checkout's own cache: images are made once, for the tests and the pipeline."""
    cache = Stages(cache_root(TREE), progress=print)
    yield cache
    cache.close()


@pytest.fixture(scope="session")
def prepared(stages: Stages, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The wheels and the rooms that the pipeline itself would use for this Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = tmp_path_factory.mktemp("evidence")
    return pipeline.prepare(TREE, folder, stages, python=python, room="auto")


@pytest.fixture(scope="session")
def declared() -> images.Declaration:
    return images.load(TREE / "containers" / "images.toml")


@pytest.fixture(scope="session")
def docker(stages: Stages) -> Engine:
    return engine_or_skip("docker")


@pytest.fixture(scope="session", params=["docker", "podman", "sandbox"])
def spec(request: pytest.FixtureRequest, stages: Stages, declared: images.Declaration) -> RoomSpec:
    """A bare room: a base system without torch. `python` in it is the system's."""
    chosen = engine_or_skip(request.param)
    image = declared.room[0]
    made, plan = "", None
    if chosen.has_images:
        with chosen.open_client(layers.STEP_SECONDS) as client:
            made = layers.base_image(stages, client, image).id
    else:
        plan = sandbox.plan(hidden=[TREE])
    here = platform.freedesktop_os_release()
    facts = RoomFacts(
        name=f"bare-{request.param}",
        kind=RoomKind(request.param),
        os_id=image.os_id if made else here.get("ID", "linux"),
        os_version=image.os_version if made else here.get("VERSION_ID", ""),
        glibc=image.glibc if made else platform.libc_ver()[1],
        image=made,
        python="",
        torch="",
        kernel=platform.release(),
        isolation=(),
    )
    return RoomSpec(engine=chosen, facts=facts, digest="0" * 64, hidden=(TREE,), sandbox=plan)
