"""The results of a sweep: their order, and their tables and texts.

training/sweep/sweep-table.ts follows the same rules, so both languages write the same results.
"""

import json
import math
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

Cell = Union[str, int, float]


@dataclass(frozen=True)
class TrialResult:
    index: int
    # Name of the trial, for example trial-00003.
    name: str
    configuration: Dict[str, Any]
    metrics: Dict[str, float]
    seconds: float
    # Name of the task that ran the trial, for example trial:0.
    task: str
    # Reason why the trial has no metrics, or None if it succeeded.
    error: Optional[str]


class Best(NamedTuple):
    trial: TrialResult
    value: float


def ranked(results: Sequence[TrialResult], metric: str, mode: str) -> List[TrialResult]:
    """Sorts results from best to worst. Trials whose metric is missing, NaN or infinite come last."""
    sign = -1 if mode == "max" else 1

    def rank(result: TrialResult) -> float:
        value = result.metrics.get(metric, math.nan)
        return sign * value if math.isfinite(value) else math.inf

    return sorted(results, key=lambda each: (rank(each), each.index))


def best_of(results: Sequence[TrialResult], metric: str, mode: str) -> Optional[Best]:
    """Returns the best result, or None if no trial has a finite metric."""
    first = next(iter(ranked(results, metric, mode)), None)
    value = math.nan if first is None else first.metrics.get(metric, math.nan)
    return Best(first, value) if first is not None and math.isfinite(value) else None


def encoded(result: TrialResult) -> str:
    return json_text({**vars(result), "metrics": encoded_metrics(result)})


def encoded_metrics(result: TrialResult) -> Dict[str, Any]:
    """Returns the metrics for JSON. Converts NaN and infinite numbers to strings."""
    return {name: value if math.isfinite(value) else number_text(value) for name, value in result.metrics.items()}


def decoded(text: str) -> TrialResult:
    fields = json.loads(text)
    fields["metrics"] = {name: float(value) for name, value in fields["metrics"].items()}
    return TrialResult(**fields)


def summary_of(result: TrialResult) -> str:
    """Describes a finished trial in a line of text: `trial-00003 {"rate":0.1}: accuracy 0.97 (2.0 s)`."""
    values = ", ".join(f"{name} {_shortened(value)}" for name, value in result.metrics.items())
    return f"{title_of(result)}: {values if result.error is None else result.error} ({_seconds(result)} s)"


def best_notice(results: Sequence[TrialResult], metric: str, mode: str) -> Optional[str]:
    """Returns the notice that names the best trial."""
    best = best_of(results, metric, mode)
    if best is None:
        return None
    return f"the best of {len(results)} trials is {title_of(best.trial)}: {metric} {_shortened(best.value)}"


def title_of(result: TrialResult) -> str:
    return f"{result.name} {json_text(result.configuration)}"


def table_of(results: Sequence[TrialResult]) -> List[List[Cell]]:
    """Returns the table of results. The first row contains the names of the columns, which are unique: a name that
    appears twice is followed by `(parameter)` or `(metric)`."""
    parameters = list(dict.fromkeys(name for each in results for name in each.configuration))
    metrics = list(dict.fromkeys(name for each in results for name in each.metrics))
    errors = ["error"] if any(each.error is not None for each in results) else []
    fixed = ["trial", "seconds", *errors]
    header = ["trial"]
    header += [f"{name} (parameter)" if name in fixed else name for name in parameters]
    header += [f"{name} (metric)" if name in fixed or name in parameters else name for name in metrics]
    rows: List[List[Cell]] = [[*header, "seconds", *errors]]
    for each in results:
        values = [_cell(each.configuration, name) for name in parameters] + [_cell(each.metrics, name) for name in metrics]
        rows.append([each.name, *values, _seconds(each), *(each.error or "" for _ in errors)])
    return rows


def csv_of(table: Sequence[Sequence[Cell]]) -> str:
    return "".join(f"{','.join(_field(cell) for cell in row)}\n" for row in table)


def printed(table: Sequence[Sequence[Cell]]) -> str:
    """Aligns the columns of a table for display. Shortens numbers, and replaces line breaks with spaces."""
    rows = [[_UNPRINTABLE.sub(" ", cell) if isinstance(cell, str) else _shortened(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        last = max((column for column, text in enumerate(row) if text != ""), default=-1)
        cells = [text if column == last else text.ljust(widths[column]) for column, text in enumerate(row[: last + 1])]
        lines.append("  ".join(cells))
    return "\n".join(lines)


_UNPRINTABLE = re.compile("[\u0000-\u001f\u007f-\u009f\u2028\u2029]+")


def number_text(value: Union[int, float]) -> str:
    """Returns a number as JavaScript writes it: 3 for 3.0, 1e-7 for 1e-07."""
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)  # Only Python represents such a number exactly.
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    _, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    sign = "-" if value < 0 else ""
    if text == "0":
        return "0"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{text}"
    if 0 < point <= 21:
        padded = text.ljust(point, "0")
        return f"{sign}{padded[:point]}{'.' if len(padded) > point else ''}{padded[point:]}"
    return f"{sign}{text[0]}{'.' if len(text) > 1 else ''}{text[1:]}e{point - 1:+d}"


def json_text(value: Any) -> str:
    """Returns a value as JSON, as JavaScript writes it."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{json_text(name)}:{json_text(each)}' for name, each in value.items())}}}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    # UTF-8 cannot represent halves of surrogate pairs.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _shortened(value: Union[int, float]) -> str:
    """Returns a fraction with at most five significant digits, and a whole number unchanged."""
    if not math.isfinite(value) or value == int(value):
        return number_text(value)
    return number_text(float(Context(prec=5, rounding=ROUND_HALF_UP).create_decimal(Decimal(value))))


def _seconds(result: TrialResult) -> str:
    return str(Decimal(result.seconds).quantize(Decimal("0.1"), ROUND_HALF_UP))


def _cell(values: Dict[str, Any], name: str) -> Cell:
    value = values.get(name, "")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number or isinstance(value, str) else json_text(value)


def _field(cell: Cell) -> str:
    text = cell if isinstance(cell, str) else number_text(cell)
    return '"' + text.replace('"', '""') + '"' if re.search('[",\r\n]', text) else text
