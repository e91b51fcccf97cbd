import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { splitList } from './draft-files.ts';
import { isTrue, number } from './tony-values.ts';

/*
 * How a TonY job ends (TonySession and ApplicationMaster in TonY 0.5):
 * - The job ends when all tracked tasks have ended. Only the failure of the chief, of a task of a stop-on-failure type or of an untracked
 *   task ends it earlier.
 * - With fail-on-worker-failure-enabled, any failure ends the job. Without it, which is the default, the job succeeds although other tasks
 *   have failed.
 */

type Settings = ReadonlyMap<string, string>;

/** Defaults of TonY. */
export const UNTRACKED = 'ps';
export const SIDECAR = 'tensorboard';
const STOPPING = 'ps';

export const FAIL_ON_WORKER_FAILURE = 'tony.application.fail-on-worker-failure-enabled';

export function isSidecar(settings: Settings, role: string): boolean {
  return lists(settings, 'tony.application.sidecar.jobtypes', SIDECAR, role);
}

export function isUntracked(settings: Settings, role: string): boolean {
  return lists(settings, 'tony.application.untracked.jobtypes', UNTRACKED, role);
}

/** Returns true if TonY waits for the role's tasks. */
export function isTracked(settings: Settings, role: string): boolean {
  return !isSidecar(settings, role) && !isUntracked(settings, role);
}

/** Returns true if the first failure of one of the role's tasks fails the job. */
export function isStopping(settings: Settings, role: string): boolean {
  return lists(settings, 'tony.application.stop-on-failure-jobtypes', STOPPING, role);
}

function lists(settings: Settings, key: string, fallback: string, role: string): boolean {
  return splitList(settings.get(key) ?? fallback).includes(role);
}

/** Returns true if the program of one task cannot continue without those of the other tasks. */
function trainsTogether(framework: FrameworkName | undefined, roles: readonly string[]): boolean {
  return (
    framework === undefined || framework === 'pytorch' || framework === 'horovod' || (framework === 'tensorflow' && !roles.includes('ps'))
  );
}

/** Returns true if TonY ignores failures of some of the job's tasks. */
export function ignoresFailures(settings: Settings, roles: readonly string[]): boolean {
  const tasks = roles.filter((role) => isTracked(settings, role)).map((role) => number(settings.get(`tony.${role}.instances`)) ?? 1);
  return !isTrue(settings.get(FAIL_ON_WORKER_FAILURE)) && tasks.reduce((sum, count) => sum + count, 0) > 1;
}

/**
 * Returns the value of `successPolicy`. TonY ignores failures by default. If all tasks train together, the failure of one ends the others in TonY
 * as well, so the job must not continue with fewer tasks.
 */
export function successPolicyOf(settings: Settings, framework: FrameworkName | undefined, roles: readonly string[]): 'ended' | undefined {
  return ignoresFailures(settings, roles) && !trainsTogether(framework, roles) ? 'ended' : undefined;
}
