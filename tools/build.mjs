#!/usr/bin/env node
/**
 * Builds dist/:
 *   tony-ts.js                        the command
 *   index.js                          the library `tony-ts`
 *   container/application-master.mjs  what the client ships to the cluster as the folder `tony/`;
 *   container/task-executor.mjs       container/training.mjs is also the library `tony-ts/training`
 *   container/training.mjs
 *   container/register.mjs
 *   types/                            declarations of the two libraries
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const DIST = path.join(ROOT, 'dist');

/** @typedef {{ source: string, output: string, executable?: boolean, external?: string[] }} Bundle */

/** @type {Bundle[]} */
export const BUNDLES = [
  { source: 'client/main.ts', output: 'tony-ts.js', executable: true },
  { source: 'client/index.ts', output: 'index.js' },
  { source: 'application-master/main.ts', output: 'container/application-master.mjs' },
  { source: 'task-executor/main.ts', output: 'container/task-executor.mjs' },
  // One copy of TensorFlow.js per process: the one that the user's script imports.
  { source: 'training/index.ts', output: 'container/training.mjs', external: ['@tensorflow/*'] },
  { source: 'training/register.ts', output: 'container/register.mjs' },
];

/** Bundled CommonJS packages call `require` for Node's own modules; an ES module has none, and a dependency may declare that very name. */
const REQUIRE_BANNER =
  "import { createRequire as createRequireForBundle } from 'node:module'; const require = createRequireForBundle(import.meta.url);";

/**
 * @param {Bundle} bundle
 * @param {string} outfile
 */
export async function bundle({ source, executable = false, external = [] }, outfile) {
  const { build } = await import('esbuild');
  // Renamed when it is whole: a job may be starting from the one before.
  const unfinished = `${outfile}.${process.pid}`;
  await build({
    entryPoints: [path.join(ROOT, source)],
    outfile: unfinished,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    // Names stay, so that a stack trace from a cluster can be read; white space goes, since the bundles travel. Not that of the user's library:
    // of an uncaught error Node prints the whole line, and stderr's last lines are what the user gets to read.
    minifyWhitespace: !source.startsWith('training/'),
    minifySyntax: true,
    legalComments: 'none',
    external,
    banner: { js: executable ? `#!/usr/bin/env node\n${REQUIRE_BANNER}` : REQUIRE_BANNER },
    logLevel: 'warning',
    absWorkingDir: ROOT,
  });
  if (executable) await chmod(unfinished, 0o755);
  await rename(unfinished, outfile);
}

async function declarations() {
  const tsc = path.join(path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
  await rm(path.join(DIST, 'types'), { recursive: true, force: true });
  try {
    await promisify(execFile)(process.execPath, [tsc, '-p', 'tools/tsconfig.types.json'], { cwd: ROOT });
  } catch (error) {
    throw new Error(`the libraries' declarations do not compile:\n${/** @type {{ stdout?: string }} */ (error).stdout ?? error}`);
  }
}

/** @param {{ types?: boolean, log?: (line: string) => void }} [options] */
export async function buildAll({ types = true, log = () => {} } = {}) {
  const started = performance.now();
  await mkdir(path.join(DIST, 'container'), { recursive: true });
  await Promise.all([
    ...BUNDLES.map(async (each) => {
      const outfile = path.join(DIST, each.output);
      await bundle(each, outfile);
      log(`dist/${each.output}  ${((await stat(outfile)).size / 1000).toFixed(0)} kB`);
    }),
    types && declarations(),
  ]);
  log(`built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const quiet = process.argv.includes('--quiet');
  try {
    await buildAll({ log: quiet ? () => {} : console.log });
  } catch (error) {
    // esbuild has printed where it failed.
    console.error(`build failed: ${/** @type {Error} */ (error).message}`);
    process.exitCode = 1;
  }
}
