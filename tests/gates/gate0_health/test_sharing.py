"""Who is served when several want a device, what is taken back, and what orders devices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from gate0_health.partner import partners
from gate0_health.serving import Configuration, Node, served
from tolerances import tolerance

CLIENTS = 4
SHORT, LONG = "2000", "100000"  # steps of a launch, some ticks each
LAUNCHES = 20
PRIORITIES = (1, 0, -1, 0)
KILLED_SECONDS = 5
SIZE = 1_000_000


@pytest.mark.check("gate0.queue.fair", obligations=["G0"], kind="focused test")
def test_fair(node: Node, detail: Callable[..., None]) -> None:
    """A process with more contexts, or longer launches, gets more of the device than others."""
    roles = [("want", "3", "24", LONG)] + [("want", "1", "800", SHORT)] * (CLIENTS - 1)
    with partners(node.env, *roles, ("hold",)) as (*clients, holder):
        for client in clients:
            client.hear()
        assert holder.hear()["held"]
        for client in clients:
            client.proceed()
        for client in clients:
            client.hear()
        holder.proceed()
        ran = [client.hear()["ran"] for client in clients]
    begin = min(one[0][0] for one in ran)
    end = min(one[-1][1] for one in ran)  # until then all of them want more
    had = [sum(min(stop, end) - min(start, end) for start, stop in one) for one in ran]
    shares = [ticks / (end - begin) for ticks in had]
    detail(shares=shares, ticks=end - begin, launches=[len(one) for one in ran])
    assert sum(shares) > 0.99, "the device is not used"
    for share in shares:
        assert abs(share * CLIENTS - 1) < tolerance("fair_share").value


@pytest.mark.check("gate0.queue.priority", obligations=["G0"], kind="focused test")
def test_priority(node: Node) -> None:
    """A queue of a lower number waits for one of a higher, or equal ones are not served in turn."""
    words = ("priorities", str(LAUNCHES), *map(str, PRIORITIES))
    with partners(node.env, words, ("hold",)) as (client, holder):
        client.hear()
        assert holder.hear()["held"]
        client.proceed()
        client.hear()
        holder.proceed()
        order = client.hear()["order"]
    first, turns, last = order[:LAUNCHES], order[LAUNCHES:-LAUNCHES], order[-LAUNCHES:]
    assert set(first) == {2} and set(last) == {0}
    assert set(turns) == {1, 3}
    assert all(one != other for one, other in pairwise(turns))


@pytest.mark.check("gate0.queue.cancel", obligations=["G0"], kind="focused test")
def test_cancel(node: Node) -> None:
    """What is taken back runs, or who waits for it hangs, or more than that is taken back."""
    with partners(node.env, ("cancel",)) as (client,):
        told = client.hear()
    assert told["blocked"] == [True, True], "the work was over before it was taken back"
    assert told["went_on"] == [True, True]
    assert told["firsts"] == [0, 1]  # of a wait itself; what is behind a launch under way
    assert told["bytes"] == [1, 3, 5]
    assert told["cancelled"] == told["expected"]


@pytest.mark.check("gate0.fence.cross_process", obligations=["G0"], kind="focused test")
def test_cross_process(node: Node, detail: Callable[..., None]) -> None:
    """A fence of another process is passed early, or never, or its end is not told."""
    with partners(node.env, ("signal",)) as (signaller,):
        token = signaller.hear()["token"]
        with partners(node.env, ("wait", token)) as (waiter,):
            assert not waiter.hear()["early"]
            signaller.proceed()
            signalled = signaller.hear()["ticks"]
            reached = waiter.hear()
            assert reached["done"]
            assert reached["start"] == signalled > 0, "the device clock knows nothing of the fence"
            assert not waiter.hear()["early"]
            signaller.process.kill()
            told = waiter.hear()["told"]
    detail(ticks=signalled, seconds=[seconds for _, _, seconds in told])
    for status, cause, seconds in told:
        assert status == "FENCE_BROKEN"
        assert str(signaller.process.pid) in cause
        assert seconds < KILLED_SECONDS


@pytest.mark.check("gate0.fence.cross_device", obligations=["G0"], kind="focused test")
def test_cross_device(
    tmp_path: Path, configuration: Configuration, detail: Callable[..., None]
) -> None:
    """A queue of one device does not wait for another device, or starts before it on the clock."""
    with (
        served(tmp_path, "--devices", "2", *configuration.options) as node,
        partners(node.env, ("devices",)) as (client,),
    ):
        told = client.hear()
    detail(**told)
    assert not told["early"] and told["done"]
    assert told["start"] == told["signalled"] > 0


@pytest.mark.check("gate0.link.copy", obligations=["G0"], kind="focused test")
def test_link_copy(
    tmp_path: Path, configuration: Configuration, detail: Callable[..., None]
) -> None:
    """Bytes that cross a link are wrong, cost nothing, or are not counted."""
    with (
        served(tmp_path, "--devices", "2", *configuration.options) as node,
        partners(node.env, ("copy", str(SIZE))) as (client,),
    ):
        told = client.hear()
    detail(size=SIZE, **told)
    assert told["right"] == [True, True]
    assert told["ticks"] == [told["cost"]] * 2
    assert told["bytes"] == [SIZE, SIZE]
    assert told["busy"] == [told["cost"]] * 2


@pytest.mark.check("gate0.link.down", obligations=["G0"], kind="focused test")
def test_link_down(tmp_path: Path, configuration: Configuration) -> None:
    """A copy over a link that is down is done, hangs, or does not name it; or others are hit."""
    with (
        served(tmp_path, "--devices", "3", *configuration.options) as node,
        partners(node.env, ("down",)) as (client,),
    ):
        told = client.hear()
    before, broken, other, after = told["told"]
    assert before[0] == other[0] == after[0] == "OK"
    assert broken[0] == "LINK_DOWN"
    assert "link 0 between the devices 0 and 1" in broken[1]
    assert told["up"] == [False, True, True]
    assert told["errors"] == [1, 0, 0]
