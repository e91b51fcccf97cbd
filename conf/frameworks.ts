import type { Framework } from './frameworks/framework.ts';
import { horovod } from './frameworks/horovod/framework.ts';
import { jax } from './frameworks/jax/framework.ts';
import { mpi } from './frameworks/mpi/framework.ts';
import { FRAMEWORK_NAMES, type FrameworkName } from './frameworks/names.ts';
import { none } from './frameworks/none/framework.ts';
import { pytorch } from './frameworks/pytorch/framework.ts';
import { ray } from './frameworks/ray/framework.ts';
import { tensorflow } from './frameworks/tensorflow/framework.ts';
import { tfjs } from './frameworks/tfjs/framework.ts';

const FRAMEWORKS: Readonly<Record<FrameworkName, Framework>> = { tfjs, pytorch, tensorflow, jax, horovod, mpi, ray, none };

export const DEFAULT_FRAMEWORK = 'tfjs' satisfies FrameworkName;

export function frameworkOf(name: FrameworkName): Framework {
  return FRAMEWORKS[name];
}

/** Returns the names of the frameworks for which `holds` is true, for example `pytorch, horovod and mpi`. */
export function frameworksThat(holds: (framework: Framework) => boolean, joint: 'and' | 'or'): string {
  const names = FRAMEWORK_NAMES.filter((name) => holds(FRAMEWORKS[name]));
  return [names.slice(0, -1).join(', '), names.at(-1)].join(` ${joint} `);
}

/** Describes `framework` in job.yaml: each kind of program, with the names of its frameworks. */
export function describeFrameworks(): string {
  const kinds = new Set(FRAMEWORK_NAMES.map((name) => FRAMEWORKS[name].programs));
  return [...kinds]
    .map((programs) => `${FRAMEWORK_NAMES.filter((name) => FRAMEWORKS[name].programs === programs).join(', ')}: ${programs}.`)
    .join(' ');
}
