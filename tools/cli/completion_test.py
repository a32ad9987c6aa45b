"""What bash, zsh and fish complete on a terminal with the scripts of `carillon completion`."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

CARILLON = pathlib.Path.cwd() / "tools/cli/carillon"
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
LIMIT_S = 60


def completion(shell):
    return subprocess.run([CARILLON, "completion", shell], check=True, stdout=subprocess.PIPE, text=True).stdout


class Terminal:
    """An interactive shell in which `carillon` prints its arguments, so that a completed line tells what it is."""

    def __init__(self, command, home, setup):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "INPUTRC": "/dev/null",
                           "CARILLON_RUNTIME_DIR": str(home / "runtime"), "LC_ALL": "C.UTF-8"}
            os.chdir(home)
            os.execvpe(command[0], command, environment)
        self.said = b""
        # Not the words themselves, which the terminal echoes.
        self.type("carillon() { printf '<%s>' \"$@\"; printf '%s\\n' EN''D; }\n")
        self.type(setup + "\n")
        self.type("carillon ready\n")
        self.until(b"<ready>END")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, wanted):
        end = time.monotonic() + LIMIT_S
        while wanted not in self.said:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("no %r in %r" % (wanted, self.said))
            self.said += os.read(self.fd, 65536)

    def completed(self, line, key):
        """The arguments that `key` behind `line` makes of it."""
        self.said = b""
        self.type(line + key + "\n")
        self.until(b">END")
        text = self.said[:self.said.rindex(b">END")].split(b"\n")[-1]
        return text[text.index(b"<") + 1:].decode().split("><")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class CompletionTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = pathlib.Path(place.name)
        (self.home / "lab one.yaml").touch()
        (self.home / "runtime").mkdir(mode=0o700)

    def terminal(self, command, shell, setup):
        script = self.home / ("completion." + shell)
        script.write_text(completion(shell))
        terminal = Terminal(command, self.home, "%s; source %s" % (setup, script))
        self.addCleanup(terminal.close)
        return terminal

    def bash(self, setup):
        return self.terminal(["bash", "--norc", "--noprofile", "-i"], "bash", setup)

    def completes(self, terminal):
        tab = "\t"
        self.assertEqual(terminal.completed("carillon postm", tab), ["postmortem"])
        self.assertEqual(terminal.completed("carillon fault inj", tab), ["fault", "inject"])
        self.assertEqual(terminal.completed("carillon help postm", tab), ["help", "postmortem"])
        self.assertEqual(terminal.completed("carillon up --det", tab), ["up", "--detach"])
        self.assertEqual(terminal.completed("carillon status -o js", tab), ["status", "-o", "json"])
        self.assertEqual(terminal.completed("carillon fault points gpud.completed", tab),
                         ["fault", "points", "gpud.completed"])
        self.assertEqual(terminal.completed("carillon fault inject nic0 kill --at gpud.rp", tab),
                         ["fault", "inject", "nic0", "kill", "--at", "gpud.rpc"])
        self.assertEqual(terminal.completed("carillon up -f lab", tab), ["up", "-f", "lab one.yaml"])
        for quoted in ["'nic0'", '"nic0"', "nic\\0"]:
            self.assertEqual(terminal.completed("carillon fault inject %s kill --at gpud.rp" % quoted, tab),
                             ["fault", "inject", "nic0", "kill", "--at", "gpud.rpc"])
        for quoted in ["'--output'", '"--output"']:
            self.assertEqual(terminal.completed("carillon status %s js" % quoted, tab), ["status", "--output", "json"])
        # Nothing to complete, and no message on the terminal.
        self.assertEqual(terminal.completed("carillon status --name no", tab), ["status", "--name", "no"])

    def test_bash_with_bash_completion(self):
        self.assertTrue(os.path.exists(BASH_COMPLETION))
        terminal = self.bash("source " + BASH_COMPLETION)
        self.completes(terminal)
        # All candidates at once.
        insert = "\x1b*"
        commands = terminal.completed("carillon ", insert)
        for word in ["demo", "fault", "sim", "kernels", "completion", "help"]:
            self.assertIn(word, commands)
        self.assertNotIn("supervise", commands)
        self.assertNotIn("complete", commands)
        self.assertEqual(terminal.completed("carillon completion ", insert), ["completion", "bash", "fish", "zsh"])
        self.assertEqual(terminal.completed("carillon status --output=", insert), ["status", "--output=json", "table"])
        self.assertEqual(terminal.completed("carillon status --output=j", "\t"), ["status", "--output=json"])
        self.assertEqual(terminal.completed("carillon trace r", "\t"), ["trace", "reset"])

    def test_bash_alone(self):
        terminal = self.bash("true")
        self.completes(terminal)
        self.assertEqual(terminal.completed("carillon status --output=j", "\t"), ["status", "--output=json"])

    def test_bash_takes_no_word_for_a_command(self):
        odd = self.home / "odd"
        odd.write_text("#!/bin/sh\nprintf '%s\\t\\n' 'x$(touch ran) y'\n")
        odd.chmod(0o755)
        script = self.home / "odd.bash"
        script.write_text(re.sub(r"'/[^']*carillon'", "'%s'" % odd, completion("bash")))
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], self.home, "source %s" % script)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.completed("carillon status x", "\t"), ["status", "x$(touch ran) y"])
        self.assertFalse((self.home / "ran").exists())

    def test_zsh(self):
        terminal = self.terminal(["zsh", "-f", "-i"], "zsh", "autoload -U compinit; compinit -u -D")
        self.completes(terminal)
        self.assertEqual(terminal.completed("carillon status --output=j", "\t"), ["status", "--output=json"])

    def fish(self, line):
        script = completion("fish") + "\ncomplete -C '%s'\n" % line
        environment = dict(os.environ, HOME=str(self.home), CARILLON_RUNTIME_DIR=str(self.home / "runtime"))
        run = subprocess.run(["fish", "--no-config", "-c", script], check=True, cwd=self.home, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return dict((line + "\t").split("\t")[:2] for line in run.stdout.splitlines())

    def test_fish(self):
        self.assertEqual(self.fish("carillon postm"),
                         {"postmortem": "the last steps of every process, and whether every event ended once"})
        self.assertEqual(list(self.fish("carillon fault inj")), ["inject"])
        self.assertEqual(list(self.fish("carillon up --det")), ["--detach"])
        self.assertEqual(list(self.fish("carillon status --output=j")), ["--output=json"])
        self.assertEqual(list(self.fish("carillon up -f lab")), ["lab one.yaml"])
        self.assertEqual(list(self.fish('carillon status "--output" j')), ["json"])
        self.assertEqual(self.fish("carillon status --name no"), {})

    def test_a_program_of_an_odd_name_is_still_found(self):
        odd = self.home / "it's a $(place)"
        odd.mkdir()
        shutil.copy(CARILLON, odd / "carillon")
        script = subprocess.run([odd / "carillon", "completion", "bash"], check=True, stdout=subprocess.PIPE,
                                text=True).stdout
        script += "COMP_WORDS=(carillon postm) COMP_CWORD=1\n_carillon\necho \"${COMPREPLY[@]}\"\n"
        run = subprocess.run(["bash", "-c", script], check=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.stdout, "postmortem\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
