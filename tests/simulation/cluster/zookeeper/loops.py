"""An event loop of asyncio in virtual time, with what the controller and the brokers use of one."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit

from tests.simulation.cluster.zookeeper.streams import Listener, VirtualSocket
from tests.simulation.cluster.zookeeper.threads import VirtualThread

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.node import ElectingNode


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one thread, by the clock of its node."""

    def __init__(self, node: "ElectingNode", thread: VirtualThread) -> None:
        self.node, self._thread = node, thread
        self._is_closed = False

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Return when a coroutine has ended, as `asyncio.run`; it is in no task, so it may block the thread."""
        ended: list[BaseException | None] = []

        def step(_: Any = None) -> None:
            try:
                awaited = main.send(None)
            except StopIteration:
                ended.append(None)
            except Exception as error:  # noqa: BLE001 -- `run` raises it
                ended.append(error)
            else:
                if awaited is None:
                    self.call_soon(step)
                else:
                    awaited._asyncio_future_blocking = False
                    awaited.add_done_callback(step)

        self.call_soon(step)
        try:
            self._thread.pump(lambda: ended)
        except GreenletExit:
            self._unwind(main)
            raise
        self._is_closed = True
        if ended[0] is not None:
            raise ended[0]

    def _unwind(self, main: Coroutine[Any, Any, None]) -> None:
        """The process has ended: its connections are closed, and nothing is left to be collected later."""
        asyncio._set_running_loop(self)
        try:
            with suppress(BaseException):
                main.throw(GreenletExit)
                while True:
                    main.send(None)
        finally:
            asyncio._set_running_loop(None)

    # -- time and calls

    def time(self) -> float:
        return self.node.clock.now().mono_ms / 1000

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        if self._is_closed:
            raise RuntimeError("the loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._thread.post(lambda: self._call(handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        network = self.node.world.network
        due_ms = self.node.clock.real_ms(math.ceil(when * 1000))
        network.at(max(due_ms, network.now_ms), self._due, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _due(self, handle: asyncio.Handle) -> None:
        if not self._is_closed and not handle.cancelled():
            self._thread.post(lambda: self._call(handle))

    def _call(self, handle: asyncio.Handle) -> None:
        if self._is_closed or handle.cancelled():
            return
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is not called when it is due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report what a callback or a task has raised, unless the process has ended."""
        error = context.get("exception")
        if not self._thread.has_ended and not isinstance(error, GreenletExit):
            self.node.world.failed(context["message"], error)

    # -- futures, tasks, threads

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return self._is_closed

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        return asyncio.Task(coro, loop=self, **options)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        future = self.create_future()

        def work() -> None:
            result = func(*args)
            self.call_soon(future.set_result, result)

        VirtualThread(self.node, work)
        return future

    # -- connections

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return Listener(self, protocol_factory, host)

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        assert isinstance(fd, VirtualSocket)
        fd.read_with(lambda: self.call_soon(callback, *args))

    def remove_reader(self, fd: Any) -> bool:
        if isinstance(fd, VirtualSocket):
            fd.read_with(None)
        return True

    def remove_writer(self, fd: Any) -> bool:
        return True
