"""Where a server listens, and who may reach it there."""

import ipaddress
import os
import socket

from pipeline.errors import UsageError


def listen(host: str, port: int) -> socket.socket:
    """Raises UsageError where that cannot be; port 0: a free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        reason = os.strerror(number) if number > 0 else "no such host"
        raise UsageError(
            f"serve: cannot listen on {host}, port {port} ({reason}); choose another with --host, --port"
        ) from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine reaches it."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def refuse_without_key(listening: socket.socket, key: str, no_key: bool) -> None:
    """Raises UsageError where others reach the server and need no key for it, unless that is meant."""
    if key or no_key or is_loopback(listening):
        return
    raise UsageError(
        f"serve: others can reach {address_of(listening)}, and no key is set; set GRAPHMILL_API_KEY (in .env or the "
        "environment), or pass --no-key where something in front asks for one"
    )
