"""What a document can be compared with: where it came from, its branches, and others of the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interleave.service.documents.requests import caller_of, value_json
from interleave.studio.gallery import item_of
from interleave.studio.label_schemas import Related, RelatedItem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from interleave.service.documents.service import Documents
    from interleave.studio.indexing import Indexing

MOST = 50


class RelatedRoutes:
    """The handler."""

    def __init__(self, documents: Documents, indexing: Indexing) -> None:
        self.documents = documents
        self.indexing = indexing

    async def show(self, request: Request) -> Response:
        """`GET /v1/studio/documents/{id}/related`."""
        caller = caller_of(request)
        job = await self.documents.get(caller, request.path_params["id"])
        catalogue = await self.indexing.catalogue()
        await self.indexing.refresh_newest()
        found = await catalogue.subjects.related(caller.sees, job.id, MOST)
        entries = await catalogue.entries([id_ for id_, _ in found])
        items = [
            RelatedItem.model_validate({"relation": relation, "document": item_of(entries[id_])})
            for id_, relation in found
            if id_ in entries
        ]
        return value_json(Related(data=items))
