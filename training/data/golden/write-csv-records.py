"""Writes csv-records.json: random texts, and the records that Python's csv module reads from them."""

import csv
import io
import json
import pathlib
import random

random.seed(1)
cases = []
while len(cases) < 400:
    text = "".join(random.choice(['a', '"', '"', ",", ",", "\n", "\r\n", "\u00fc", '""']) for _ in range(random.randrange(1, 24)))
    # A carriage return inside quotes may stand alone; outside, this generator writes none.
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    # csv.reader ends its last record at the end of the file, even within quotes, as tony-ts does.
    cases.append([text, rows])
(pathlib.Path(__file__).parent / "csv-records.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
