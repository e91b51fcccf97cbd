"""Reads a feed in batches, and writes the records to a file on the job's storage: FOLDER/part-INDEX. Then claims items,
and writes them to FOLDER/claimed-INDEX.
"""

import json
import os
import random

import tony

print(json.dumps({name: value for name, value in os.environ.items() if name.startswith("TONY_")}))
task, folder = tony.context(), os.environ["FOLDER"]
sizes, lines = [], []
for batch in tony.feed("python", batch_size=100):
    sizes.append(len(batch))
    lines.extend(record.decode() for record in batch)
with tony.open(f"{folder}/part-{task.index}", "w") as part:
    part.writelines(f"{line}\n" for line in lines)
assert all(size == 100 for size in sizes[:-1]), sizes

with tony.open(f"{folder}/claimed-{task.index}", "w") as claimed:
    for item in tony.claim([str(number) for number in range(20)]):
        claimed.write(f"{item}\n")

# Too long for a single read, because the executor returns at most 8 MiB per read.
content = random.Random(task.index).randbytes(20_000_000)
blob = f"{folder}/blob-{task.index}"
with tony.open(blob, "wb") as file:
    file.write(content)
with tony.open(blob, "rb") as file:
    assert file.read(1000) == content[:1000]
    assert file.seek(-5, os.SEEK_END) == len(content) - 5
    assert file.read() == content[-5:]
    file.seek(0)
    assert file.read() == content
try:
    with tony.open(blob, "wb") as file:
        file.write(b"incomplete")
        raise KeyError
except KeyError:
    pass
for uri, mode, expected in ((blob, "xb", FileExistsError), (f"{folder}/none", "r", FileNotFoundError)):
    try:
        tony.open(uri, mode).close()
        raise AssertionError(uri)
    except expected as error:
        print(error.code)
with tony.open(blob, "rb") as file:
    assert file.read(10) == content[:10]
