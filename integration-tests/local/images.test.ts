import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { ensureRuntime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { images } from '../../training/data/sources/sources.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';

test('the image functions decode and resize all formats, label images by folder, and read them from Examples', async () => {
  const runtime = await ensureRuntime((line) => console.log(line));
  const { PATH, HOME } = process.env;
  const env = programEnvironment(path.join(ROOT, 'dist', 'container'), runtime.tree, { PATH, HOME });
  const program = path.join(ROOT, 'training', 'data', 'testing', 'images.ts');
  const { stdout } = await execute(path.join(runtime.tree, 'bin', 'node'), [program], { env });
  const lines = stdout.trim().split('\n');
  expect(lines.filter((line) => !line.endsWith(' ok'))).toEqual(['done']);
  expect(lines.length).toBeGreaterThan(8);
});

test('image functions throw immediately when the backend has no decoder', () => {
  expect(() => images(tf, 'flowers/*')).toThrow(/the backend .* cannot decode images/);
});
