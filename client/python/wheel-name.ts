import { TonyError } from '../../platform/errors.ts';
import { OLDER_PLATFORMS } from '../runtime/target-platform.ts';

/** Components of a wheel's file name (PEP 427). */
export interface WheelName {
  readonly name: string;
  readonly version: string;
  /** Oldest glibc version that can load the wheel, or null if the wheel does not contain native code. */
  readonly glibc: string | null;
}

/**
 * @param file a name such as `numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl`
 * @throws TonyError PYTHON_PACKAGES_NOT_FOUND if the file is not a wheel
 */
export function parseWheelName(file: string): WheelName {
  const match = /^([^-]+)-([^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-([^-]+)\.whl$/.exec(file);
  if (match === null) {
    throw new TonyError('PYTHON_PACKAGES_NOT_FOUND', `${file} is not a wheel, and the nodes cannot build packages.`, {
      hint: 'Build a wheel with `python3 -m pip wheel`, and list its path in the requirements.',
    });
  }
  const [, name = '', version = '', platforms = ''] = match;
  const oldest = platforms.split('.').map(glibcOf).toSorted(compareGlibc)[0] ?? null;
  return { name: name.replaceAll('_', '-').toLowerCase(), version, glibc: oldest };
}

/**
 * Returns null if the platform does not specify a glibc version. Examples are `any`, and `linux_x86_64` for a wheel that was built on this
 * machine.
 */
export function glibcOf(platform: string): string | null {
  const [, major, minor] = /^manylinux_(\d+)_(\d+)_/.exec(platform) ?? [];
  const older = OLDER_PLATFORMS[platform.split('_')[0] ?? ''];
  return major === undefined ? (older === undefined ? null : `2.${older}`) : `${major}.${minor}`;
}

/** Compares glibc versions for sorting. Null counts as older than any version. */
export function compareGlibc(a: string | null, b: string | null): number {
  const [left, right] = [a, b].map((each) => (each ?? '0.0').split('.').map(Number));
  return (left?.[0] ?? 0) - (right?.[0] ?? 0) || (left?.[1] ?? 0) - (right?.[1] ?? 0);
}
