import path from 'node:path';
import { expect, test } from 'vitest';
import { ensureRuntime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';

test('with every optimizer, parameter servers train the same weights as one process, and leak no tensor', async () => {
  const runtime = await ensureRuntime((line) => console.log(line));
  const { PATH, HOME } = process.env;
  const env = programEnvironment(path.join(ROOT, 'dist', 'container'), runtime.tree, { PATH, HOME });
  const program = path.join(ROOT, 'training', 'parameter-server', 'testing', 'served-optimizers.ts');
  const { stdout } = await execute(path.join(runtime.tree, 'bin', 'node'), [program], { env });
  const lines = stdout.trim().split('\n');
  expect(lines.filter((line) => !line.endsWith(' ok'))).toEqual(['done']);
  expect(lines).toHaveLength(10);
});
