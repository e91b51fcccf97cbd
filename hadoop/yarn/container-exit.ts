export const CONTAINER_ENDS = [
  'exited',
  'memory-exceeded',
  'stopped-by-master',
  'released',
  'expired',
  'preempted',
  'node-lost',
  'disks-failed',
  'launch-failed',
] as const;

/** Reason why a container ended. Only `exited` and `memory-exceeded` are caused by the program. */
export type ContainerEnd = (typeof CONTAINER_ENDS)[number];

/* YARN's exit statuses (org.apache.hadoop.yarn.api.records.ContainerExitStatus). For status -100, only the diagnostics reveal the cause. */

const ABORTED = -100;

const ENDS: ReadonlyMap<number, ContainerEnd> = new Map([
  [-1000, 'launch-failed'],
  [-101, 'disks-failed'],
  [-102, 'preempted'],
  [-103, 'memory-exceeded'],
  [-104, 'memory-exceeded'],
  [-105, 'stopped-by-master'],
  [-106, 'preempted'],
  [-107, 'stopped-by-master'],
  [-108, 'preempted'],
  [-109, 'exited'],
]);

export function containerEnd(exitStatus: number, diagnostics: string): ContainerEnd {
  if (exitStatus !== ABORTED) {
    return ENDS.get(exitStatus) ?? 'exited';
  }
  if (/released on a \*lost\* node/i.test(diagnostics)) {
    return 'node-lost';
  }
  if (/expired since it was unused/i.test(diagnostics)) {
    return 'expired';
  }
  if (/released by application|of a completed application/i.test(diagnostics)) {
    return 'released';
  }
  return 'node-lost';
}

const SENTENCES: ReadonlyMap<number, string> = new Map([
  [-1000, 'The container could not be launched'],
  [-101, "The node's disks failed"],
  [-102, 'The container was preempted for another queue'],
  [-103, 'The container was killed because it used more virtual memory than the node allows'],
  [-104, 'The container was killed because it used more memory than it requested'],
  [-105, 'The container was stopped by its ApplicationMaster'],
  [-106, 'The container was killed by the ResourceManager'],
  [-107, 'The container was killed after its application had ended'],
  [-108, "The container was killed by the node's own scheduler"],
  [-109, 'The container was killed because its logs grew beyond the limit'],
]);

const ABORTED_SENTENCES: Readonly<Partial<Record<ContainerEnd, string>>> = {
  'node-lost': 'The node was lost',
  expired: 'The container was not started in time',
  released: 'The container was released',
};

/** Maps exit codes to signals. A program terminated by a signal has the exit code 128 plus the signal number. */
const SIGNALS: ReadonlyMap<number, string> = new Map([
  [129, 'SIGHUP'],
  [130, 'SIGINT'],
  [131, 'SIGQUIT'],
  [132, 'SIGILL'],
  [134, 'SIGABRT'],
  [135, 'SIGBUS'],
  [136, 'SIGFPE'],
  [137, 'SIGKILL'],
  [139, 'SIGSEGV'],
  [141, 'SIGPIPE'],
  [143, 'SIGTERM'],
]);

const DIAGNOSTICS_CHARACTERS = 600;

/** Returns a sentence about a container's exit, without YARN's diagnostics and without a full stop. */
function exitSentence(exitStatus: number, end: ContainerEnd): string {
  const known = exitStatus === ABORTED ? ABORTED_SENTENCES[end] : SENTENCES.get(exitStatus);
  const signal = SIGNALS.get(exitStatus);
  return (
    known ??
    (signal === undefined ? `The container exited with ${exitStatus}` : `The container was terminated by ${signal} (exit ${exitStatus})`)
  );
}

/** Explains a container's exit for a list of events. Adds the exit status if YARN has set it, because its logs contain only the number. */
export function exitText(exitStatus: number, end: ContainerEnd): string {
  const sentence = exitSentence(exitStatus, end);
  return `${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}${exitStatus < 0 ? ` (exit status ${exitStatus})` : ''}`;
}

/** Explains a container's exit in one sentence. Appends YARN's diagnostics if they add information. */
export function describeExit(exitStatus: number, diagnostics: string): string {
  const what = exitSentence(exitStatus, containerEnd(exitStatus, diagnostics));
  const message = withoutBoilerplate(diagnostics);
  return message === '' || exitStatus === 0 ? `${what}.` : `${what}: ${message}`;
}

/** Shortens YARN's diagnostics by removing text that does not help users: exit codes, names of shell scripts and Java stack traces. */
export function withoutBoilerplate(diagnostics: string): string {
  const lines = diagnostics
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/^(?:at [\w.$/]+\(|\.\.\. \d+ more$|\[[\d\-: .]+\]$)/.test(line))
    .map((line) => line.replace(/^\[\d{4}-\d\d-\d\d [\d:.]+\]/, '').trim())
    .filter(
      (line) =>
        !/^(?:Container released on a \*lost\* node$|Exception from container-launch\.?|Container id: |Exit code: |Shell output: |Shell error output: |Container exited with a non-zero exit code -?\d+\b|Error file: |Last \d+ bytes of|Container killed on request\. Exit code is \d+|Killed by external signal)/i.test(
          line,
        ),
    );
  const text = lines.join(' ').trim();
  return text.length <= DIAGNOSTICS_CHARACTERS ? text : `${text.slice(0, DIAGNOSTICS_CHARACTERS)}...`;
}

/** What NodeManagers report if they cannot unpack an archive because of its content. Each further attempt would fail in the same way. */
const UNPACKING =
  /InvalidPathException|ENOENT: No such file|not in gzip format|unexpected end of file|ZipException|(?:^|\s)(?:tar|gzip|unzip): |Unable to un(?:tar|zip)|ExitCodeException exitCode=2/;

/**
 * Explains a localisation failure that an archive's content usually causes. Returns null for other causes. If the same failure occurs twice,
 * it is permanent.
 */
export function unpackingFailure(diagnostics: string): string | null {
  if (!UNPACKING.test(diagnostics)) {
    return null;
  }
  if (/InvalidPathException: Malformed input|ENOENT: No such file/.test(diagnostics)) {
    return (
      'A NodeManager reports this if it cannot unpack an archive because of file names outside ASCII. Rename these files in the archives that ' +
      "`archives` and `python` list, or ask the admin to start NodeManagers with LANG=C.UTF-8 (YARN's native library never accepts emoji)"
    );
  }
  return 'A NodeManager reports this if it cannot unpack an archive that `archives`, `python` or `runtime` lists. Check that the archive is complete';
}

/**
 * Returns an explanation and a next step if localisation failed because a file was removed or modified after the job was submitted. In that
 * case, all later attempts of the job would fail too. Returns null for other causes.
 */
export function unusableFile(diagnostics: string): string | null {
  const changed = /Resource (\S+?:\/.*?) changed on src filesystem/.exec(diagnostics)?.[1];
  if (changed !== undefined) {
    return `${changed} was modified after the submission, and YARN accepts only the submitted version. Submit the job again. To replace a file while jobs use it, write the new version under a new name.`;
  }
  const removed = /File does not exist: ((?:hdfs|s?webhdfs):\S+?)[.,;]?(?:\s|$)/.exec(diagnostics)?.[1];
  if (removed === undefined) {
    return null;
  }
  return `${removed} was removed while the job still needed it. Exclude the staging folder from programs that clean up HDFS, and submit the job again.`;
}
