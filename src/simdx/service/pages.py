"""The page's files, from the package, read once. No template and no build step: what is here is served."""

import hashlib
from importlib import resources

from fastapi import FastAPI, Request, Response

from simdx.service.problems import Problem

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def mount_page(app: FastAPI) -> None:
    """`/` is index.html; the rest lies under /static/."""
    files = {
        item.name: item.read_bytes()
        for item in (resources.files("simdx.service") / "static").iterdir()
        if item.name.rsplit(".", 1)[-1] in _TYPES
    }
    tags = {name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in files.items()}

    def send(name: str, request: Request) -> Response:
        # Revalidated at every load: after an upgrade no page runs with last week's script.
        headers = {"etag": tags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(files[name], headers={**headers, "content-type": _TYPES[name.rsplit(".", 1)[-1]]})

    async def index(request: Request) -> Response:
        return send("index.html", request)

    async def static(name: str, request: Request) -> Response:
        if name not in files:
            raise Problem("not-found", "There is no such file.")
        return send(name, request)

    app.add_api_route("/", index, include_in_schema=False)
    app.add_api_route("/static/{name}", static, include_in_schema=False)
