"""Reads calls of `grid` and `random_search`, and trials, as JSON from stdin. Prints the results as JSON."""

import json
import sys

import tony
from tony._sweeps.table import best_notice, csv_of, decoded, printed, ranked, summary_of, table_of


def result_of_space(case):
    try:
        if "trials" not in case:
            return tony.grid(case["space"])
        more = {"seed": case["seed"]} if "seed" in case else {}
        return tony.random_search(case["space"], case["trials"], **more)
    except tony.TonyError as error:
        assert error.code == "USAGE"
        return error.message


def result_of_table(case):
    metric, mode = case["metric"], case["mode"]
    trials = ranked([decoded(json.dumps(each)) for each in case["trials"]], metric, mode)
    table = table_of(trials)
    return {
        "order": [each.index for each in trials],
        "notice": best_notice(trials, metric, mode),
        "summaries": [summary_of(each) for each in trials],
        "csv": csv_of(table),
        "printed": printed(table).split("\n"),
    }


cases = json.load(sys.stdin)
results = {
    "spaces": [result_of_space(each) for each in cases["spaces"]],
    "tables": [result_of_table(each) for each in cases["tables"]],
}
print(json.dumps(results))
