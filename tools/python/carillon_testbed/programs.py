"""Where Carillon's programs and its messages in Python are: in a checkout that is built, or beside a test."""

import os
import pathlib
import sys

# tools/python/carillon_testbed in a checkout, tools/python/lib/carillon_testbed where it was built.
_ROOTS = pathlib.Path(__file__).absolute().parents[3:5]


def bin_directory():
    """The folder that Bazel builds into: $CARILLON_BIN_DIR, or what belongs to this file."""
    named = os.environ.get("CARILLON_BIN_DIR")
    places = [pathlib.Path(named)] if named else [place for root in _ROOTS for place in (root, root / "bazel-bin")]
    for place in places:
        if (place / "tools/cli/carillon").is_file():
            return place.absolute()
    looked = ", ".join(str(place / "tools/cli/carillon") for place in places)
    raise FileNotFoundError(f"there is no carillon program; looked for {looked}: ./carillon builds it in a checkout")


def messages():
    """The modules admin_pb2 and faults_pb2."""
    place = str(bin_directory())
    if place not in sys.path:
        sys.path.append(place)
    try:
        from proto import admin_pb2, faults_pb2
    except ImportError as error:
        made = pathlib.Path(place, "proto/admin_pb2.py")
        if made.is_file():
            raise
        raise ImportError(f"there is no {made}: bazel build //proto:python makes it in a checkout") from error
    return admin_pb2, faults_pb2
