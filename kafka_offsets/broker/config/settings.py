"""Settings of groups, users and clients, and ACLs: where a change of them is decided, and how it gets into force here.

A broker that is alone writes its data directory. In a cluster the metadata have the settings, and each broker installs
them in its directory. What may be set is checked before: see `config.group`, `api.quotas` and `api.credentials`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.credential import Credentials
from kafka_offsets.security.delegation_token import Tokens
from kafka_offsets.storage.directory.client_settings import Acls, Quotas
from kafka_offsets.storage.directory.data_directory import DataDirectory

K = TypeVar("K")
V = TypeVar("V")


class SharedSettings:
    """The settings that all brokers of a cluster have in common.

    cluster     makes a change in the metadata, which call `install` of each broker; None: this broker decides alone
    on_quotas   called with the quotas when they have changed
    authorizer  decides by the ACLs; None: nothing is authorized
    Each method raises StorageError; what the disk has refused is then as before.
    """

    def __init__(
        self, directory: DataDirectory, groups: GroupConfigs, authorizer: Authorizer | None = None
    ) -> None:
        self._directory, self._groups = directory, groups
        self.authorizer = authorizer
        if authorizer is not None:
            authorizer.replace(directory.clients.acls)
        self.cluster: Callable[[ClusterSettings], None] | None = None
        self.on_quotas: Callable[[Quotas], None] = lambda quotas: None

    def set_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Configure a group; the configuration must be checked."""
        if self.cluster is not None:
            self.cluster(ClusterSettings(groups={group: configs}))
        else:
            self._groups.set(group, configs)

    def set_quotas(self, quotas: Quotas) -> None:
        """Replace all quotas."""
        clients = self._directory.clients
        if self.cluster is not None:
            self.cluster(ClusterSettings(quotas=_changes(clients.quotas, quotas, {})))
        else:
            self._install_quotas(quotas)

    def _install_quotas(self, quotas: Quotas) -> None:
        self._directory.clients.set_quotas(quotas)
        self.on_quotas(quotas)

    def set_credentials(self, credentials: Credentials) -> None:
        """Replace all SCRAM credentials."""
        clients = self._directory.clients
        if self.cluster is not None:
            self.cluster(ClusterSettings(credentials=_changes(clients.credentials, credentials, None)))
        else:
            clients.set_credentials(credentials)

    def set_tokens(self, tokens: Tokens) -> None:
        """Replace all delegation tokens."""
        clients = self._directory.clients
        if self.cluster is not None:
            self.cluster(ClusterSettings(tokens=_changes(clients.tokens, tokens, None)))
        else:
            clients.set_tokens(tokens)

    def set_acls(self, acls: Acls) -> None:
        """Replace all ACLs."""
        if self.cluster is not None:
            before = dict.fromkeys(self._directory.clients.acls, True)
            self.cluster(ClusterSettings(acls=_changes(before, dict.fromkeys(acls, True), False)))
        else:
            self._set_acls(acls)

    def _set_acls(self, acls: Iterable[AclBinding]) -> None:
        self._directory.clients.set_acls(acls)
        if self.authorizer is not None:
            self.authorizer.replace(self._directory.clients.acls)

    def install(self, settings: ClusterSettings) -> None:
        """Bring this broker up to date with the settings of its cluster; what it has already costs nothing."""
        for group in {*self._directory.group_configs, *settings.groups}:
            configs = settings.groups.get(group, {})
            if configs != self._groups.of(group):
                self._groups.set(group, configs)
        clients = self._directory.clients
        if clients.acls != settings.acls.keys():
            self._set_acls(settings.acls)
        if clients.quotas != settings.quotas:
            self._install_quotas(settings.quotas)
        if clients.credentials != settings.credentials:
            clients.set_credentials(
                {
                    key: credential
                    for key, credential in settings.credentials.items()
                    if credential is not None
                }
            )
        if clients.tokens != settings.tokens:
            clients.set_tokens({key: token for key, token in settings.tokens.items() if token is not None})


def _changes(before: Mapping[K, V], after: Mapping[K, V], removed: V) -> dict[K, V]:
    """Return what differs, with `removed` for the keys that are gone."""
    return {
        key: after.get(key, removed)
        for key in {*before, *after}
        if before.get(key, removed) != after.get(key, removed)
    }
