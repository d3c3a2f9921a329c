"""Routes of other packages: those of the how-to, installed as it says, and ones that cannot be served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import httpx
import pytest
from pydantic import Field
from running import Service, service

from example_packages import example_package, put_on_path
from interleave import ConfigurationError
from interleave.plugin import Value
from interleave.service.documents.app import build_app
from interleave.service.documents.bodies import json_body
from interleave.service.documents.keys import FILE_NAME, KeyAccess, add_key
from interleave.service.documents.routes import Router, SubmitCall, added_routes, route_finder

PAGE = example_package("how-to/add-routes.md")
ASKED = {"input": "A frog in one picture"}


def test_the_routes_of_the_page_are_served_as_those_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(PAGE.build(tmp_path / "package"), "word_count", monkeypatch)
    with service(tmp_path / "runs") as running:
        id_ = running.http.post("/v1/responses", json=ASKED).json()["id"]
        steps = running.http.get(f"/v1/documents/{id_}/steps").json()["data"]
        told = running.http.get(f"/v1/documents/{id_}/length")
        assert told.json() == {"words": sum(len(step["text"].split()) for step in steps)}
        assert running.http.get("/v1/documents/resp_0/length").status_code == 404
        described = running.http.get("/openapi.json").json()
        assert described["paths"]["/v1/documents/{id}/length"]["get"]["summary"].startswith("How many words")
        assert described["components"]["schemas"]["Length"]["required"] == ["words"]
        assert 'route="/v1/documents/{id}/length"' in running.http.get("/metrics").text
        add_key(running.folder / FILE_NAME, "ann")
        assert running.http.get(f"/v1/documents/{id_}/length").status_code == 401


def test_a_route_that_exists_is_refused_at_the_start(running: Service, tmp_path: Path) -> None:
    router = Router()
    router.get("/health")(lambda: None)
    with pytest.raises(ConfigurationError, match="the router 'mine' has GET /health, which already exists"):
        build_app(running.documents, KeyAccess(tmp_path / FILE_NAME), running.metrics, {"mine": router})


class Asked(Value):
    words: int = Field(ge=1)


def test_a_body_is_read_after_the_caller_is_checked_and_within_the_limits(tmp_path: Path) -> None:
    router, read = Router(), list[Asked]()

    @router.post("/v1/own", response_model=Asked)
    async def take(call: SubmitCall, body: Annotated[Asked, json_body(Asked)]) -> Asked:
        read.append(body)
        return body

    parts = Router()
    parts.include_router(router, prefix="/v1/part")
    (tmp_path / "runs").mkdir()
    _, reader = add_key(tmp_path / "runs" / FILE_NAME, "reader", ["read"])
    _, owner = add_key(tmp_path / "runs" / FILE_NAME, "owner")
    with service(tmp_path / "runs", routes={"own": router, "parts": parts}) as running:
        for path in ("/v1/own", "/v1/part/v1/own"):

            def post(
                body: bytes, key: str, path: str = path, http: httpx.Client = running.http
            ) -> httpx.Response:
                headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
                return http.post(path, content=body, headers=headers)

            assert post(b"no JSON", "nobody").status_code == 401
            assert post(b"no JSON", reader).status_code == 403
            assert "is not JSON" in post(b"no JSON", owner).json()["error"]["message"]
            assert post(b'{"words": 1, "words": 2}', owner).status_code == 400
            for body in (b'{"words": 0}', b"{}", b'{"words": 1, "more": 2}'):
                refused = post(body, owner)
                assert (refused.status_code, refused.json()["error"]["param"]) == (
                    400,
                    "words",
                ) or b"more" in body
                assert refused.status_code == 400
            assert post(b'{"words": 3}', owner).json() == {"words": 3}
            described = running.http.get("/openapi.json").json()["paths"][path]["post"]
            schema = {"schema": {"$ref": "#/components/schemas/Asked"}}
            assert described["requestBody"] == {"content": {"application/json": schema}, "required": True}
    assert read == [Asked(words=3)] * 2


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("ROUTES = 7", "'own_routes:ROUTES' of own-routes is not a Router"),
        ("from fastapi import APIRouter\nROUTES = APIRouter()", "own-routes is not a Router: an entry point"),
        ("import nowhere", "the router 'own' of the package own-routes cannot be loaded"),
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
    assert route_finder(paths)(path) == route
