import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { TENSORFLOW_ROLES } from '../../conf/frameworks/tensorflow/framework.ts';

/**
 * Returns the value of `framework` for job.yaml. Returns undefined for TensorFlow.js, because it is the default in job.yaml. TonY's own
 * default is TensorFlow.
 */
export function frameworkOf(
  settings: ReadonlyMap<string, string>,
  roles: readonly string[],
  commands: readonly (string | undefined)[],
): FrameworkName | undefined {
  const runs = (pattern: RegExp) => commands.some((each) => each !== undefined && pattern.test(each));
  if (runs(/(^|[\s/])(node|npx|npm)\s|\.[cm]?[jt]s\b/)) {
    return undefined;
  }
  const chosen = settings.get('tony.application.framework')?.toLowerCase() ?? (runs(/python|\.py\b/) ? 'tensorflow' : '');
  const known = new Set([...TENSORFLOW_ROLES, 'evaluator', 'tensorboard']);
  if (chosen === 'tensorflow') {
    return roles.every((name) => known.has(name)) ? 'tensorflow' : 'none';
  }
  return chosen === 'pytorch' || chosen === 'horovod' ? chosen : 'none';
}

/** Returns true for the role in which TonY runs the Horovod rendezvous. In tony-ts, the ApplicationMaster provides the rendezvous. */
export function isHorovodDriver(settings: ReadonlyMap<string, string>, role: string): boolean {
  return role === 'driver' && settings.get('tony.application.framework')?.toLowerCase() === 'horovod';
}
