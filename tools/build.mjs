#!/usr/bin/env node
/**
 * Builds dist/:
 *   tony-ts.js                        the command
 *   index.js                          the library `tony-ts`
 *   container/application-master.mjs  the folder that the client ships to the cluster as `tony/`;
 *   container/task-executor.mjs       container/training.mjs is also the library `tony-ts/training`
 *   container/training.mjs
 *   container/register.mjs
 *   container/process-launcher.mjs    runs the processes of a task with several processes
 *   container/FRAMEWORK.mjs           the programs of a framework, such as mpi.mjs, from conf/frameworks/FRAMEWORK/programs
 *   container/probe.sh                starts the containers of `tony-ts doctor --probe`
 *   container/checkpoint-thread.mjs, sync-ring-worker.mjs    threads of training.mjs
 *   container/tensorboard.mjs
 *   s3-client.mjs, container/s3-client.mjs   the client of object stores, which the other bundles load with the first s3:// URI
 *   container/arrow-stream.mjs        the reader of Arrow files, which training.mjs loads with the first DataFrame
 *   tensorboard-server.py             the Python part of tensorboard.mjs, beside every bundle that may start it
 *   container/tensorboard-server.py
 *   download-packages.py, unpack-wheels.py    the Python parts of the command, for wheels
 *   container/python/tony/            the Python package for programs of other frameworks
 *   tony_ts-VERSION-py3-none-any.whl  the same package, for pip
 *   tony-ts.bash, tony-ts.zsh, tony-ts.fish   the output of `tony-ts completion`
 *   types/                            type declarations of the two libraries
 * Builds web/page/built-assets.json first: the pages' scripts and styles that the ApplicationMaster and the command serve.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { writeWheel } from './wheel.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const DIST = path.join(ROOT, 'dist');

/**
 * Returns the frameworks whose folder of programs contains a file.
 * @param {string} file
 */
function frameworkPrograms(file) {
  const folder = 'conf/frameworks';
  return readdirSync(path.join(ROOT, folder))
    .map((name) => ({ name, source: `${folder}/${name}/programs/${file}` }))
    .filter(({ source }) => existsSync(path.join(ROOT, source)));
}

/**
 * `imported` bundles run in the user's own process. They keep their white space: for an uncaught error, Node.js prints the whole source line,
 * which would be the whole bundle.
 * @typedef {{ source: string, output: string, executable?: boolean, imported?: boolean, external?: string[] }} Bundle
 */

/** @type {Bundle[]} */
export const BUNDLES = [
  { source: 'client/cli/main.ts', output: 'tony-ts.js', executable: true },
  { source: 'client/index.ts', output: 'index.js', imported: true },
  { source: 'application-master/main.ts', output: 'container/application-master.mjs' },
  { source: 'task-executor/main.ts', output: 'container/task-executor.mjs' },
  { source: 'task-executor/program/process-launcher.ts', output: 'container/process-launcher.mjs' },
  ...frameworkPrograms('main.ts').map(({ name, source }) => ({ source, output: `container/${name}.mjs` })),
  // A process must contain only one copy of TensorFlow.js: the copy that the user's script imports.
  { source: 'training/index.ts', output: 'container/training.mjs', imported: true, external: ['@tensorflow/*'] },
  { source: 'training/process/register.ts', output: 'container/register.mjs', imported: true },
  { source: 'contract/checkpoint/checkpoint-thread-main.ts', output: 'container/checkpoint-thread.mjs' },
  { source: 'training/ring/sync-ring-worker.ts', output: 'container/sync-ring-worker.mjs', imported: true },
  { source: 'web/tensorboard/main.ts', output: 'container/tensorboard.mjs' },
  { source: 'storage/s3/s3-client.ts', output: 's3-client.mjs', imported: true },
  { source: 'storage/s3/s3-client.ts', output: 'container/s3-client.mjs' },
  { source: 'training/data/frames/arrow-stream.ts', output: 'container/arrow-stream.mjs' },
];

/**
 * Keeps the import of a module that is a bundle of its own. Both bundles are in the same folder.
 * @type {import('esbuild').Plugin}
 */
const SEPARATE_BUNDLES = {
  name: 'separate-bundles',
  setup(build) {
    build.onResolve({ filter: /\/(s3-client|arrow-stream)\.ts$/ }, ({ kind, path: source }) =>
      kind === 'dynamic-import' ? { path: `./${path.basename(source, '.ts')}.mjs`, external: true } : undefined,
    );
  },
};

/**
 * Bundled CommonJS packages call `require` for Node's built-in modules, but ES modules have no `require`. The import has its own name,
 * because a dependency may also declare `createRequire`.
 */
const REQUIRE_BANNER =
  "import { createRequire as createRequireForBundle } from 'node:module'; const require = createRequireForBundle(import.meta.url);";

/**
 * @param {Bundle} bundle
 * @param {string} outfile
 */
export async function bundle({ source, executable = false, imported = false, external = [] }, outfile) {
  const { build } = await import('esbuild');
  // A starting job may be reading the previous bundle. Therefore the new bundle is written to a temporary file and then renamed.
  const unfinished = `${outfile}.${process.pid}`;
  await build({
    entryPoints: [path.join(ROOT, source)],
    outfile: unfinished,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    // Keeps names for readable stack traces, and removes white space to shorten the upload and the start of the command.
    minifyWhitespace: !imported,
    minifySyntax: true,
    legalComments: 'none',
    external,
    plugins: [SEPARATE_BUNDLES],
    banner: { js: executable ? `#!/usr/bin/env node\n${REQUIRE_BANNER}` : REQUIRE_BANNER },
    logLevel: 'warning',
    absWorkingDir: ROOT,
  });
  if (executable) {
    await chmod(unfinished, 0o755);
  }
  await rename(unfinished, outfile);
}

/**
 * The pages' assets besides their HTML: source below web/page/browser, and the media type.
 * @satisfies {Record<string, { source: string, type: string, format: import('esbuild').Format }>}
 */
const PAGE_ASSETS = {
  // Runs in TensorBoard's page before the page's own scripts, so it must not define globals.
  'tunnel.js': { source: 'tunnel.ts', type: 'text/javascript; charset=utf-8', format: 'iife' },
  'job.js': { source: 'job.ts', type: 'text/javascript; charset=utf-8', format: 'esm' },
  'history.js': { source: 'history.ts', type: 'text/javascript; charset=utf-8', format: 'esm' },
  'page.css': { source: 'page.css', type: 'text/css; charset=utf-8', format: 'esm' },
};

/** The other bundles contain these assets in compressed form. The asset names contain the hash of the content. */
async function buildPage(outfile = path.join(ROOT, 'web', 'page', 'built-assets.json')) {
  const { build } = await import('esbuild');
  const assets = await Promise.all(
    Object.entries(PAGE_ASSETS).map(async ([asset, { source, type, format }]) => {
      const { outputFiles } = await build({
        entryPoints: [path.join(ROOT, 'web', 'page', 'browser', source)],
        bundle: true,
        write: false,
        format,
        platform: 'browser',
        target: ['chrome105', 'firefox104', 'safari16'],
        minify: true,
        legalComments: 'none',
        logLevel: 'warning',
        absWorkingDir: ROOT,
      });
      const body = outputFiles[0]?.contents ?? new Uint8Array();
      const hash = createHash('sha256').update(body).digest('hex').slice(0, 12);
      const name = asset.replace('.', `-${hash}.`);
      return /** @type {const} */ ([asset, { name, type, hash, gzip: gzipSync(body, { level: 9 }).toString('base64') }]);
    }),
  );
  const unfinished = `${outfile}.${process.pid}`;
  await writeFile(unfinished, `${JSON.stringify(Object.fromEntries(assets), null, 1)}\n`);
  await rename(unfinished, outfile);
  return assets.map(([asset, { gzip }]) => ({ asset, gzipBytes: Buffer.byteLength(gzip, 'base64') }));
}

/**
 * @param {string} source
 * @param {string} folder
 */
async function copyWhole(source, folder) {
  const target = path.join(folder, path.basename(source));
  const unfinished = `${target}.${process.pid}`;
  await copyFile(path.join(ROOT, source), unfinished);
  await rename(unfinished, target);
}

/** Copies the Python package `tony` and the file with which pip installs it, without the files that Python has compiled. Writes the wheel. */
async function buildPython() {
  const target = path.join(DIST, 'container', 'python');
  const names = await readdir(path.join(ROOT, 'python'), { recursive: true });
  const sources = names.filter((name) => /\.py$|(^|\/)py\.typed$|^pyproject\.toml$/.test(name));
  await Promise.all(
    sources.map(async (name) => {
      const folder = path.join(target, path.dirname(name));
      await mkdir(folder, { recursive: true });
      await copyWhole(path.join('python', name), folder);
    }),
  );
  const modules = sources.filter((name) => name.startsWith('tony/'));
  const wheel = await writeWheel(path.join(ROOT, 'python'), modules, DIST, rename);
  const older = (await readdir(DIST)).filter((name) => /^tony_ts-.*\.whl$/.test(name) && name !== wheel);
  await Promise.all(older.map((name) => rm(path.join(DIST, name), { force: true })));
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
  for (const { asset, gzipBytes } of await buildPage()) {
    log(`web/page ${asset}  ${(gzipBytes / 1000).toFixed(1)} kB compressed`);
  }
  await Promise.all([
    ...BUNDLES.map(async (each) => {
      const outfile = path.join(DIST, each.output);
      await bundle(each, outfile);
      log(`dist/${each.output}  ${((await stat(outfile)).size / 1000).toFixed(0)} kB`);
    }),
    ...['', 'container'].map((folder) => copyWhole('web/tensorboard/tensorboard-server.py', path.join(DIST, folder))),
    ...['download-packages.py', 'unpack-wheels.py'].map((script) => copyWhole(`client/runtime/${script}`, DIST)),
    copyWhole('task-executor/probe/probe.sh', path.join(DIST, 'container')),
    buildPython(),
    ...['bash', 'zsh', 'fish'].map((shell) => copyWhole(`client/cli/completion/tony-ts.${shell}`, DIST)),
    types && declarations(),
  ]);
  log(`built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const quiet = process.argv.includes('--quiet');
  try {
    if (process.argv.includes('--page')) {
      await buildPage();
    } else {
      await buildAll({ log: quiet ? () => {} : console.log });
    }
  } catch (error) {
    // esbuild has already printed the location of the error.
    console.error(`build failed: ${/** @type {Error} */ (error).message}`);
    process.exitCode = 1;
  }
}
