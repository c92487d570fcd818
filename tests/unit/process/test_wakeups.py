"""Wake-ups: from a producer to the process that polls a lane, or else to the dispatcher."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.clock import monotonic
from mayfly.errors import WakeDirUnsafe
from mayfly.process import wakeups
from mayfly.process.fork import fork_into
from mayfly.process.state_dir import open_state_dir
from mayfly.process.wakeups import BURST, DISPATCHER, Wakeup, WakeupSender, WakeupSocket, socket_name
from mayfly.settings import Settings, load

MANY, THREADS = 1000, 4
GROUP, PRODUCER, STRANGER = 54_321, 54_322, 54_323
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")


def make_settings(home: Path, **changes: str) -> Settings:
    home.mkdir(exist_ok=True)
    settings = load({"MAYFLY_HOME": str(home), "STATE_DIR": str(home / "state"), "LINGER": "55", **changes}).settings
    open_state_dir(settings)
    return settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The path of a socket would be too long for its address."""
    return make_settings(tmp_path / ("long" * 30))


@pytest.fixture
def sender(settings: Settings) -> Iterator[WakeupSender]:
    with closing(WakeupSender(settings)) as made:
        yield made


@pytest.fixture
def lane(settings: Settings) -> Iterator[WakeupSocket]:
    with closing(WakeupSocket(settings, socket_name("mail"))) as made:
        yield made


@pytest.fixture
def dispatcher(settings: Settings) -> Iterator[WakeupSocket]:
    with closing(WakeupSocket(settings, DISPATCHER)) as made:
        yield made


def test_a_wakeup_reaches_the_process_that_polls_the_lane(
    sender: WakeupSender, lane: WakeupSocket, dispatcher: WakeupSocket
) -> None:
    """It has the id of the job, or none for several jobs."""
    sender.send("mail", 7)
    sender.send("mail")

    assert lane.receive() == [Wakeup("mail", 7), Wakeup("mail")]
    assert dispatcher.receive() == []


def test_a_wakeup_of_another_lane_reaches_the_dispatcher(
    sender: WakeupSender, lane: WakeupSocket, dispatcher: WakeupSocket
) -> None:
    """Any characters are allowed in the name of a lane."""
    sender.send("päckchen 7/../x", 8)

    assert dispatcher.receive() == [Wakeup("päckchen 7/../x", 8)]
    assert lane.receive() == []


def test_the_socket_of_a_dead_process_is_replaced(
    settings: Settings, sender: WakeupSender, dispatcher: WakeupSocket
) -> None:
    """Until then the dispatcher receives its wake-ups: the file is still there, and refuses them."""
    WakeupSocket(settings, socket_name("mail")).close()
    sender.send("mail", 1)
    with closing(WakeupSocket(settings, socket_name("mail"))) as lane:
        sender.send("mail", 2)

        assert lane.receive() == [Wakeup("mail", 2)]
    assert dispatcher.receive() == [Wakeup("mail", 1)]


def test_a_process_knows_that_another_one_polls_now(settings: Settings, lane: WakeupSocket) -> None:
    """Then it receives nothing more."""
    was_bound = lane.is_bound
    with closing(WakeupSocket(settings, socket_name("mail"))) as other:
        assert (was_bound, lane.is_bound, other.is_bound) == (True, False, True)


def test_a_full_socket_does_not_block(settings: Settings, sender: WakeupSender, lane: WakeupSocket) -> None:
    """Its process finds all jobs when it receives the first wake-up. No other process is asked."""
    with closing(WakeupSocket(settings, DISPATCHER)) as dispatcher:
        for _ in range(10):
            with closing(WakeupSender(settings)) as each:
                for number in range(BURST):
                    each.send("mail", number + 1)

        assert 0 < len(lane.receive()) < 10 * BURST
        assert dispatcher.receive() == []
    sender.send("mail", 1)
    assert len(lane.receive()) == 1


def test_a_loop_sends_a_part_of_its_wakeups(sender: WakeupSender, lane: WakeupSocket) -> None:
    """The first ones at once; then one per millisecond, without an id: jobs between them are not announced."""
    started, received = monotonic(), []
    for number in range(1, MANY + 1):
        sender.send("mail", number)
        received += lane.receive()
    milliseconds = (monotonic() - started) * 1000

    assert [each.job_id for each in received[: BURST - 1]] == list(range(1, BURST))
    assert any(each.job_id is None for each in received[BURST - 1 :])
    assert len(received) <= BURST + milliseconds + 1


@pytest.mark.parametrize(("muted_seconds", "received"), [(3600.0, []), (0.0, [Wakeup("mail", 2)])])
def test_without_a_receiver_nothing_is_sent_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muted_seconds: float, received: list[Wakeup]
) -> None:
    """The search for one costs more than a wake-up. Afterwards a new directory is found, too."""
    monkeypatch.setattr(wakeups, "MUTED_SECONDS", muted_seconds)
    settings = make_settings(tmp_path, WAKE_DIR="wake")
    with closing(WakeupSender(settings)) as sender:
        sender.send("mail", 1)
        (tmp_path / "wake").mkdir(mode=0o750)
        with closing(WakeupSocket(settings, socket_name("mail"))) as lane:
            sender.send("mail", 2)

            assert lane.receive() == received


def send_many(sender: WakeupSender) -> None:
    for _ in range(MANY):
        sender.send("mail")


def test_threads_share_a_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a receiver each of them closes the socket and opens another one, and none raises."""
    monkeypatch.setattr(wakeups, "MUTED_SECONDS", 0.0)
    monkeypatch.setattr(wakeups, "PAUSE_SECONDS", 1e-9)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with closing(WakeupSender(make_settings(tmp_path))) as sender, ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(send_many, [sender] * THREADS))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("changes", [{"LANES__MAIL__LINGER": "0"}, {"LANES__MAIL__EXTERNAL": "true"}])
def test_lanes_that_do_not_linger_send_nothing(tmp_path: Path, changes: dict[str, str]) -> None:
    """Nor do lanes of external workers."""
    settings = make_settings(tmp_path, **changes)
    with closing(WakeupSocket(settings, DISPATCHER)) as dispatcher, closing(WakeupSender(settings)) as sender:
        sender.send("mail", 1)
        sender.send("other", 2)

        assert dispatcher.receive() == [Wakeup("other", 2)]


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=64),
    st.none() | st.integers(1, 2**63 - 1),
)
def test_a_wakeup_is_what_was_sent(lane: str, job_id: int | None) -> None:
    """For each lane and id."""
    wakeup = Wakeup(lane, job_id)
    assert Wakeup.decoded(wakeup.encoded()) == wakeup


@given(st.binary(max_size=100))
def test_no_message_is_an_error(message: bytes) -> None:
    """It may come from any member of the group."""
    found = Wakeup.decoded(message)

    assert found is None or (found.lane and (found.job_id or 1) >= 1)


@pytest.mark.parametrize("message", [b"9223372036854775808 mail", b"1 ma\0il"])
def test_a_message_that_no_database_takes_is_ignored(message: bytes) -> None:
    """An id beyond BIGINT, or NUL, would be an error in the process that receives it."""
    assert Wakeup.decoded(message) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """They could replace the sockets. Neither side uses it."""
    directory = tmp_path / "wake"
    directory.mkdir()
    directory.chmod(mode)
    settings = make_settings(tmp_path, WAKE_DIR="wake")

    with pytest.raises(WakeDirUnsafe, match=r"is writable for other users .*`install -d -m 2750"):
        WakeupSocket(settings, DISPATCHER)
    with closing(WakeupSender(settings)) as sender:
        sender.send("mail", 1)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    """With the reason; a producer sends nothing."""
    settings = make_settings(tmp_path, WAKE_DIR="wake")

    with pytest.raises(WakeDirUnsafe, match="cannot be opened: No such file"):
        WakeupSocket(settings, DISPATCHER)
    with closing(WakeupSender(settings)) as sender:
        sender.send("mail", 1)


# --- another user -----------------------------------------------------------------------------------------


def run_as(user: int, group: int, work: Callable[[], object]) -> None:
    def run() -> int:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        work()
        return 0

    assert os.waitpid(fork_into(run), 0)[1] == 0


@as_root
def test_a_producer_of_the_group_wakes_up_a_process_of_another_user() -> None:
    """With WAKE_DIR. A user outside the group has no access, and no error."""
    with TemporaryDirectory(dir="/tmp") as base:  # other users cannot enter that of pytest
        Path(base).chmod(0o755)
        directory = Path(base) / "wake"
        directory.mkdir()
        os.chown(directory, -1, GROUP)
        directory.chmod(0o2750)
        settings = make_settings(Path(base), WAKE_DIR="wake")
        with closing(WakeupSocket(settings, DISPATCHER)) as dispatcher:
            run_as(STRANGER, STRANGER, lambda: WakeupSender(settings).send("mail", 1))
            run_as(PRODUCER, GROUP, lambda: WakeupSender(settings).send("mail", 2))

            assert dispatcher.receive() == [Wakeup("mail", 2)]


@as_root
def test_the_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """That user could replace the sockets, and so learn which jobs are enqueued."""
    directory = tmp_path / "wake"
    directory.mkdir()
    os.chown(directory, STRANGER, -1)
    settings = make_settings(tmp_path, WAKE_DIR="wake")

    with pytest.raises(WakeDirUnsafe, match=f"belongs to another user .uid {STRANGER}"):
        WakeupSocket(settings, DISPATCHER)
