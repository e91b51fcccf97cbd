"""Runs until tony-ts or the file FOLDER/end ends it. Records what it notices in FOLDER/ROLE-INDEX, and then saves the
checkpoint STEP. SAVE_SECONDS is the time that it needs to save, 0 by default.

Usage: early-end.py FOLDER STEP
"""

import os
import signal
import sys
import tempfile
import time

import tony

folder, step = sys.argv[1], int(sys.argv[2])
task = tony.context()


def record(what):
    with open(os.path.join(folder, f"{task.role}-{task.index}"), "a", encoding="utf-8") as file:
        print(f"generation {task.generation}: {what}", file=file)


def save():
    time.sleep(float(os.environ.get("SAVE_SECONDS", "0")))
    with tempfile.TemporaryDirectory() as state:
        with open(os.path.join(state, "state"), "w", encoding="utf-8") as file:
            file.write("last")
        tony.save_checkpoint(step, state)
    record(f"saved, should checkpoint {tony.should_checkpoint()}")


def on_sigterm(number, frame):
    record(f"SIGTERM, should checkpoint {tony.should_checkpoint()}")
    save()
    sys.exit(0)


signal.signal(signal.SIGTERM, on_sigterm)
checkpoint = tony.latest_checkpoint()
record(f"starts after {checkpoint.step if checkpoint else 'nothing'}")
while not os.path.exists(os.path.join(folder, "end")):
    if task.rank == 0 and tony.should_checkpoint():
        record("should checkpoint True")
        save()
    time.sleep(0.05)
