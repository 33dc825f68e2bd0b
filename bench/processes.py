"""What the benchmarks share: processes with their wall time and peak memory, and how numbers are printed.

Only the standard library is imported here: a process's peak memory starts with that of the process which forks it.
"""

import os
import subprocess
import tempfile
import time


class Failure(Exception):
    """Ends the comparison with a message instead of a trace."""


def measure(command):
    """Runs a process: its wall time in seconds, peak memory in bytes, and what it printed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            tail = errors.read().decode(errors="replace")[-2000:]
            raise Failure(f"{command[0]} ended with {process.returncode}:\n{tail}")
        return seconds, usage.ru_maxrss * 1024, output.read().decode()


def megabytes(count):
    return f"{count / 1e6:.2f} MB" if count < 10e6 else f"{count / 1e6:.0f} MB"


def seconds(value):
    return f"{value:.2f} s"
