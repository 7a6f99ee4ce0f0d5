"""What a record says about the walls of a room in a container."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import docker
import pytest
import requests
from docker.errors import APIError, NotFound

from qualify.container import Apart, isolation, remove, remove_image
from qualify.images import PLAIN, Setting


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (PLAIN, ["without network", "uid 1000 unless"]),
        (Setting(name="n", network=True), ["with the engine's own network"]),
        (Setting(name="u", user=4321), ["uid 4321, which has no name there, unless"]),
        (Setting(name="r", user=0), ["uid 0 unless"]),
        (Setting(name="o", read_only=True), ["its root read-only after the install"]),
    ],
)
def test_a_record_says_what_the_walls_are(setting: Setting, says: list[str]) -> None:
    words = "; ".join(isolation(setting))
    assert all(part in words for part in says)


def test_a_busy_engine_is_asked_again_until_the_container_is_gone() -> None:
    """It does not answer in time, then says that it is at it, then that there is none."""
    answers = [
        requests.ReadTimeout("read timeout=60"),
        APIError("removal is in progress", response=said(409)),
        NotFound("no such container"),
    ]

    class Api:
        def remove_container(self, name: str, **options: bool) -> None:
            raise answers.pop(0)

    class Client:
        api = Api()

    remove(cast(docker.DockerClient, Client()), "a")
    assert not answers


@pytest.mark.parametrize("answer", [requests.ReadTimeout("read timeout=60"), APIError("in use")])
def test_an_image_that_is_not_removed_now_loses_no_record(answer: Exception) -> None:
    class Api:
        def remove_image(self, name: str, **options: bool) -> None:
            raise answer

    class Client:
        api = Api()

    remove_image(cast(docker.DockerClient, Client()), "a")


def test_what_the_engine_refuses_is_told() -> None:
    class Api:
        def remove_container(self, name: str, **options: bool) -> None:
            raise APIError("no", response=said(500))

    class Client:
        api = Api()

    with pytest.raises(APIError):
        remove(cast(docker.DockerClient, Client()), "a")


def said(status: int) -> requests.Response:
    answer = requests.Response()
    answer.status_code = status
    return answer


def test_a_record_says_whose_devices_are_apart() -> None:
    devices = [
        Apart(driver=Path("a.whl"), sha256="1" * 64),
        Apart(driver=Path("b.whl"), sha256="2" * 64, release="before"),
    ]
    assert len(isolation(PLAIN)) == 3
    words = isolation(PLAIN, devices)[3]
    assert "a container of its own for the device of each release: here, before;" in words
