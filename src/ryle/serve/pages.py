"""The web page: files of this package, read once. Nothing that a request names is looked up on a disk."""

from __future__ import annotations

from importlib import resources

from fastapi import FastAPI, HTTPException, Response

#: What browsers may do with the page: run and draw what comes from here, talk to here, and nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


def static_files() -> dict[str, bytes]:
    """Read all files of the page, by name."""
    folder = resources.files("ryle.serve") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES}


def add_pages(app: FastAPI) -> None:
    """Add the page, and that of the interface, to an application."""
    files = static_files()

    def answer(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such file")
        headers = {"content-security-policy": POLICY}
        return Response(files[name], media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return answer("index.html")

    @app.get("/docs", include_in_schema=False)
    def interface() -> Response:
        return answer("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return answer(name)
