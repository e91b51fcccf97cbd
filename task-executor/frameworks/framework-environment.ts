import type { Framework } from '../../conf/values/frameworks.ts';
import type { GangPlace } from './gang.ts';
import { jaxEnvironment } from './jax.ts';
import { PYTORCH_DEFAULTS, pytorchEnvironment } from './pytorch.ts';
import { tensorflowEnvironment } from './tensorflow.ts';

/** Variables with which a program of the framework finds the other programs. */
export interface FrameworkEnvironment {
  /** Values that the job's own variables override. */
  readonly defaults: Readonly<Record<string, string>>;
  readonly fixed: Readonly<Record<string, string>>;
}

export function frameworkEnvironment(framework: Framework, place: GangPlace): FrameworkEnvironment {
  switch (framework) {
    case 'pytorch':
      return { defaults: PYTORCH_DEFAULTS, fixed: pytorchEnvironment(place) };
    case 'tensorflow':
      return { defaults: {}, fixed: tensorflowEnvironment(place) };
    case 'jax':
      return { defaults: {}, fixed: jaxEnvironment(place) };
    case 'tfjs':
    case 'none':
      return { defaults: {}, fixed: {} };
  }
}

/**
 * Returns true if programs of the framework open their own server on the task's port. The executor then keeps the port bound, without
 * listening, as long as the program runs.
 */
export function opensOwnServer(framework: Framework): boolean {
  return framework !== 'tfjs' && framework !== 'none';
}
