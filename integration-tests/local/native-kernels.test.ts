/** Compares the native kernels of training/backend/native, and the compiled steps of training/compiled, with TensorFlow.js's own kernels, in the runtime's Node.js. */

import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { ensureRuntime, type Runtime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { execute } from '../execute.ts';

const BUNDLES = path.resolve(import.meta.dirname, '..', '..', 'dist', 'container');
const TRAINING = path.resolve(import.meta.dirname, '..', '..', 'training');
const NATIVE = path.join(TRAINING, 'backend', 'native', 'testing');

let runtime: Runtime;

beforeAll(async () => {
  runtime = await ensureRuntime((line) => console.log(line));
});

it.each([
  ...['optimizer', 'gradient', 'window', 'fit'].map((name) => [name, path.join(NATIVE, `${name}-properties.ts`)] as const),
  ['compiled steps', path.join(TRAINING, 'compiled', 'testing', 'compiled-properties.ts')] as const,
])(
  'native kernels and TensorFlow.js compute the same results: %s',
  async (_, program) => {
    const { PATH, HOME } = process.env;
    const env = programEnvironment(BUNDLES, runtime.tree, { PATH, HOME });
    const node = path.join(runtime.tree, 'bin', 'node');
    const { stdout } = await execute(node, [program], { env });
    const lines = stdout.trim().split('\n');
    expect(lines.filter((line) => !line.endsWith(' ok'))).toEqual(['done']);
    expect(lines.length).toBeGreaterThan(2);
  },
  600_000,
);
