"""Encrypts and decrypts ESP packets with Scapy, for esp_peers_test.

Each line of the input is "open SUITE KEY AUTH SPI PACKET" or "seal SUITE KEY AUTH SPI NUMBER FROM
TO INNER"; keys and packets are in hex, "-" is nothing. The output has a packet for each.
"""

import sys

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation


def packet(hexadecimal):
    data = bytes.fromhex(hexadecimal)
    return IP(data) if data[0] >> 4 == 4 else IPv6(data)


def association(suite, key, auth, spi, header):
    return SecurityAssociation(
        ESP,
        spi=int(spi),
        crypt_algo=suite,
        crypt_key=bytes.fromhex(key),
        auth_algo="NULL" if auth == "-" else "HMAC-SHA1-96",
        auth_key=None if auth == "-" else bytes.fromhex(auth),
        tunnel_header=header,
    )


for line in sys.stdin:
    verb, suite, key, auth, spi, *rest = line.split()
    if verb == "open":
        sealed = packet(rest[0])
        header = type(sealed)(src=sealed.src, dst=sealed.dst)
        print(bytes(association(suite, key, auth, spi, header).decrypt(sealed)).hex())
    else:
        number, source, destination, inner = rest
        layer = IPv6 if ":" in source else IP
        header = layer(src=source, dst=destination)
        sealed = association(suite, key, auth, spi, header).encrypt(packet(inner), seq_num=int(number))
        print(bytes(sealed).hex())
