import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('the command loads no packages at its start, except for the parser of command lines', async () => {
  const { metafile } = await build({
    entryPoints: [path.join(ROOT, 'client/cli/main.ts')],
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    splitting: true,
    outdir: 'out',
    write: false,
    metafile: true,
    external: ['*.json'],
    logLevel: 'silent',
  });
  const [entry = ''] = Object.entries(metafile.outputs).flatMap(([name, { entryPoint }]) =>
    entryPoint === 'client/cli/main.ts' ? [name] : [],
  );
  const loaded = new Set([entry]);
  const packages = new Set<string>();
  for (const name of loaded) {
    for (const { path: imported, kind, external } of metafile.outputs[name]?.imports ?? []) {
      if (kind === 'import-statement') {
        (external ? packages : loaded).add(imported);
      }
    }
  }
  expect(loaded.size).toBeGreaterThan(1);
  expect([...packages].filter((name) => !name.startsWith('node:') && !name.endsWith('.json'))).toEqual(['yargs/helpers', 'string-width']);
});
