"""A background task: when it takes its steps, what it waits for, and how it ends."""

import gc
import logging
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest

from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Pause, Steps, Until
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.turn.workers import Done, Work
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError


class World:
    """A scheduler on a manual clock, a worker that works when asked to, and what the steps did."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = Scheduler(self.clock)
        self.scheduler.last_request_ms = -1000
        self.work: list[tuple[Work, Done]] = []
        self.ended: list[Exception | None] = []
        self.steps: list[Any] = []

    def task(self, steps: Steps, **options: Any) -> BackgroundTask:
        return BackgroundTask(
            "a task",
            self.scheduler,
            steps,
            self.ended.append,
            background=lambda work, done: self.work.append((work, done)),
            **options,
        )

    def numbered(self, count: int) -> Steps:
        for number in range(count):
            self.steps.append(number)
            yield None

    def pass_time(self, ms: int = 1) -> None:
        self.clock.advance(ms=ms)
        self.scheduler.run_due(self.clock.now())


@pytest.fixture
def world() -> World:
    return World()


def test_steps_are_taken_a_pause_apart_until_the_task_ends(world: World) -> None:
    task = world.task(world.numbered(2))
    task.start()
    assert world.steps == []
    world.pass_time()
    assert world.steps == [0]
    world.pass_time()
    assert (world.steps, world.ended) == ([0, 1], [])
    world.pass_time()
    assert world.ended == [None]
    assert task.is_over()


def test_the_first_step_can_be_taken_at_once(world: World) -> None:
    world.task(world.numbered(2)).begin()
    assert world.steps == [0]


def test_an_idle_broker_takes_several_steps_together(world: World) -> None:
    task = world.task(world.numbered(9), pacing=Pacing(steps_when_idle=4))
    task.begin()
    assert world.steps == [0, 1, 2, 3]
    world.scheduler.last_request_ms = world.clock.now().mono_ms
    world.pass_time()
    assert world.steps == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("pacing", "pause_ms"), [(Pacing(), 60), (Pacing(longest_ms=20), 20), (Pacing(fixed_ms=3), 3)]
)
def test_while_requests_arrive_a_long_step_is_followed_by_a_longer_pause(
    world: World, pacing: Pacing, pause_ms: int
) -> None:
    def steps() -> Steps:
        for number in range(2):
            world.steps.append(number)
            world.clock.advance(ms=10)
            yield None

    world.scheduler.last_request_ms = world.clock.now().mono_ms
    world.task(steps(), pacing=pacing).begin()
    world.pass_time(pause_ms - 1)
    assert world.steps == [0]
    world.pass_time()
    assert world.steps == [0, 1]


def test_a_step_can_ask_for_a_pause_of_its_own(world: World) -> None:
    def steps() -> Steps:
        yield Pause(100)
        world.steps.append("later")

    world.task(steps()).begin()
    world.pass_time(99)
    assert world.steps == []
    world.pass_time()
    assert world.steps == ["later"]


def test_the_next_step_waits_for_the_worker(world: World) -> None:
    def steps() -> Steps:
        yield lambda: world.steps.append("work")
        world.steps.append("done")

    world.task(steps()).begin()
    world.pass_time(1000)
    assert world.steps == []
    (work, done), world.work = world.work[0], []
    work()
    done(None)
    world.pass_time()
    assert (world.steps, world.ended) == (["work", "done"], [None])


@pytest.mark.parametrize("is_caught", [True, False])
def test_an_error_of_the_worker_is_raised_in_the_step_that_asked_for_it(
    world: World, is_caught: bool
) -> None:
    refused = StorageError("no space left", "orders-0")

    def steps() -> Steps:
        try:
            yield lambda: None
        except StorageError as error:
            world.steps.append(error)
            if not is_caught:
                raise

    world.task(steps()).begin()
    world.work[0][1](refused)
    world.pass_time()
    assert (world.steps, world.ended) == ([refused], [None if is_caught else refused])


def test_a_step_receives_what_it_has_waited_for(world: World) -> None:
    resumed: list[Callable[[Any], None]] = []

    def steps() -> Steps:
        world.steps.append((yield Until(resumed.append)))

    world.task(steps()).begin()
    world.pass_time(1000)
    assert world.steps == []
    resumed[0]("the value")
    world.pass_time()
    assert (world.steps, world.ended) == (["the value"], [None])


def test_the_result_of_the_generator_is_kept(world: World) -> None:
    def steps() -> Generator[None, None, str]:
        yield
        return "the result"

    task = world.task(steps())
    task.begin()
    world.pass_time()
    assert (task.result, world.ended) == ("the result", [None])


def test_a_failure_is_logged_and_ends_the_task(world: World, caplog: pytest.LogCaptureFixture) -> None:
    failure = ZeroDivisionError()

    def steps() -> Steps:
        yield None
        raise failure

    world.task(steps()).begin()
    with caplog.at_level(logging.ERROR):
        world.pass_time()
    assert world.ended == [failure]
    assert "a task failed" in caplog.text


def test_a_storage_error_without_a_callback_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def steps() -> Steps:
        raise StorageError("no space left", "orders-0")
        yield None

    BackgroundTask("the sync", world.scheduler, steps()).begin()
    assert "the sync: orders-0: no space left" in caplog.text


def test_a_stopped_task_takes_no_step_and_is_closed(world: World) -> None:
    def steps() -> Steps:
        try:
            yield None
        finally:
            world.steps.append("closed")

    task = world.task(steps())
    task.begin()
    task.stop()
    assert world.steps == ["closed"]
    world.pass_time(1000)
    assert (world.steps, world.ended) == (["closed"], [])


def test_a_task_that_is_stopped_while_its_worker_works_is_closed_after_that(world: World) -> None:
    def steps() -> Steps:
        try:
            yield lambda: None
        finally:
            world.steps.append("closed")

    task = world.task(steps())
    task.begin()
    task.stop()
    assert world.steps == []
    world.work[0][1](None)
    assert (world.steps, world.ended) == (["closed"], [])


def test_a_task_stops_when_it_may_not_continue(world: World) -> None:
    task = world.task(world.numbered(9), may_continue=lambda: len(world.steps) < 2)
    task.begin()
    world.pass_time(1)
    world.pass_time(1)
    assert (world.steps, world.ended, task.is_over()) == ([0, 1], [], True)


class Found(list[int]):
    """A result that a weak reference can watch."""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_task_that_is_over_is_freed_without_the_garbage_collector(world: World, is_stopped: bool) -> None:
    # A request of several steps reads its response from its task: responses of 24 MB stayed in memory.
    watched: list[weakref.ref[object]] = []

    def steps() -> Steps:
        found = Found([1])
        watched.append(weakref.ref(found))
        yield None
        return found

    def begin() -> BackgroundTask:
        task = BackgroundTask(
            "a task", world.scheduler, steps(), lambda _: world.steps.append(len(task.result))
        )
        task.begin()
        return task

    gc.disable()
    try:
        task = begin()
        watched.append(weakref.ref(task))
        if is_stopped:
            task.stop()
        else:
            world.pass_time()
            assert world.steps == [1]
        del task
        assert [reference() for reference in watched] == [None, None]
    finally:
        gc.enable()


def test_a_task_can_be_finished_at_once(world: World) -> None:
    resumed: list[Callable[[Any], None]] = []
    refused = StorageError("no space left")

    def refuse() -> None:
        raise refused

    def steps() -> Steps:
        yield None
        yield Pause(1000)
        world.steps.append((yield Until(resumed.append)))
        try:
            yield refuse
        except StorageError as error:
            world.steps.append(error)

    task = world.task(steps())
    task.begin()
    assert task.finish(lambda: resumed[0]("settled"), lambda: True)
    assert (world.steps, world.ended) == (["settled", refused], [None])


def test_a_task_that_waits_for_what_does_not_happen_is_stopped(world: World) -> None:
    def steps() -> Steps:
        yield Until(lambda resume: None)
        world.steps.append("not reached")

    task = world.task(steps())
    assert not task.finish(lambda: None, lambda: True)
    assert (world.steps, world.ended, task.is_over()) == ([], [], True)


def test_a_task_that_is_too_slow_is_not_finished(world: World) -> None:
    task = world.task(world.numbered(9))
    assert not task.finish(lambda: None, lambda: len(world.steps) < 3)
    assert (world.steps, world.ended, task.is_over()) == ([0, 1, 2], [], True)


def test_the_steps_of_many_tasks_leave_time_for_requests(world: World) -> None:
    # The first 50 requests for the metadata of 6,000 partitions held up all others for 0.4 s at a time.
    def steps(number: int) -> Steps:
        for _ in range(2):
            world.steps.append(number)
            world.clock.advance(ms=5)
            yield None

    for number in range(50):
        world.task(steps(number), pacing=Pacing(fixed_ms=1)).start()
    world.pass_time()
    assert world.steps == [0, 1]
    assert world.scheduler.next_ms is not None
    assert world.scheduler.next_ms <= world.clock.now().mono_ms
    while len(world.ended) < 50:
        world.pass_time()
    assert world.steps == [*range(50), *range(50)]
