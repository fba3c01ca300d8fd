"""Principal mapping: the cases of Kafka's SslPrincipalMapperTest, and names as Java writes them."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.principal import distinguished_name, map_name, parse_rules
from kafka_offsets.testing import CertificateAuthority

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("OU=JavaSoft,CN=DUKE,O=Sun Microsystems,C=US", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(name: str, mapped: str) -> None:
    assert map_name(parse_rules(RULES), name) == mapped


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("", "CN=x", "CN=x"),
        ("RULE:^CN=(.*)$/a$1b$2$$\\$1/", "CN=x", "axb$2$$$1"),
        (r"RULE:^CN=a\/(.*)$/$1\/c/", "CN=a/b", "b/c"),
        ("RULE:^CN=y$/z/", "CN=x", None),
        ("RULE:CN=/z/", "CN=x", None),
    ],
)
def test_parts_of_a_rule(rules: str, name: str, mapped: str | None) -> None:
    assert map_name(parse_rules(rules), name) == mapped


@pytest.mark.parametrize(
    "rules", ["default", "RULE:^a$/b", "RULE:^a$/b/X", "RULE:(/b/", "DEFAULT;DEFAULT", "RULE"]
)
def test_a_wrong_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match="Invalid rule in"):
        parse_rules(rules)


def test_a_distinguished_name_is_written_as_java_does() -> None:
    subject = (
        (NameOID.COUNTRY_NAME, "US"),
        (NameOID.DOMAIN_COMPONENT, "com"),
        (NameOID.ORGANIZATION_NAME, ' #a, "b"; <c>+\\ '),
        (NameOID.EMAIL_ADDRESS, "a@b"),
        (NameOID.COMMON_NAME, "käthe"),
    )
    name = x509.Name([x509.NameAttribute(*part) for part in subject])
    certificate = CertificateAuthority().sign(name).certificate.public_bytes(Encoding.DER)
    assert distinguished_name(certificate) == (
        r"CN=käthe,1.2.840.113549.1.9.1=#1603614062,O=\ #a\, \"b\"\; \<c\>\+\\\ ,DC=com,C=US"
    )
    assert isinstance(x509.load_der_x509_certificate(certificate), x509.Certificate)


@pytest.mark.parametrize("size", [1, 110, 127, 128, 300])
def test_a_value_without_a_keyword_is_written_as_its_bytes_of_any_length(size: int) -> None:
    address = "a" * size
    name = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, address)])
    certificate = CertificateAuthority().sign(name).certificate.public_bytes(Encoding.DER)
    length = (
        bytes([size]) if size < 128 else b"\x81" + bytes([size]) if size < 256 else b"\x82" + size.to_bytes(2)
    )
    expected = (b"\x16" + length + address.encode()).hex()
    assert distinguished_name(certificate) == f"1.2.840.113549.1.9.1=#{expected}"
