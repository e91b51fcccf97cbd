"""Runs sweeps. A sweep runs one independent trial per configuration, and divides the trials among a role's tasks."""

import csv
import io
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, SupportsFloat

from . import _places
from ._errors import TonyError
from ._files import open_file
from ._report import notice, report
from ._services import ask
from ._splits import claim
from ._sweep_space import Configuration
from ._task import context

# training/sweep/sweep.ts describes the format of the output folder.
_DESCRIPTION = "_SWEEP"
_GOALS = ("maximize", "minimize")


@dataclass(frozen=True)
class TrialResult:
    index: int
    # Name of the trial, for example trial-00003.
    name: str
    configuration: Configuration
    metrics: Dict[str, float]
    seconds: float
    # Name of the task that ran the trial, for example trial:0.
    task: str
    # Reason why the trial has no metrics, or None if it succeeded.
    error: Optional[str]


class Trial:
    """Trial that this task must run. The task must call `finish` or `fail` exactly once."""

    def __init__(self, sweep: "Sweep", index: int) -> None:
        self.index = index
        # Name of the trial in the results, for example trial-00003.
        self.name = _name_of(index)
        # Value of each parameter.
        self.configuration = dict(sweep.configurations[index])
        # URI of a folder for the trial's files. Outside a job, None if the sweep has no output folder.
        self.output_dir = None if sweep.output is None else f"{sweep.output}/{self.name}"
        self._sweep = sweep
        self._started = time.monotonic()
        self._is_over = False

    def finish(self, **metrics: SupportsFloat) -> None:
        """Stores the trial's metrics, as in finish(accuracy=0.98). The metrics must include the sweep's metric."""
        values = {name: float(value) for name, value in metrics.items()}
        if self._sweep.metric not in values:
            raise TonyError(
                "TRIAL_FAILED",
                f"{self.name} has no metric {self._sweep.metric}, which the sweep uses to compare trials"
                f" (it has: {', '.join(values) or 'none'})",
                f"Call trial.finish({self._sweep.metric}=VALUE).",
            )
        self._end(values, None)

    def fail(self, error: object) -> None:
        """Records that the trial has failed. The results table shows the error, and no task repeats the trial."""
        self._end({}, str(error) or type(error).__name__)

    def _end(self, metrics: Dict[str, float], error: Optional[str]) -> None:
        if self._is_over:
            raise TonyError("USAGE", f"{self.name} has already ended")
        self._is_over = True
        task, seconds = context(), time.monotonic() - self._started
        by = f"{task.role}:{task.index}"
        self._sweep._add(TrialResult(self.index, self.name, self.configuration, metrics, seconds, by, error))


class Sweep:
    """Sweep whose trials run while the program iterates over it. See tony.sweep."""

    def __init__(
        self, configurations: List[Configuration], metric: str, goal: str, output: Optional[str], version: str
    ) -> None:
        self.configurations = configurations
        self.metric = metric
        self.goal = goal
        # URI of the folder with the results, or None if the results are only in memory.
        self.output = output
        self._version = version
        self._results: Dict[int, TrialResult] = {}

    @property
    def results(self) -> List[TrialResult]:
        """All results known to this task, best first. After the iteration, the list contains the results of all
        trials."""
        sign = -1 if self.goal == "maximize" else 1

        def rank(result: TrialResult) -> float:
            value = result.metrics.get(self.metric, float("nan"))
            return float("inf") if value != value else sign * value

        return sorted(self._results.values(), key=lambda each: (rank(each), each.index))

    @property
    def best(self) -> Optional[TrialResult]:
        """The best result known to this task, or None if no trial has succeeded."""
        first = next(iter(self.results), None)
        return None if first is None or first.error is not None else first

    def __iter__(self) -> Iterator[Trial]:
        self._describe()
        names = [_name_of(index) for index in range(len(self.configurations))]
        numbers = {self._place_of(name): index for index, name in enumerate(names)}
        for place in claim(list(numbers)):
            # A task may have failed after storing this trial's result, but before reporting the trial as finished.
            if self.output is not None and _places.stat(place) is not None:
                continue
            trial = Trial(self, numbers[place])
            yield trial
            if not trial._is_over:
                raise TonyError(
                    "TRIAL_FAILED",
                    f"{trial.name} {json.dumps(trial.configuration)} ended without a result",
                    f"Call trial.finish({self.metric}=VALUE), or trial.fail(error).",
                )
        self._refresh()
        if context().index == 0:
            self._finish()

    def _place_of(self, name: str) -> str:
        return name if self.output is None else f"{self.output}/{name}.json"

    def _describe(self) -> None:
        """Writes the configurations if this is the first task. Otherwise, verifies that they match those of the first
        task."""
        if self.output is None:
            return
        uri = f"{self.output}/{_DESCRIPTION}"
        description = {"version": 1, "of": self._version, "configurations": self.configurations}
        if not _write_first(uri, json.dumps(description) + "\n"):
            with open_file(uri) as file:
                if json.load(file) != json.loads(json.dumps(description)):
                    raise TonyError(
                        "OUTPUT_MISMATCH",
                        f"{self.output} contains trials of other configurations",
                        "Choose another output, or remove the folder.",
                    )

    def _add(self, result: TrialResult) -> None:
        # Store the row for TensorBoard first. If the task fails before it stores the result, another task repeats the
        # trial.
        if context().services is not None:
            ask("storage.write-trial", _row_of(result, self.metric))
        if self.output is None or _write_first(self._place_of(result.name), _encoded(result) + "\n"):
            self._results[result.index] = result
        self._refresh()
        print(f"{result.name} {json.dumps(result.configuration)}: {_summary_of(result)}", flush=True)

    def _refresh(self) -> None:
        """Reads new results from other tasks, and reports the best result."""
        found = set() if self.output is None else {entry.name for entry in _places.list_folder(self.output)}
        for index in range(len(self.configurations)):
            name = f"{_name_of(index)}.json"
            if index not in self._results and name in found:
                with open_file(f"{self.output}/{name}") as file:
                    self._results[index] = _decoded(file.read())
        best = {} if self.best is None else {"sweep/best": self.best.metrics[self.metric]}
        report(len(self._results), **{"sweep/trials": len(self._results), **best})

    def _finish(self) -> None:
        table = _table_of(self.results)
        if self.output is not None:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(table)
            trials = [json.loads(_encoded(each)) for each in self.results]
            content = {"version": 1, "metric": self.metric, "goal": self.goal, "trials": trials}
            with open_file(f"{self.output}/results.csv", "w") as file:
                file.write(text.getvalue())
            with open_file(f"{self.output}/results.json", "w") as file:
                file.write(json.dumps(content, indent=1) + "\n")
        print(_printed(table), flush=True)
        best = self.best
        if best is not None:
            what = f"{best.name} {json.dumps(best.configuration)}: {self.metric} {best.metrics[self.metric]:.5g}"
            notice(f"the best of {len(self._results)} trials is {what}", about="sweep")


def sweep(
    configurations: Sequence[Configuration],
    *,
    metric: str,
    goal: str,
    output: Optional[str] = None,
    version: str = "",
) -> Sweep:
    """Runs one trial for each configuration, and divides the trials among the tasks of this role, as in:

    for trial in tony.sweep(tony.grid({"rate": [0.1, 0.01]}), metric="accuracy", goal="maximize"):
        trial.finish(accuracy=train(**trial.configuration))

    The role must not have ranks (`ranked: false`), and all its tasks must pass the same configurations. The
    configurations are the result of `grid` or `random_search`, or a list. A task requests its next trial when the
    previous trial has ended. Each result is stored immediately, so no task repeats a finished trial. If a task fails,
    another task runs its unfinished trial. When all trials have ended, the iterator ends in all tasks.

    `goal` is "maximize" or "minimize". `output` is the folder for the results. It is a URI, or a name in the job's
    output folder, and defaults to `sweep`. A later job with the same output runs only the missing trials. `version`
    distinguishes sweeps with the same configurations. Change it if a change in your code affects the results. Outside a
    job, this process runs all trials. It keeps the results in memory unless `output` is set.

    Raises TonyError USAGE if the tasks have ranks, OUTPUT_MISMATCH if the folder contains trials with other
    configurations, and TRIAL_FAILED if a trial ends without a result.
    """
    if goal not in _GOALS:
        raise TonyError("USAGE", f"goal is {goal!r}, but must be maximize or minimize")
    if context().world_size > 1:
        raise TonyError(
            "USAGE",
            f"the tasks of role {context().role} train together, so they cannot run separate trials",
            "Set ranked: false for the role in job.yaml.",
        )
    plain = [{name: _plain(name, value) for name, value in each.items()} for each in configurations]
    return Sweep(plain, metric, goal, _folder_of(output), version)


def _folder_of(output: Optional[str]) -> Optional[str]:
    task = context()
    if output is not None and _places.is_uri(output):
        return output.rstrip("/")
    if task.in_job:
        return f"{task.output_dir}/{output or 'sweep'}"
    return None if output is None else Path(output).absolute().as_uri()


def _plain(name: str, value: Any) -> Any:
    """Converts a NumPy number to a Python number. Rejects values that JSON cannot represent."""
    plain = value.item() if hasattr(value, "item") else value
    try:
        json.dumps(plain)
    except TypeError as error:
        raise TonyError(
            "USAGE",
            f"the value {value!r} of {name} cannot be stored: {error}",
            "Use numbers, strings, booleans, None and lists. Create all other objects inside the trial.",
        ) from error
    return plain


def _write_first(uri: str, text: str) -> bool:
    """Creates a file. Returns False if the file already exists."""
    try:
        with open_file(uri, "x") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _name_of(index: int) -> str:
    return f"trial-{index:05}"


def _row_of(result: TrialResult, metric: str) -> Dict[str, Any]:
    """Returns the request that adds a trial to TensorBoard's HParams tab. The tab can show numbers, strings and
    booleans."""

    def shown(value: Any) -> Any:
        is_finite = isinstance(value, (int, float)) and value - value == 0
        return value if is_finite or isinstance(value, str) else json.dumps(value)

    return {
        "name": result.name,
        "configuration": {name: shown(value) for name, value in result.configuration.items()},
        "metrics": _metrics_of(result),
        "metric": metric,
        "succeeded": result.error is None,
    }


def _metrics_of(result: TrialResult) -> Dict[str, Any]:
    """Returns the metrics for JSON. Converts NaN and infinite numbers to strings."""
    return {name: value if value - value == 0.0 else _text_of(value) for name, value in result.metrics.items()}


def _encoded(result: TrialResult) -> str:
    return json.dumps({**asdict(result), "metrics": _metrics_of(result)})


def _text_of(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _decoded(text: str) -> TrialResult:
    fields = json.loads(text)
    fields["metrics"] = {name: float(value) for name, value in fields["metrics"].items()}
    return TrialResult(**fields)


def _summary_of(result: TrialResult) -> str:
    values = ", ".join(f"{name} {value:.5g}" for name, value in result.metrics.items())
    return f"{values if result.error is None else result.error} ({result.seconds:.1f} s)"


def _table_of(results: Sequence[TrialResult]) -> List[List[str]]:
    """Returns the results table as rows of strings. The first row contains the names of the columns."""
    parameters = list(dict.fromkeys(name for each in results for name in each.configuration))
    metrics = list(dict.fromkeys(name for each in results for name in each.metrics))
    has_errors = any(each.error is not None for each in results)
    rows = [["trial", *parameters, *metrics, "seconds", *(["error"] if has_errors else [])]]
    for each in results:
        values = [str(each.configuration.get(name, "")) for name in parameters]
        values += [str(each.metrics.get(name, "")) for name in metrics]
        rows.append([each.name, *values, f"{each.seconds:.1f}", *([each.error or ""] if has_errors else [])])
    return rows


def _printed(table: List[List[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*table)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in table)
