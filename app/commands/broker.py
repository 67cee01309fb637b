"""Whether the broker is there. Nobody needs it in order to record."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

_SECONDS = 5


class BrokerAway(Exception):
    """The broker can't be reached; the message says why and holds no secret."""


def full_policy(url: str) -> str:
    """What the broker does when its memory is full, such as ``noeviction``; empty if it doesn't say.

    :raises BrokerAway: after one try.
    """
    address = url.replace("redis+socket://", "unix://", 1)
    try:
        with redis.Redis.from_url(address, socket_timeout=_SECONDS, retry=Retry(NoBackoff(), 0)) as client:
            client.ping()
            return str(client.config_get("maxmemory-policy").get("maxmemory-policy", ""))
    except (redis.RedisError, OSError, ValueError) as error:
        raise BrokerAway(str(error).splitlines()[0].rstrip(".")) from error
