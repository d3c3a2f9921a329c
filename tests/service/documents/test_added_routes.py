"""Routes of other packages: those of the how-to, installed as it says, and ones that cannot be served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running import Service, service

from example_packages import example_package, put_on_path
from interleave import ConfigurationError
from interleave.service.documents.app import build_app
from interleave.service.documents.keys import FILE_NAME, KeyAccess, add_key
from interleave.service.documents.routes import Route, RouteSet, added_routes, route_finder

PAGE = example_package("how-to/add-routes.md")
ASKED = {"input": "A frog in one picture"}
OWN = RouteSet(
    {("GET", "/v1/own"): Route("Nothing")},
    lambda documents, access: {("GET", "/v1/own"): None},  # type: ignore[dict-item]
)


def test_the_routes_of_the_page_are_served_as_those_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(PAGE.build(tmp_path / "package"), "word_count", monkeypatch)
    with service(tmp_path / "runs") as running:
        id_ = running.http.post("/v1/responses", json=ASKED).json()["id"]
        steps = running.http.get(f"/v1/documents/{id_}/steps").json()["data"]
        told = running.http.get(f"/v1/documents/{id_}/words")
        assert told.json() == {"words": sum(len(step["text"].split()) for step in steps)}
        assert running.http.get("/v1/documents/resp_0/words").status_code == 404
        described = running.http.get("/openapi.json").json()
        assert described["paths"]["/v1/documents/{id}/words"]["get"]["summary"].startswith("How many words")
        assert described["components"]["schemas"]["Words"]["required"] == ["words"]
        assert 'route="/v1/documents/{id}/words"' in running.http.get("/metrics").text
        add_key(running.folder / FILE_NAME, "ann")
        assert running.http.get(f"/v1/documents/{id_}/words").status_code == 401


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        (
            replace(OWN, described={("GET", "/health"): Route("Mine")}),
            "'mine' has GET /health, which already exists",
        ),
        (replace(OWN, handlers=lambda documents, access: {}), "GET /v1/own needs both a handler"),
    ],
)
def test_a_set_that_does_not_fit_is_refused_at_the_start(
    routes: RouteSet, said: str, running: Service, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        build_app(running.documents, KeyAccess(tmp_path / FILE_NAME), running.metrics, {"mine": routes})


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("ROUTES = 7", "'own_routes:ROUTES' of own-routes is not a RouteSet"),
        ("import nowhere", "the route set 'own' of the package own-routes cannot be loaded"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(
    module: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "own_routes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-routes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[interleave.routes]\nown = own_routes:ROUTES\n")
    (tmp_path / "own_routes.py").write_text(module)
    put_on_path(tmp_path, "own_routes", monkeypatch)
    with pytest.raises(ConfigurationError, match=said):
        added_routes()


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/a/b.c", "/v1/a/b.c"),
        ("/v1/a/bxc", "other"),
        ("/v1/a/x/d", "/v1/a/{id}/d"),
        ("/v1/a//d", "other"),
        ("/v1/a/x/y/d", "other"),
        ("/v1/f/x/y/z", "/v1/f/{id}/{path:path}"),
        ("/v1/f/x", "other"),
        ("/", "/"),
        ("", "other"),
    ],
)
def test_a_path_belongs_to_one_route_or_none(path: str, route: str) -> None:
    paths = ("/", "/v1/a/b.c", "/v1/a/{id}/d", "/v1/f/{id}/{path:path}")
    find: Callable[[str], Any] = route_finder({("GET", each): Route("") for each in paths})
    assert find(path) == route
