"""Measures what a program waits for when it uses the package `tony`, and the same transfers by Hadoop's own command, in turns.

Arguments: a local folder with the files to store, an HDFS folder for Hadoop's copy, the number of rounds, a file for the
results, and the words of Hadoop's `hdfs dfs` command.
"""

import json
import shutil
import subprocess
import sys
import time

import tony

folder, remote, rounds, results, *hdfs = sys.argv[1:]


def seconds(work):
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def hadoop(*words):
    subprocess.run([*hdfs, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def reports(count=2000):
    def repeat():
        for step in range(count):
            tony.report(loss=0.5, step=step)

    return seconds(repeat) / count


measured = []
for number in range(int(rounds)):
    step = 1000000 + number
    save = seconds(lambda: tony.save_checkpoint(step, folder))
    put = seconds(lambda: hadoop("-put", folder, f"{remote}/{number}"))
    data = seconds(lambda: tony.data_dir(f"part{number}"))
    get = seconds(lambda: hadoop("-get", f"{remote}/{number}", "copy"))
    shutil.rmtree("copy")
    measured.append({"report": reports(), "save": save, "put": put, "data": data, "get": get})
with open(results, "w") as file:
    json.dump(measured, file)
