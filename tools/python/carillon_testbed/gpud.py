"""gpud's word over gRPC: of a testbed here, or of one that listens on TCP."""

import pathlib

import grpc

from . import programs

_ANSWER_S = 5
# Looks at the connection again soon when gpud comes back.
_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20),
            ("grpc.max_reconnect_backoff_ms", 20), ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


class TestbedError(Exception):
    """The sentence says what, and what to do."""
    __test__ = False  # for pytest


class Gpud:
    """A gpud that listens on TCP (docs/security.md): HOST:PORT, and three PEM files. What may be asked depends on the roles of the
    certificate. TestbedError: what is refused, or not answered."""

    def __init__(self, address, *, tls_ca, tls_cert, tls_key):
        try:
            ca, cert, key = (pathlib.Path(file).read_bytes() for file in (tls_ca, tls_cert, tls_key))
        except OSError as error:
            raise TestbedError(f"{error.filename}: {error.strerror}") from None
        self._open(grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options=_OPTIONS))

    @classmethod
    def _on_socket(cls, path):
        gpud = cls.__new__(cls)
        gpud._open(grpc.insecure_channel(f"unix:{path}", options=_OPTIONS))
        return gpud

    def _open(self, channel):
        self._channel = channel
        self._admin, self._faults = programs.messages()

    def close(self):
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.close()

    # --- Looking: viewer.

    def status(self):
        """The messages of proto/admin.proto."""
        return self._ask("Admin", "GetStatus", self._admin.GetStatusRequest(), self._admin.GetStatusResponse)

    def devices(self):
        return self._ask("Admin", "ListDevices", self._admin.ListDevicesRequest(), self._admin.ListDevicesResponse).devices

    def ekt(self):
        return self._ask("Admin", "ListEkt", self._admin.ListEktRequest(), self._admin.ListEktResponse)

    def rings(self):
        return self._ask("Admin", "ListRings", self._admin.ListRingsRequest(), self._admin.ListRingsResponse).rings

    def faults(self):
        """{name: its entry}: fault, passages, struck, spent."""
        return {entry.fault.name: entry for entry in self._board().faults}

    def strikes(self):
        """What has struck, by time: time_ns, fault_id, pid, passage."""
        return self._board().strikes

    # --- Breaking: fault-injector.

    def inject(self, name, *, action, process="", device="", method="", point="", times=None, seed=0, **more):
        """Puts a fault on the board (docs/faults.md, `carillon fault points`); returns when every process that runs knows of it.

        `more`: the other fields of When and Action in proto/faults.proto: nth, every, probability, after_ns, window_ns, every_ns,
        after_fault, after_process, after_state, after_count; for_ns, jitter_ns, count, code, offset, bytes, mask; and event_id.
        TestbedError: the field, and what it may be.
        """
        fault = self._faults.Fault(name=name, seed=seed)
        fault.target.process, fault.target.device, fault.target.method = process, device, method
        fault.when.point, fault.action.kind = point, action
        if times is not None:
            fault.times = times
        for field, value in more.items():
            for part in (fault.when, fault.action, fault.target):
                if field in part.DESCRIPTOR.fields_by_name:
                    setattr(part, field, value)
                    break
            else:
                raise TypeError(f"inject() takes no {field}")
        self._ask("Faults", "Inject", self._faults.InjectRequest(faults=[fault]), self._faults.InjectResponse)

    def clear(self, name=""):
        """Takes a fault off the board, or all."""
        self._ask("Faults", "Clear", self._faults.ClearFaultsRequest(name=name), self._faults.ClearFaultsResponse)

    # --- Inside.

    def _board(self):
        return self._ask("Faults", "List", self._faults.ListFaultsRequest(), self._faults.ListFaultsResponse)

    def _ask(self, service, method, request, response):
        call = self._channel.unary_unary(f"/carillon.v1.{service}/{method}", request_serializer=type(request).SerializeToString,
                                         response_deserializer=response.FromString)
        try:
            return call(request, timeout=_ANSWER_S)
        except grpc.RpcError as error:
            raise TestbedError(f"{method}: {error.code().name}: {error.details()}") from None
