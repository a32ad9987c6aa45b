"""What the flight recorders of a testbed prove."""


class LedgerError(AssertionError):
    """Something is lost, or it is not proven that nothing is."""


class Ledger:
    """One reading: the document of `carillon postmortem -o json` (docs/flight_recorder.md)."""

    def __init__(self, document):
        self.document = document

    @property
    def events(self):
        """How many events ended how: ok, failed, lost, duplicated, unexpected, ..."""
        return self.document["events"]

    @property
    def violations(self):
        return self.document["violations"]

    def expect_nothing_lost(self):
        """Every event that was rung has ended exactly once, in order, and as gpud says, as far as anybody could look: what a
        device had in flight when it was killed counts neither way. LedgerError otherwise, and where that is not proven."""
        if self.violations:
            raise LedgerError(f"{len(self.violations)} violations; the first: {self.violations[0]['sentence']}\n"
                              + self._around_first())
        if self.document["unreadable"]:
            raise LedgerError("not every recorder can be read: " + ", ".join(self.document["unreadable"]))
        overwritten = [process["process"] for process in self.document["processes"]
                       if process["overwritten"] and process["process"] != "gpud"]
        if overwritten:
            raise LedgerError(f"records of {', '.join(overwritten)} are overwritten: give the topology a larger `record`")
        for why in ("not_taken", "not_recorded", "overwritten"):
            if self.events["indeterminate"][why]:
                raise LedgerError(f"{self.events['indeterminate'][why]} events are indeterminate: {why}")
        if self.events["ok"] + self.events["failed"] == 0:
            raise LedgerError("no event has ended: nothing proves anything")

    def _around_first(self):
        steps = self.document["around_first"]
        return "\n".join(f"{(step['time_ns'] - steps[0]['time_ns']) / 1e6:14.6f} ms  "
                         f"{step['process']} (pid {step['pid']})  {step['words']}" for step in steps)
