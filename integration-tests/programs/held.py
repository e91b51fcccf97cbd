"""Runs a training script.

In the first generation, blocks after the checkpoint of a step, so that a test can kill a process there.
"""

import runpy
import sys
import time

import tony

hold, script, *arguments = sys.argv[1:]
save = tony.save_checkpoint


def save_and_block(step, path):
    save(step, path)
    while step == int(hold) and tony.context().generation == 1:
        time.sleep(0.1)


tony.save_checkpoint = save_and_block
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
