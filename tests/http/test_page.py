"""The page at /, in a headless browser: what it shows, its keyboard, its colours, and that it loads nothing else."""

import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from kafka_offsets.client.commits import VERSION, request
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.protocol import encode_request
from kafka_offsets.protocol import messages
from tests.http.browser import Page, chromium
from tests.http.conftest import Client, OneBroker, Serving
from tests.http.test_app import commit_as_client
from tests.http.test_examples import MODULES
from tests.slowness import slowness

LONGEST_TASK_MS = 50
"""Longer tasks delay a frame so much that a user sees it. Source: the Long Tasks API of the W3C."""

Compare = Callable[[Page, str], list[str]]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One page for all tests: the browser takes a second to start."""
    with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def main(client: Client) -> Iterator[OneBroker]:
    """The broker that the page shows first, with a topic and a group."""
    found = OneBroker(client, "main", client.get("/brokers/main").value["bootstrap_servers"])
    empty = found.post("snapshot")["snapshot"]
    found.post("create_topic", name="orders", partitions=2)
    found.post("produce", topic="orders", records=["a", "b", "c"], partition=0)
    found.post("commit", group="<b>billing</b>", offsets={"orders": {"0": 1}})
    yield found
    found.delete("faults")
    found.post("restore", snapshot=empty)


def focus(page: Page, selector: str) -> None:
    """Go to an element by the key Tab alone."""
    page.run("document.activeElement?.blur()")
    for _ in range(30):
        page.press("Tab")
        if page.run(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_groups_lag_and_errors_are_shown_as_they_change(page: Page, client: Client, main: OneBroker) -> None:
    page.open(f"{client.url}/")
    # The browser has the text of a new group at the next frame: until then its content-visibility is undecided.
    page.wait_for("document.querySelector('details[data-group] summary')?.innerText.includes('billing')")
    summary = page.run("document.querySelector('details[data-group] summary').innerText")
    assert re.sub(r"\s+", " ", summary) == "<b>billing</b> Empty, classic 0 members lag 2"
    page.wait_for("document.querySelector('#lag').textContent === '2'")
    main.post("produce", topic="orders", records=["d"], partition=1)
    page.wait_for("document.querySelector('#lag').textContent === '3'")
    page.wait_for("document.querySelector('#groups polyline').getAttribute('points')?.split(' ').length >= 2")
    commit_as_client(main, 2, "other")
    page.wait_for("document.querySelector('#apis').innerText.includes('OffsetCommit')")
    main.post("faults/error", api="OffsetCommit", error="NOT_COORDINATOR")
    commit_as_client(main, 2, "other")
    page.wait_for("document.querySelector('#apis').innerText.includes('error NOT_COORDINATOR')")
    page.wait_for("document.querySelector('#count').textContent === '2'")
    assert page.run("document.querySelector('#address').textContent") == main.bootstrap_servers
    assert page.problems == []


def test_the_keyboard_opens_a_group_and_ends_a_fault(page: Page, client: Client, main: OneBroker) -> None:
    main.post("faults/error", api="Heartbeat", error="NOT_COORDINATOR", n=5)
    page.open(f"{client.url}/")
    page.wait_for("document.querySelector('#faults button') && document.querySelector('#groups summary')")
    focus(page, "#groups summary")
    page.press("Enter")
    page.wait_for("document.querySelector('#groups details').open")
    page.wait_for("document.querySelector('.inside').innerText.includes('orders-0')")
    assert "committed offset" in page.run("document.querySelector('.inside').innerText")
    main.post("commit", group="<b>billing</b>", offsets={"orders": {"0": 2}})
    page.wait_for("/orders-0\\s+2\\s+3\\s+1/.test(document.querySelector('.inside').innerText)")
    assert page.run("document.activeElement.tagName") == "SUMMARY"  # updates leave the focus where it is
    focus(page, "#faults button")
    assert page.run("document.activeElement.getAttribute('aria-label')").endswith(", error")
    page.press("Enter")
    page.wait_for("document.querySelector('#faults').hidden")
    assert [each["is_active"] for each in main.get("faults")][-1] is False
    focus(page, "#pause")
    page.press(" ")
    assert page.run("document.querySelector('#state').textContent") == "paused"


def test_an_open_group_begins_with_what_is_stuck(page: Page, client: Client, main: OneBroker) -> None:
    main.post("commit", group="<b>billing</b>", offsets={"orders": {"0": 5}})
    page.open(f"{client.url}/?group=%3Cb%3Ebilling%3C%2Fb%3E")
    first = "document.querySelector('.inside > :first-child')"
    page.wait_for(f"{first}?.textContent.includes('has committed 5 in orders-0, beyond the end 3')")
    assert "Reset the offsets" in page.run(f"{first}.textContent")
    main.post("commit", group="<b>billing</b>", offsets={"orders": {"0": 3}})
    page.wait_for(f"{first}.tagName === 'TABLE'")
    assert page.problems == []


def test_logs_grow_as_records_are_appended(page: Page, client: Client, main: OneBroker) -> None:
    page.open(f"{client.url}/")
    orders = "[...document.querySelectorAll('#topics tbody tr')].find((row) => row.cells[0].textContent === 'orders')"
    page.wait_for(f"{orders}?.cells[2].textContent === '3'")
    before = page.run(f"Number({orders}.cells[3].textContent)")
    page.wait_for(f"{orders}.cells[4].textContent === '0'")
    main.post("produce", topic="orders", records=["x" * 900], partition=1)
    page.wait_for(f"Number({orders}.cells[3].textContent.replace(',', '')) > {before + 900}")
    assert page.run("document.querySelector('#growth svg').getAttribute('aria-label')").startswith(
        "bytes of all logs"
    )
    page.wait_for(f"{orders}.querySelector('polyline').getAttribute('points').split(' ').length >= 3")
    assert page.run(f"{orders}.cells[1].textContent") == "2"


def test_the_keyboard_opens_a_recent_request_which_the_inspector_explains(
    page: Page, client: Client, main: OneBroker
) -> None:
    page.open(f"{client.url}/")
    commit_as_client(main, 2, "explained")
    newest_text = "document.querySelector('#recent summary')?.innerText"
    page.wait_for(f"/explained[^]* ms$/.test({newest_text}?.trim())")
    focus(page, "#recent summary")
    newest = page.run("document.activeElement.innerText")
    assert "OffsetCommit v" in newest and "explained" in newest and newest.strip().endswith(" ms")
    page.press("Enter")
    page.wait_for("document.querySelectorAll('#recent pre').length === 2")
    words = page.run("document.querySelector('#recent details[open]').innerText")
    assert re.search(r"group_id +['\"]explained", words) and re.search(r"error_code +0 NONE", words)
    commit_as_client(main, 3, "later")
    page.wait_for("document.querySelector('#recent summary').innerText.includes('later')")
    assert page.run("document.activeElement.innerText") == newest  # it keeps the focus, below the new one
    assert page.problems == []


def test_an_update_of_a_thousand_groups_delays_no_frame(page: Page, client: Client, main: OneBroker) -> None:
    main.post("create_topic", name="wide", partitions=20)
    host, port = main.bootstrap_servers.split(":")
    with Connection(host, int(port)) as connection:
        for number in range(1000):
            connection.call(request(f"group-{number}", {("wide", i): 0 for i in range(20)}, {}), VERSION)

    def opened() -> None:
        page.open(f"{client.url}/")
        page.wait_for("document.querySelectorAll('details[data-group]').length === 1001")

    lags = iter(["1,002", "2,002", "3,002"])

    def updated() -> None:
        main.post("produce", topic="wide", records=["a"], partition=7)  # the lag of each group changes
        page.wait_for(f"document.querySelector('#lag').textContent === '{next(lags)}'")

    for run in (opened, updated):
        longest_ms = [max(cpu for cpu, _ in page.tasks_during(run)) for _ in range(3)]
        assert min(longest_ms) < LONGEST_TASK_MS * slowness(), longest_ms
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_with_500_groups(page: Page, client: Client, main: OneBroker, scheme: str) -> None:
    axe = MODULES / "axe-core" / "axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed: make tools")
    main.post("create_topic", name="wide", partitions=20)
    host, port = main.bootstrap_servers.split(":")
    with Connection(host, int(port)) as connection:
        for number in range(500):
            connection.call(request(f"group-{number}", {("wide", i): 0 for i in range(20)}, {}), VERSION)
    main.post("faults/error", api="Heartbeat", error="NOT_COORDINATOR", n=5)
    page.prefer(scheme)
    page.resize(1280)
    page.open(f"{client.url}/")
    page.wait_for("document.querySelectorAll('details[data-group]').length === 501")
    page.wait_for("document.querySelector('#faults button')")
    page.run("document.querySelector('#groups summary').click()")
    page.wait_for("document.querySelector('.inside')?.innerText.includes('orders-0')")
    page.run(axe.read_text(encoding="utf-8") + "; 0")
    found = page.run(
        "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map("
        "(each) => [each.id, each.impact, each.nodes.length, each.nodes[0].html.slice(0, 200)]))"
    )
    page.prefer("light")
    assert found == []


def names(page: Page) -> list[str]:
    """The groups that are shown, in their order."""
    found: list[str] = page.run(
        "[...document.querySelectorAll('details[data-group]:not([hidden])')].map((each) => each.dataset.group)"
    )
    return found


@pytest.fixture
def three(main: OneBroker) -> OneBroker:
    """Groups with a lag of 2, 1 and 0."""
    main.post("commit", group="audit", offsets={"orders": {"0": 2}})
    main.post("commit", group="reports", offsets={"orders": {"0": 3}})
    return main


def test_groups_are_searched_and_sorted_and_the_address_keeps_it(
    page: Page, client: Client, three: OneBroker
) -> None:
    page.open(f"{client.url}/")
    page.wait_for("document.querySelectorAll('details[data-group]').length === 3")
    assert names(page) == ["<b>billing</b>", "audit", "reports"]
    focus(page, "#sort")
    page.run(
        "document.activeElement.value = 'lag', document.activeElement.dispatchEvent(new Event('change'))"
    )
    three.post("commit", group="<b>billing</b>", offsets={"orders": {"0": 3}})
    page.wait_for("document.querySelector('details[data-group]').dataset.group === 'audit'")
    page.run("document.querySelector('#search').focus()")
    page.run("document.activeElement.value = 'EPO', document.activeElement.dispatchEvent(new Event('input'))")
    assert names(page) == ["reports"]
    assert page.run("location.search") == "?broker=main&search=EPO&sort=lag"
    page.open(page.run("location.href"))
    page.wait_for("document.querySelectorAll('details[data-group]').length === 3")
    assert names(page) == ["reports"] and page.run("document.querySelector('#search').value") == "EPO"
    page.run("document.querySelector('#search').oninput({ target: { value: 'x' } })")
    page.wait_for("!document.querySelector('#no-match').hidden")
    assert page.problems == []


def test_a_group_has_its_own_address(page: Page, client: Client, three: OneBroker) -> None:
    page.open(f"{client.url}/")
    page.wait_for("document.querySelectorAll('details[data-group]').length === 3")
    page.open(page.run("document.querySelector('[data-group=audit] .own').href"))
    page.wait_for("document.querySelector('[data-group=audit] .inside')?.innerText.includes('orders-0')")
    assert names(page) == ["audit"]
    assert page.run("document.title") == "audit - main - kafka_offsets"
    page.open(page.run("document.querySelector('#all').href"))
    page.wait_for("document.querySelectorAll('details[data-group]').length === 3")
    assert len(names(page)) == 3 and page.run("document.title") == "main - kafka_offsets"


def test_the_records_of_a_topic_are_shown(page: Page, client: Client, main: OneBroker) -> None:
    page.open(f"{client.url}/")
    page.wait_for(
        "[...document.querySelectorAll('#topics button')].some((each) => each.textContent === 'orders')"
    )
    page.run(
        "[...document.querySelectorAll('#topics button')].find((each) => each.textContent === 'orders').click()"
    )
    page.wait_for("document.querySelectorAll('#records tbody tr').length === 3")
    rows = page.run(
        "[...document.querySelectorAll('#records tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [[row[0], row[1], *row[3:]] for row in rows] == [
        ["0", "2", "null", "c"],
        ["0", "1", "null", "b"],
        ["0", "0", "null", "a"],
    ]
    assert page.run("location.search") == "?broker=main&topic=orders"
    page.open(page.run("location.href"))
    page.wait_for("document.querySelectorAll('#records tbody tr').length === 3")
    assert page.problems == []


def test_a_fetch_that_the_broker_holds_is_said_to_wait(page: Page, client: Client, main: OneBroker) -> None:
    host, port = main.bootstrap_servers.split(":")
    made = messages.FetchRequest
    held = made(
        max_wait_ms=60_000,
        min_bytes=2,  # the first ones for a byte wait for a moment only: fetch.first.wait.ms
        topics=[made.FetchTopic("orders", partitions=[made.FetchPartition(1)])],
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(encode_request(held, 11, 1, "waits"))
        page.open(f"{client.url}/")
        page.wait_for("document.querySelector('#recent summary')?.innerText.includes('waits')")
        assert page.run("document.querySelector('#recent summary .number').textContent") == "waiting"


def test_what_is_drawn_has_a_name_before_it_is_seen(page: Page, client: Client, main: OneBroker) -> None:
    for number in range(60):
        main.post("commit", group=f"group-{number}", offsets={"orders": {"0": 1}})
    page.resize(1280)
    page.open(f"{client.url}/")
    page.wait_for("document.querySelectorAll('details[data-group]').length === 61")
    assert (
        page.run(
            "[...document.querySelectorAll('svg')].filter((each) => !each.getAttribute('aria-label')).length"
        )
        == 0
    )
    box = page.run(
        "(({top, left}) => [top, left])(document.querySelector('#of-faults').getBoundingClientRect())"
    )
    assert box[0] < 900 and box[1] > 400, "faults are beside the groups"


def test_another_broker_can_be_chosen(page: Page, client: Client, main: OneBroker) -> None:
    other = client.post("/brokers", manual_clock=True).value
    try:
        page.open(f"{client.url}/")
        page.wait_for("document.querySelectorAll('#brokers option').length === 2")
        focus(page, "#brokers")
        page.run("document.activeElement.selectedIndex = 1")
        page.run("document.activeElement.dispatchEvent(new Event('change'))")
        page.wait_for("document.querySelector('#clock').textContent.startsWith('manual clock')")
        page.wait_for("document.querySelector('#count').textContent === '0'")
        assert page.run("document.querySelector('#no-groups').hidden") is False
    finally:
        client.delete(f"/brokers/{other['broker']}")
    page.wait_for("document.querySelector('#count').textContent === '1'")  # main again, as the other is gone


def test_brokers_and_groups_may_have_any_letters(page: Page, client: Client, main: OneBroker) -> None:
    """A broker that is called as its test, with / or ?, was never shown."""
    broker, group = "test_it[a/b?c#d-100%]", "a/b?c&d=<script>"
    path = f"/brokers/{quote(broker, safe='')}"
    client.post("/brokers", name=broker, topics={"orders": 1})
    client.post(f"{path}/commit", group=group, offsets={"orders": {"0": 0}})
    try:
        page.open(f"{client.url}/?{urlencode({'broker': broker, 'group': group})}")
        page.wait_for("document.querySelector('details[data-group] .inside')?.innerText.includes('orders-0')")
        assert names(page) == [group]
        assert page.run("document.title") == f"{group} - {broker} - kafka_offsets"
        assert page.problems == []
    finally:
        client.delete(path)


WRONG = """<body style="background: white">
<p style="color: rgb(153, 153, 153)">pale</p>
<p style="overflow: hidden; width: 100px; white-space: nowrap">a line that is longer than its box</p>
<h2 style="margin-bottom: -40px">one</h2><p>two</p>
<p style="width: 2000px">wide</p>
<div style="overflow: auto; width: 80px"><table><tr><td>aWordThatIsWiderThanThat</td></tr></table></div>
"""


def test_the_rules_of_layout_find_what_is_wrong(page: Page, tmp_path: Path) -> None:
    (tmp_path / "wrong.html").write_text(WRONG, encoding="utf-8")
    page.open((tmp_path / "wrong.html").as_uri())
    page.prefer("light")
    assert page.layout_problems(tables_fit=False) == [
        "the page is 2008 px wide",
        'cut off: p "a line that is longer than its box"',
        'outside the window: p "wide"',
        'h2 "one" overlaps p "two"',
    ]
    assert page.layout_problems(tables_fit=True)[4:] == ['a table scrolls: tr "aWordThatIsWiderThanThat"']
    assert page.contrast_problems() == ['contrast 2.8: rgb(153, 153, 153) on rgb(255,255,255), "pale"']


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_everything_fits_into_the_window(page: Page, client: Client, main: OneBroker, width: int) -> None:
    long_name = "a-group-with-a-name-that-does-not-fit-into-a-column-of-a-phone"
    main.post("commit", group=long_name, offsets={"orders": {"0": 2}})
    main.post("faults/error", api="Heartbeat", error="NOT_COORDINATOR", n=5)
    commit_as_client(main, 2, "other")
    page.resize(width)
    page.open(f"{client.url}/")
    try:
        page.wait_for("document.querySelector('#groups details') && document.querySelector('#faults button')")
        page.run(
            "for (const kind of ['groups', 'recent']) document.querySelector(`#${kind} details`).open = true"
        )
        page.wait_for("document.querySelector('.inside').innerText.includes('orders-0')")
        page.wait_for("document.querySelectorAll('#recent pre').length === 2")
        page.wait_for("document.querySelector('#topics td')")
        assert page.layout_problems(tables_fit=width == 1280) == []
        for scheme in ("light", "dark"):
            page.prefer(scheme)
            assert page.contrast_problems() == []
    finally:
        page.resize(1280)


@pytest.fixture
def fixed(client: Client, tmp_path: Path) -> Iterator[Page]:
    """The page with answers that are always the same, a group and a request open, after its last update."""
    with chromium(tmp_path / "chromium") as page:
        page.before_scripts(Path(__file__).with_name("fixed_page.js").read_text(encoding="utf-8"))
        page.open(f"{client.url}/")
        page.wait_for("document.querySelector('#groups details')")
        page.run("document.querySelector('#groups details').open = true")
        page.wait_for("window.isDone && document.querySelector('.inside table')")
        yield page


def test_the_page_looks_as_in_the_kept_pictures(fixed: Page, compare: Compare) -> None:
    assert compare(fixed, "page") == []
    assert fixed.problems == []


@pytest.mark.parametrize(
    "change",
    [
        "#figures { display: none }",
        "#figures { margin-top: 24px }",
        "#groups .inside { visibility: hidden }",
        "summary { grid-template-columns: 1fr }",
        "th, td { padding-left: 20px }",
    ],
)
def test_the_pictures_show_what_a_change_of_the_style_moves_or_hides(
    fixed: Page, compare: Compare, request: pytest.FixtureRequest, change: str
) -> None:
    if request.config.getoption("--rewrite-pictures"):
        pytest.skip("these pictures are not kept")
    fixed.add_style(change)
    assert len(compare(fixed, "page")) >= 4  # of six


def test_with_a_token_the_page_asks_for_it(page: Page) -> None:
    with Serving("s3cret") as client:
        page.open(f"{client.url}/")
        page.wait_for("!document.querySelector('#login').hidden")
        assert "a token is missing" in page.run("document.querySelector('#state').textContent")
        focus(page, "#token")
        page.run("document.activeElement.value = 's3cret'")
        page.press("Enter")
        page.wait_for("document.querySelector('#address').textContent.startsWith('127.0.0.1:')")
        page.wait_for("document.querySelector('#login').hidden")


def test_the_page_names_no_other_server_and_its_policy_allows_none(client: Client) -> None:
    with urllib.request.urlopen(f"{client.url}/") as response:
        policy, text = response.headers["Content-Security-Policy"], response.read().decode()
    assert "default-src 'none'; connect-src 'self'" in policy
    assert re.findall(r"script-src 'sha256-[\w+/]{43}='", policy)
    assert set(re.findall(r"https?://[\w.]+", text)) == {"http://www.w3.org"}  # the name space of SVG
    assert not re.search(r'(src|href)="(?!data:,|#)', text)
    assert len(text.encode()) < 30_000
