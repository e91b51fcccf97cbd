import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';
import { platformTags, type Target } from './target-platform.ts';
import { runExplained, type ToolCall, type ToolFailure } from './tool.ts';

/** Path of the script, which the build copies to the bundle folder. */
const SCRIPT = fileURLToPath(new URL('./download-packages.py', import.meta.url));
const DOWNLOAD_MS = 30 * 60_000;
const LAST_LINES = 12;
const PIP_HINT = 'Install pip for this python3 (`python3 -m ensurepip`, or the package python3-pip of your system), and try again.';
const UNREACHABLE =
  /NewConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|ProxyError|SSLError|HTTPError|Max retries exceeded/;
/** Path of a wheel that does not exist. Only a pip that does not evaluate markers for the nodes would look for it. */
const ABSENT_WHEEL = '/tony_ts_markers-0-py3-none-any.whl';
/** Name of the wheel that stands for a pyproject.toml. pip copies it to the folder of the packages. */
export const PROJECT_WHEEL = 'tony_ts_job-0-py3-none-any.whl';

export interface Requirements {
  readonly file: string;
  /**
   * Format of the file: `requirements` for a pip requirements file, `pinned` for a pip requirements file that lists every package with its
   * checksum, or `pyproject` for pyproject.toml.
   */
  readonly kind: 'requirements' | 'pinned' | 'pyproject';
}

export interface DownloadOptions extends Requirements {
  readonly target: Target;
  /** Folder to which the wheels are downloaded. */
  readonly folder: string;
  /** What the user should do if no index can be reached. Default: the hint of RUNTIME_DOWNLOAD_FAILED. */
  readonly unreachableHint?: string;
}

/**
 * Downloads wheels with the user's pip and its settings, such as the registry. pip verifies the checksums.
 * @param what description of the packages for messages
 * @throws TonyError PYTHON_PACKAGES_NOT_FOUND, RUNTIME_TOOL_NOT_FOUND, RUNTIME_DOWNLOAD_FAILED, RUNTIME_HASH_MISMATCH
 */
export async function downloadPackages(what: string, options: DownloadOptions, signal: AbortSignal): Promise<void> {
  const { file, kind, folder, target } = options;
  const { version, machine } = target;
  const request = { version, machine, project: kind === 'pyproject' ? file : null, arguments: pipArguments(options) };
  const call: ToolCall = {
    command: 'python3',
    args: [SCRIPT, JSON.stringify(request)],
    // Not the folder of the user's file, because pip regards a requirement as a path if its working directory contains such a file.
    cwd: folder,
    env: { PIP_REQUIRE_VIRTUALENV: '0' },
    signal,
    timeoutMs: DOWNLOAD_MS,
  };
  await runExplained(call, (failure) => explain(what, failure, options.unreachableHint));
}

function pipArguments({ file, kind, folder, target }: DownloadOptions): string[] {
  const { version, machine } = target;
  const isOther = `python_version != "${version}" or platform_machine != "${machine}" or sys_platform != "linux" or implementation_name != "cpython"`;
  return [
    ...['--no-input', '--disable-pip-version-check', '--progress-bar=off', '--dest', folder],
    ...['--only-binary=:all:', '--implementation', 'cp', ...platformTags(target).flatMap((tag) => ['--platform', tag])],
    // Every package is listed with its checksum, so pip must not add packages.
    ...(kind === 'pinned' ? ['--no-deps', '--require-hashes'] : []),
    ...(kind === 'pyproject' ? [] : ['--requirement', file]),
    `tony-ts-markers @ file://${ABSENT_WHEEL} ; ${isOther}`,
  ];
}

export function runDownload(what: string, call: ToolCall): Promise<void> {
  return runExplained(call, (failure) => explain(what, failure));
}

/** Converts an npm or pip failure to an error. The error code depends on the program's output. */
export function explain(what: string, failure: ToolFailure, unreachableHint?: string): TonyError {
  const { log } = failure;
  const lines = `\n${failure.lastLines(LAST_LINES, /^Ignoring tony-ts-markers:/)}`;
  const options = { cause: failure };
  const [, refusal] = /^tony-ts: (.+)$/m.exec(log) ?? [];
  if (refusal !== undefined) {
    const processed = [...log.matchAll(/^ *(?:Collecting|Processing) (.+)$/gm)].at(-1)?.[1];
    return new TonyError('PYTHON_PACKAGES_NOT_FOUND', `${what}: ${refusal.replace(/^A package/, processed ?? '$&')}.`, options);
  }
  const [, name, has, wanted] = /Package '(.+)' requires a different Python: (\S+) not in '(.+)'/.exec(log) ?? [];
  if (name !== undefined) {
    const subject = PROJECT_WHEEL.startsWith(name.replaceAll('-', '_')) ? 'the project' : name;
    return new TonyError(
      'PYTHON_PACKAGES_NOT_FOUND',
      `${what}: ${subject} requires Python ${wanted}, but the nodes' version is ${has}.`,
      options,
    );
  }
  if (log.includes(ABSENT_WHEEL)) {
    return new TonyError(
      'PYTHON_PACKAGES_NOT_FOUND',
      `${what}: this version of pip cannot resolve packages for another machine than its own.`,
      {
        hint: 'Install another version of pip, or run tony-ts on a machine with the Python version and the processor of the nodes.',
        ...options,
      },
    );
  }
  if (/EINTEGRITY|DO NOT MATCH THE HASHES/i.test(log)) {
    return new TonyError('RUNTIME_HASH_MISMATCH', `${what}: the checksum of the download does not match the published checksum`, options);
  }
  if (/No module named '?pip\b/.test(log)) {
    return new TonyError('RUNTIME_TOOL_NOT_FOUND', 'python3 has no pip, which is needed to download Python packages', {
      hint: PIP_HINT,
      ...options,
    });
  }
  if (/Invalid requirement/.test(log)) {
    return new TonyError('PYTHON_PACKAGES_NOT_FOUND', `${what}: pip cannot read the file:${lines}`, {
      hint: 'Name a pip requirements file, a pyproject.toml or a uv.lock in python.requirements.',
      ...options,
    });
  }
  if (/ResolutionImpossible|conflicting dependencies/.test(log)) {
    return new TonyError('PYTHON_PACKAGES_NOT_FOUND', `${what} require conflicting versions of packages:${lines}`, {
      hint: 'Loosen or remove one of the conflicting version requirements that pip names.',
      ...options,
    });
  }
  if (/\b40[13] (?:Client )?Error\b/.test(log)) {
    return new TonyError('RUNTIME_DOWNLOAD_FAILED', `${what}: the index rejected the user name or password, or requires one:${lines}`, {
      hint: 'Check ~/.netrc, pip.conf, PIP_INDEX_URL and the variables in the requirements file.',
      ...options,
    });
  }
  const [, unmatched] = /No matching distribution found for (.+)/.exec(log) ?? [];
  if (unmatched !== undefined && !UNREACHABLE.test(log)) {
    return new TonyError(
      'PYTHON_PACKAGES_NOT_FOUND',
      `${what}: the registry has no wheel for ${unmatched.trim()} that the nodes can use:${lines}`,
      options,
    );
  }
  return new TonyError('RUNTIME_DOWNLOAD_FAILED', `${what} could not be downloaded: ${failure.message}${lines}`, {
    ...(unreachableHint === undefined ? {} : { hint: unreachableHint }),
    ...options,
  });
}
