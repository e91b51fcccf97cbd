"""Runs sweeps. A sweep runs one independent trial per configuration, and divides the trials among a role's tasks."""

import json
import re
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, SupportsFloat

from .. import _places
from .._arguments import reject, text
from .._errors import TonyError
from .._files import open_file
from .._report import metric_values, notice, report
from .._services import ask
from .._splits import claimed
from .space import Configuration, plain_value
from .table import (
    Best,
    TrialResult,
    best_notice,
    best_of,
    csv_of,
    decoded,
    encoded,
    encoded_metrics,
    json_text,
    printed,
    ranked,
    summary_of,
    table_of,
)
from .._task import context

# training/sweep/sweep.ts describes the format of the output folder.
_DESCRIPTION = "_SWEEP"
_MODES = ("max", "min")


class Trial:
    """Trial that this task must run. The task must call `finish` or `fail` exactly once."""

    def __init__(self, sweep: "Sweep", index: int) -> None:
        self.index = index
        # Name of the trial in the results, for example trial-00003.
        self.name = _name_of(index)
        # Value of each parameter.
        self.configuration = dict(sweep.configurations[index])
        # URI of a folder for the trial's files. Outside a job, None if the sweep has no output folder.
        self.output_uri = None if sweep.output_uri is None else f"{sweep.output_uri}/{self.name}"
        self._sweep = sweep
        self._started = time.monotonic()
        self._is_over = False

    def finish(self, metrics: Optional[Mapping[str, SupportsFloat]] = None, /, **more: SupportsFloat) -> None:
        """Stores the trial's metrics, as in finish(accuracy=0.98) or finish({"test/accuracy": 0.98}).

        The metrics must include the sweep's metric.
        """
        values = metric_values("trial.finish", metrics, more)
        if self._sweep.metric not in values:
            raise TonyError(
                "TRIAL_FAILED",
                f"{self.name} has no metric {self._sweep.metric}, which the sweep uses to compare trials"
                f" (it has: {', '.join(values) or 'none'})",
                f"Call trial.finish({{{json_text(self._sweep.metric)}: VALUE}}).",
            )
        self._end(values, None)

    def fail(self, error: object) -> None:
        """Records that the trial has failed. The results table shows the error, and no task repeats the trial."""
        text = str(error)
        if isinstance(error, BaseException):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        self._end({}, re.sub(r"\s*\n\s*", " ", text).strip())

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
        self, configurations: List[Configuration], metric: str, mode: str, output: Optional[str], version: str
    ) -> None:
        self.configurations = configurations
        self.metric = metric
        self.mode = mode
        # URI of the folder with the results, or None if the results are only in memory.
        self.output_uri = output
        self._version = version
        self._results: Dict[int, TrialResult] = {}

    @property
    def results(self) -> List[TrialResult]:
        """All results known to this task, best first. After the iteration, the list contains the results of all
        trials."""
        return ranked(list(self._results.values()), self.metric, self.mode)

    @property
    def best(self) -> Optional[TrialResult]:
        """The best result known to this task, or None if no trial has succeeded."""
        best = self._best()
        return None if best is None else best.trial

    def _best(self) -> Optional[Best]:
        return best_of(list(self._results.values()), self.metric, self.mode)

    def __iter__(self) -> Iterator[Trial]:
        self._describe()
        names = [_name_of(index) for index in range(len(self.configurations))]
        numbers = {self._place_of(name): index for index, name in enumerate(names)}
        in_job = context().services is not None
        for place in claimed(list(numbers)) if in_job else iter(numbers):
            # A task may have failed after storing this trial's result, but before reporting the trial as finished.
            if self.output_uri is not None and _places.stat(place) is not None:
                continue
            trial = Trial(self, numbers[place])
            yield trial
            if not trial._is_over:
                raise TonyError(
                    "TRIAL_FAILED",
                    f"{trial.name} {json_text(trial.configuration)} ended without a result",
                    f"Call trial.finish({{{json_text(self.metric)}: VALUE}}), or trial.fail(error).",
                )
        self._refresh()
        if context().index == 0:
            self._finish()

    def _place_of(self, name: str) -> str:
        return name if self.output_uri is None else f"{self.output_uri}/{name}.json"

    def _describe(self) -> None:
        """Writes the configurations if this is the first task. Otherwise, verifies that they match those of the first
        task."""
        if self.output_uri is None:
            return
        uri = f"{self.output_uri}/{_DESCRIPTION}"
        description = {"version": 1, "of": self._version, "configurations": self.configurations}
        if not _write_first(uri, json_text(description) + "\n"):
            with open_file(uri) as file:
                if json.load(file) != json.loads(json_text(description)):
                    raise TonyError(
                        "OUTPUT_MISMATCH",
                        f"{self.output_uri} contains trials of other configurations",
                        "Choose another output, or remove the folder.",
                    )

    def _add(self, result: TrialResult) -> None:
        # Store the row for TensorBoard first. If the task fails before it stores the result, another task repeats the
        # trial.
        if context().services is not None:
            ask("storage.write-trial", _row_of(result, self.metric))
        if self.output_uri is None or _write_first(self._place_of(result.name), encoded(result) + "\n"):
            self._results[result.index] = result
        self._refresh()
        print(summary_of(result), flush=True)

    def _refresh(self) -> None:
        """Reads new results from other tasks, and reports the best result."""
        found = set() if self.output_uri is None else {entry.name for entry in _places.list_folder(self.output_uri)}
        for index in range(len(self.configurations)):
            name = f"{_name_of(index)}.json"
            if index not in self._results and name in found:
                with open_file(f"{self.output_uri}/{name}") as file:
                    self._results[index] = decoded(file.read())
        best = self._best()
        shown = {} if best is None else {"sweep/best": best.value}
        report({"sweep/trials": len(self._results), **shown}, step=len(self._results))

    def _finish(self) -> None:
        table = table_of(self.results)
        if self.output_uri is not None:
            trials = [json.loads(encoded(each)) for each in self.results]
            content = {"version": 1, "metric": self.metric, "mode": self.mode, "trials": trials}
            with open_file(f"{self.output_uri}/results.csv", "w") as file:
                file.write(csv_of(table))
            with open_file(f"{self.output_uri}/results.json", "w") as file:
                file.write(json.dumps(content, indent=1) + "\n")
        print(printed(table), flush=True)
        best = best_notice(self.results, self.metric, self.mode)
        if best is not None:
            notice(best, about="sweep")


def sweep(
    configurations: Sequence[Configuration],
    *,
    metric: str,
    mode: str,
    output: Optional[str] = None,
    version: str = "",
) -> Sweep:
    """Runs one trial for each configuration, and divides the trials among the tasks of this role, as in:

    for trial in tony.sweep(tony.grid({"rate": [0.1, 0.01]}), metric="accuracy", mode="max"):
        trial.finish(accuracy=train(**trial.configuration))

    The role must not have ranks (`kind: independent`), and all its tasks must pass the same configurations. The
    configurations are the result of `grid` or `random_search`, or a list. A task requests its next trial when the
    previous trial has ended. Each result is stored immediately, so no task repeats a finished trial. If a task fails,
    another task runs its unfinished trial. When all trials have ended, the iterator ends in all tasks.

    `mode` is "max" if the highest value of the metric is the best, and "min" if the lowest is. `output` is the folder for the results. It is a URI, or a name in the job's
    output folder, and defaults to `sweep`. A later job with the same output runs only the missing trials. `version`
    distinguishes sweeps with the same configurations. Change it if a change in your code affects the results. Outside a
    job, this process runs all trials. It keeps the results in memory unless `output` is set.

    Raises TonyError USAGE if an argument is invalid or the tasks have ranks, OUTPUT_MISMATCH if the folder contains trials with other
    configurations, and TRIAL_FAILED if a trial ends without a result.
    """
    if not isinstance(metric, str) or metric == "":
        raise TonyError("USAGE", "metric must be the name of a metric")
    if mode not in _MODES:
        raise TonyError("USAGE", f'mode is {json_text(mode)}, but must be "max" or "min"')
    if (context().world_size or 1) > 1:
        raise TonyError(
            "USAGE",
            f"the tasks of role {context().role} train together, so they cannot run separate trials",
            "Set kind: independent for the role in job.yaml.",
        )
    if not isinstance(configurations, (list, tuple)) or not all(isinstance(each, Mapping) for each in configurations):
        reject("configurations", configurations, "a list of dictionaries, for example tony.grid(...)")
    text("version", version)
    if output is not None:
        text("output", output)
    if len(configurations) == 0:
        raise TonyError("USAGE", "the sweep has no configurations")
    plain = [
        {name: plain_value(f"the value of {name} in configuration {index}", value) for name, value in each.items()}
        for index, each in enumerate(configurations)
    ]
    return Sweep(plain, metric, mode, _folder_of(output), version)


def _folder_of(output: Optional[str]) -> Optional[str]:
    task = context()
    if output is not None and _places.is_uri(output):
        return output.rstrip("/")
    if task.in_job:
        return f"{task.output_uri}/{output or 'sweep'}"
    return None if output is None else Path(output).absolute().as_uri()


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
        return value if is_finite or isinstance(value, str) else json_text(value)

    return {
        "name": result.name,
        "configuration": {name: shown(value) for name, value in result.configuration.items()},
        "metrics": encoded_metrics(result),
        "metric": metric,
        "succeeded": result.error is None,
    }
