"""Cipher suites: the names of `ssl.cipher.suites`, which are those of the IANA, for OpenSSL.

Python can choose suites of TLS 1.2 one by one; of TLS 1.3 all or none. `DEFAULT@SECLEVEL=0` is all suites at
OpenSSL's security level 0, which takes certificates signed with SHA-1 and small keys, as Java does; `@SECLEVEL=0` is
the level for the suites beside it.
"""

from __future__ import annotations

import re
import ssl

from kafka_offsets.errors import ConfigError

_LEVEL = re.compile(r"(?:DEFAULT)?@SECLEVEL=[0-5]")
_TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def choose_suites(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Let a context use these cipher suites alone, and the versions of TLS that have some of them.

    Call it once the context has its versions. Raises ConfigError, for an unknown suite, and if none can be used.
    """
    levels = [suite for suite in suites if _LEVEL.fullmatch(suite)]
    suites = tuple(suite for suite in suites if suite not in levels)
    if len(levels) > 1 or (suites and levels and levels[0].startswith("D")):
        raise ConfigError(f"ssl.cipher.suites: {levels[-1]} stands alone")
    if levels and not suites:
        context.set_ciphers(f"DEFAULT{levels[0].removeprefix('DEFAULT')}")
        return
    newer = _TLS_1_3.intersection(suites)
    older = [suite for suite in suites if suite not in _TLS_1_3]
    if newer and newer != _TLS_1_3:
        raise ConfigError(
            f"ssl.cipher.suites: of TLS 1.3 all are served or none: {', '.join(sorted(_TLS_1_3))}"
        )
    for suite in older:
        try:
            context.set_ciphers(_openssl_name(suite))
        except ssl.SSLError:
            raise ConfigError(f"ssl.cipher.suites: {suite} is not served") from None
    if older:
        context.set_ciphers(":".join([*map(_openssl_name, older), *levels]))
    if not newer:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    if not older:
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_3)
    if context.minimum_version > context.maximum_version:
        raise ConfigError("ssl.cipher.suites has none for the versions in ssl.enabled.protocols")


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name: ECDHE-RSA-AES256-GCM-SHA384 of TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."""
    found = re.fullmatch(r"TLS_(\w+)_WITH_(\w+)", suite)
    if found is None:
        return "unknown"
    exchange, cipher = found.groups()
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")
