"""The one error type: a fact, the value that caused it, and what to type instead; and what caused any error."""

from __future__ import annotations

# What the user can mend, and what went wrong outside.
EXIT_USER, EXIT_OUTSIDE = 2, 1
# What a shell returns for a program that cannot be executed, and for one that is not there.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
# What time mends. The training operator starts a pod of restartPolicy ExitCode again for 128 and above
# (kubeflow/training-operator, pkg/util/train/train_util.go); 138 is SIGUSR1's, which nothing here sends.
LATER = 138
# What each exit code says, as docs/reference.md has it; a command that has started has its own.
MEANINGS = {
    0: "done",
    EXIT_OUTSIDE: "a network, a disk or another rank failed; or Python ended the training with an error",
    EXIT_USER: "the command or a variable is wrong, and the message says what to type instead",
    NOT_EXECUTABLE: "the program cannot be executed",
    NOT_FOUND: "neither a task nor a program",
    129: "its terminal is gone (SIGHUP)",
    130: "stopped by ^C (SIGINT)",
    137: "killed, mostly for want of memory (SIGKILL)",
    LATER: "retry later: the name of rank 0 does not resolve, its port is in use, or another job has the "
    "directory for results",
    143: "stopped from outside (SIGTERM)",
}


class Refusal(Exception):
    """A message in three parts and an exit code: raised before a start that would fail, or printed after a failure.

    Exit code 2 for what the user can mend, 1 for what went wrong outside, 126 and 127 for a program as in a shell, and
    138 for what time may mend.
    """

    def __init__(self, fact: str, value: object, remedy: str, code: int = EXIT_USER) -> None:
        """Keep the three parts apart, for tests and for programs."""
        super().__init__(fact, value, remedy, code)
        self.fact = fact
        self.value = str(value)
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        """Return the two lines that are printed on stderr."""
        return f"multinode: {self.finding}\n  try: {one_row(self.remedy)}"

    @property
    def finding(self) -> str:
        """Return the fact and its value, in one row."""
        return f"{self.fact}: {one_row(self.value) if self.value.strip() else repr(self.value)}"

    @property
    def note(self) -> str:
        """Return all three parts in one row, for a command that is started all the same."""
        return f"{self.finding}; try: {one_row(self.remedy)}"


def one_row(text: str) -> str:
    """Return a text as one row of a log, with escapes for what would end it or move the cursor of a terminal."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def list_causes(error: BaseException) -> list[BaseException]:
    """List an error and those that it came from, as a traceback does: `from None` hides what was before."""
    causes: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and not any(now is cause for cause in causes):
        causes.append(now)
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return causes
