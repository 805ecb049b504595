"""HTTP to a log, with every answer bounded in bytes and in time. Nothing that comes back is believed here.

No redirects: an answer from another address is somebody else's. No proxies and no `.netrc` from the environment. No
compression: what is counted is what arrives.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlsplit

import httpx

from .encoding import parse_decimal
from .errors import CallerError, SendError

#: Longest wait for a connection, and for a whole answer, in seconds.
CONNECT_S = 5.0
TOTAL_S = 30.0
#: Most bytes of a refusal: a problem document.
_MAX_REFUSAL = 64 * 1024


class FetchError(SendError):
    """A request brought no answer, or a refusal.

    ``may_pass``: whether the same request may well succeed later. ``status`` is that of a refusal, else ``None``.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "log-unreachable",
        may_pass: bool,
        status: int | None = None,
        problem: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.may_pass = may_pass
        self.status = status
        #: The code of the problem document, if one came.
        self.problem = problem
        self.retry_after_s = retry_after_s


class Transport:
    """Requests below one log's address. Belongs to one event loop."""

    def __init__(self, url: str, *, connect_s: float | None = None, total_s: float | None = None) -> None:
        """Raises :class:`CallerError` (``log-url``) for what is no address of a server."""
        self.url = base_url(url)
        self._total_s = TOTAL_S if total_s is None else total_s
        self._connect_s = CONNECT_S if connect_s is None else connect_s
        self._made: httpx.AsyncClient | None = None

    def _client(self) -> httpx.AsyncClient:
        # When it is first needed, in the loop's own thread: reading the system's certificates takes longer than all else
        # that a gate does when it opens.
        if self._made is None:
            self._made = httpx.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                verify=self.url.startswith("https:"),
                timeout=httpx.Timeout(self._total_s, connect=self._connect_s),
                limits=httpx.Limits(max_connections=8, max_keepalive_connections=4, keepalive_expiry=60),
                headers={"accept-encoding": "identity", "user-agent": "counterfoil-python"},
            )
        return self._made

    async def close(self) -> None:
        """Closes the connections."""
        if self._made is not None:
            await self._made.aclose()

    async def get(self, path: str, most: int) -> bytes:
        """The answer to a GET, of at most so many bytes. Raises :class:`FetchError`."""
        return await self._send("GET", path, most, None, {})

    async def post(self, path: str, body: bytes, most: int, *, content_type: str, accept: str) -> bytes:
        """The answer to a POST. Raises :class:`FetchError`."""
        return await self._send("POST", path, most, body, {"content-type": content_type, "accept": accept})

    async def _send(self, method: str, path: str, most: int, body: bytes | None, headers: dict[str, str]) -> bytes:
        url = f"{self.url}/{path}"
        try:
            return await asyncio.wait_for(self._answer(method, url, most, body, headers), self._total_s)
        except asyncio.TimeoutError:
            raise FetchError(
                f"{url}: no whole answer within {self._total_s:g} s; it is tried again", may_pass=True
            ) from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise FetchError(f"{url}: {reason}; see that the log runs and can be reached", may_pass=True) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise FetchError(f"{url}: {error}; correct the log's address", may_pass=False) from error

    async def _answer(self, method: str, url: str, most: int, body: bytes | None, headers: dict[str, str]) -> bytes:
        async with self._client().stream(method, url, content=body, headers=headers) as response:
            if response.is_redirect or 300 <= response.status_code < 400:
                raise FetchError(
                    f"{url} redirects to {response.headers.get('location', '(nowhere)')!r}, which is not followed; give the "
                    "log's own address",
                    may_pass=False,
                    status=response.status_code,
                )
            if not response.is_success:
                raise await self._refusal(url, response)
            encoding = response.headers.get("content-encoding", "identity")
            if encoding != "identity":
                raise FetchError(f"{url} answers in {encoding}, which was not asked for; it is no log", may_pass=False)
            return await _read(url, response, most)

    async def _refusal(self, url: str, response: httpx.Response) -> FetchError:
        status = response.status_code
        problem, detail = None, ""
        try:
            document = httpx.Response(200, content=await _read(url, response, _MAX_REFUSAL)).json()
            if isinstance(document, dict):
                problem = document["code"] if isinstance(document.get("code"), str) else None
                detail = str(document.get("detail", ""))[:300]
        except (FetchError, ValueError, httpx.HTTPError):
            # The status is the answer; a body that cannot be read takes nothing from it.
            pass
        said = f"{status} {problem}: {detail}" if problem else f"{status} without a problem document"
        may_pass = status in (408, 425, 429) or status >= 500
        return FetchError(
            f"{url} refused with {said}; "
            + ("it is tried again" if may_pass else "ask the log's operator, or correct its address"),
            may_pass=may_pass,
            status=status,
            problem=problem,
            retry_after_s=parse_decimal(response.headers.get("retry-after", "")),
        )


def base_url(url: str) -> str:
    """The address without the slash at its end. Raises :class:`CallerError` (``log-url``)."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in parts.netloc:
        raise CallerError(
            f"{url!r} is not the address of a log; write http://host:port or https://host/prefix, and nothing behind it",
            code="log-url",
        )
    return url.rstrip("/")


def segment(name: str) -> str:
    """One path segment that may hold any character."""
    return quote(name, safe="")


async def _read(url: str, response: httpx.Response, most: int) -> bytes:
    too_large = FetchError(
        f"{url} answers with more than {most} bytes, which no log does; it was not read", may_pass=False
    )
    length = parse_decimal(response.headers.get("content-length", ""))
    if length is not None and length > most:
        raise too_large
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)
