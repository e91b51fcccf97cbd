import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

test('the JSON descriptors match the .proto files', () => {
  const tool = fileURLToPath(new URL('../tools/protos.mjs', import.meta.url));
  expect(() => execFileSync(process.execPath, [tool, '--check'], { stdio: 'pipe' })).not.toThrow();
});
