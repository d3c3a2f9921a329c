"""The configuration of the balancer, and the file of addresses that servers keep up to date."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interleave.errors import ConfigurationError
from interleave.service.generator.balancer import full_config, site
from interleave.service.generator.registration import change_line, own_address

ROOT = Path(__file__).parent.parent.parent


def test_the_documentation_prints_the_configuration() -> None:
    page = (ROOT / "docs/how-to/serving.md").read_text("utf-8")
    printed = re.search(r"```\n(upstream generators \{.*?)```", page, re.DOTALL)
    assert printed is not None
    assert printed[1] == site(["http://10.0.0.1:8011", "http://10.0.0.2:8011"], "8080")


def test_servers_of_this_machine_are_asked_by_its_own_name() -> None:
    assert "Host localhost" in site(["http://127.0.0.1:8011", "http://localhost:8012"], "8080")
    assert "Host localhost" not in site(["http://127.0.0.1:8011", "http://10.0.0.1:8011"], "8080")


def test_without_servers_there_is_still_a_configuration() -> None:
    assert "return 503" in full_config(Path("/somewhere"), site([], "8080"))


@pytest.mark.parametrize(
    ("urls", "says"),
    [(["http://a:1", "https://b:2"], "both http and https"), (["http://a:1/path"], "remove the path")],
)
def test_what_nginx_cannot_do_is_said(urls: list[str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        site(urls, "8080")


def test_many_servers_change_their_own_lines_only() -> None:
    file = Path("endpoints.txt")
    file.write_text("# ours\nhttp://10.0.0.9:8011  # by hand\n")
    urls = [f"http://10.0.0.{number}:8011" for number in range(1, 9)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda url: change_line(file, url, present=True), [*urls, *urls]))
    lines = file.read_text().splitlines()
    assert lines[:2] == ["# ours", "http://10.0.0.9:8011  # by hand"] and sorted(lines[2:]) == urls
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda url: change_line(file, url, present=False), urls))
    assert file.read_text() == "# ours\nhttp://10.0.0.9:8011  # by hand\n"


def test_a_server_tells_an_address_that_others_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "interleave.service.generator.registration._address_of_this_machine", lambda: "10.0.0.7"
    )
    assert own_address("http://10.0.0.1:8011", "10.0.0.1", None) == "http://10.0.0.1:8011"
    assert own_address("http://0.0.0.0:8011", "0.0.0.0", "https://a.example/") == "https://a.example"
    assert own_address("http://0.0.0.0:8011", "0.0.0.0", None) == "http://10.0.0.7:8011"
    with pytest.raises(ConfigurationError, match="--address"):
        own_address("http://0.0.0.0:8011", "0.0.0.0", "a.example")
