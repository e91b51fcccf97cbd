import path from 'node:path';
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

export interface Requirements {
  readonly file: string;
  /**
   * Format of the file: `requirements` for a pip requirements file, `pinned` for a pip requirements file that lists every package with its
   * checksum, `pyproject` for pyproject.toml, or `lock` for uv.lock.
   */
  readonly kind: 'requirements' | 'pinned' | 'pyproject' | 'lock';
}

export interface DownloadOptions extends Requirements {
  readonly target: Target;
  /** Folder to which the wheels are downloaded. */
  readonly folder: string;
}

/**
 * Downloads wheels with the user's pip and its settings, such as the registry. pip verifies the checksums.
 * @param what description of the packages for messages
 * @throws TonyError PYTHON_UNRESOLVED, RUNTIME_TOOL_MISSING, RUNTIME_DOWNLOAD_FAILED, RUNTIME_HASH_MISMATCH
 */
export async function downloadPackages(what: string, { file, kind, folder, target }: DownloadOptions, signal: AbortSignal): Promise<void> {
  const { version, machine } = target;
  const request = JSON.stringify({ file, kind, folder, version, machine, platforms: platformTags(target) });
  await runDownload(what, {
    command: 'python3',
    args: [SCRIPT, request],
    // pip resolves paths in the requirements file relative to its working directory.
    cwd: path.dirname(file),
    env: { PIP_REQUIRE_VIRTUALENV: '0' },
    signal,
    timeoutMs: DOWNLOAD_MS,
  });
}

export function runDownload(what: string, call: ToolCall): Promise<void> {
  return runExplained(call, (failure) => explain(what, failure));
}

/** Converts an npm or pip failure to an error. The error code depends on the program's output. */
export function explain(what: string, failure: ToolFailure): TonyError {
  const { log } = failure;
  const lines = `\n${failure.lastLines(LAST_LINES)}`;
  const options = { cause: failure };
  const [, refusal] = /^tony-ts: (.+)$/m.exec(log) ?? [];
  if (refusal !== undefined) {
    return new TonyError('PYTHON_UNRESOLVED', `${what}: ${refusal}.`, options);
  }
  if (/EINTEGRITY|DO NOT MATCH THE HASHES/i.test(log)) {
    return new TonyError('RUNTIME_HASH_MISMATCH', `${what}: the checksum of the download does not match the published checksum`, options);
  }
  if (/No module named '?pip\b/.test(log)) {
    return new TonyError('RUNTIME_TOOL_MISSING', 'python3 has no pip, which is needed to download Python packages', {
      hint: PIP_HINT,
      ...options,
    });
  }
  if (/Invalid requirement/.test(log)) {
    return new TonyError('PYTHON_UNRESOLVED', `${what}: pip cannot read the file:${lines}`, {
      hint: 'Name a pip requirements file, a pyproject.toml or a uv.lock in python.requirements.',
      ...options,
    });
  }
  if (/ResolutionImpossible|conflicting dependencies/.test(log)) {
    return new TonyError('PYTHON_UNRESOLVED', `${what} require conflicting versions of packages:${lines}`, {
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
      'PYTHON_UNRESOLVED',
      `${what}: the registry has no wheel for ${unmatched.trim()} that the nodes can use:${lines}`,
      options,
    );
  }
  return new TonyError('RUNTIME_DOWNLOAD_FAILED', `${what} could not be downloaded: ${failure.message}${lines}`, options);
}
