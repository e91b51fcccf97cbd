/** Provides the jars of a Hadoop version. Maven downloads them once; an incomplete folder is never used. */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withLock } from './kept-folder.mjs';
import { CACHE, DEFAULT_HADOOP, ROOT, versionFolder } from './layout.mjs';

export const POM = path.join(ROOT, 'integration-tests', 'cluster', 'pom.xml');
const GATEWAYS_POM = path.join(ROOT, 'integration-tests', 'cluster', 'gateways-pom.xml');
const KNOX_POM = path.join(ROOT, 'integration-tests', 'knox', 'pom.xml');
/** Maven's goal that copies a pom's jars. Its caller adds the folder. */
export const COPY_JARS = ['dependency:copy-dependencies', '-DincludeScope=runtime'];
const DOWNLOAD_LIMIT_MS = 20 * 60_000;

/**
 * Returns the folder with all jars of a Hadoop version.
 * @param {{ hadoop?: string, log?: (line: string) => void }} [options]
 * @returns {Promise<string>}
 */
export async function hadoopJars({ hadoop = DEFAULT_HADOOP, log = () => {} } = {}) {
  if (!/^\d+\.\d+\.\d+$/.test(hadoop)) {
    throw new Error(`"${hadoop}" is not a version of Hadoop, such as ${DEFAULT_HADOOP}`);
  }
  const source = { file: POM, selection: [`-Dhadoop.version=${hadoop}`, ...profilesOf(hadoop)], contains: `hadoop-common-${hadoop}.jar` };
  const lib = await jarsOf(source, versionFolder(hadoop), log);
  // With the LinuxContainerExecutor, localizers run as the users of jobs. `mkdtemp` creates folders that only their owner can read.
  await chmod(lib, 0o755);
  return lib;
}

/**
 * Returns the Maven options of a Hadoop version. Not every release of Hadoop includes the key server as a jar.
 * @param {string} hadoop
 */
function profilesOf(hadoop) {
  if (hadoop.startsWith('2.')) {
    return ['-Phadoop2,zookeeper3.5', '-DexcludeGroupIds=org.ow2.asm'];
  }
  if (hadoop.startsWith('3.1.')) {
    return ['-Phadoop3.1,zookeeper3.5'];
  }
  if (hadoop.startsWith('3.2.')) {
    return ['-Pzookeeper3.5'];
  }
  return hadoop === DEFAULT_HADOOP ? ['-Pkey-server'] : [];
}

/**
 * Returns the folder with the jars of HttpFS and routers.
 * @param {(line: string) => void} [log]
 */
export async function gatewayJars(log = () => {}) {
  return jarsOf({ file: GATEWAYS_POM, selection: [], contains: 'hadoop-hdfs-httpfs-' }, path.join(CACHE, 'hadoop-gateways'), log);
}

/** Returns the folder with the jars of Apache Knox. */
export async function knoxJars() {
  return jarsOf({ file: KNOX_POM, selection: [], contains: 'gateway-server-' }, path.join(CACHE, 'knox'), () => {});
}

/**
 * Unpacks the definitions of the services that Knox can serve to the folder `services`.
 * @param {string} folder
 */
export async function knoxServices(folder) {
  const jars = await knoxJars();
  const name = (await readdir(jars)).find((each) => each.startsWith('gateway-service-definitions-')) ?? '';
  await promisify(execFile)('python3', ['-m', 'zipfile', '-e', path.join(jars, name), folder]);
}

/**
 * Returns the folder with all jars of a pom. Downloads them (about a minute) when the folder is missing, incomplete, or made from another
 * pom.
 * @param {{ file: string, selection: readonly string[], contains: string }} source contains: the start of the name of one of the jars
 * @param {string} home
 * @param {(line: string) => void} log
 * @returns {Promise<string>}
 */
async function jarsOf({ file, selection, contains }, home, log) {
  const lib = path.join(home, 'lib');
  const pom = createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
  if (await isComplete(home, pom)) {
    return lib;
  }
  await withLock(lib, async () => {
    // Another process may have downloaded the jars while this one waited for the lock.
    if (await isComplete(home, pom)) {
      return;
    }
    const started = performance.now();
    log(`downloading the jars of ${path.basename(home)} with Maven (once, about a minute) ...`);
    await rm(manifestOf(home), { force: true });
    await rm(lib, { recursive: true, force: true });
    await runMaven(['-B', '-q', '-f', file, ...selection, ...COPY_JARS, `-DoutputDirectory=${lib}`]);
    const jars = await lengths(lib);
    if (!Object.keys(jars).some((name) => name.startsWith(contains))) {
      throw new Error(`Maven succeeded, but ${lib} does not contain ${contains}`);
    }
    await writeFile(manifestOf(home), JSON.stringify({ pom, jars }));
    log(`downloaded ${Object.keys(jars).length} jars in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  });
  return lib;
}

/**
 * Returns the path of the manifest, which contains the hash of the pom, and the name and length of each jar. Writing the manifest is the
 * last step.
 * @param {string} home
 */
function manifestOf(home) {
  return path.join(home, 'jars.json');
}

/**
 * @param {string} home
 * @param {string} pom
 */
async function isComplete(home, pom) {
  try {
    const manifest = JSON.parse(await readFile(manifestOf(home), 'utf8'));
    const present = await lengths(path.join(home, 'lib'));
    return manifest.pom === pom && Object.entries(manifest.jars).every(([name, length]) => present[name] === length);
  } catch {
    return false;
  }
}

/**
 * @param {string} folder
 * @returns {Promise<Record<string, number>>}
 */
async function lengths(folder) {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.jar')).sort();
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, (await stat(path.join(folder, name))).size])));
}

/**
 * @param {string[]} args
 * @returns {Promise<void>}
 */
export function runMaven(args) {
  // Uses a signal, because the timer of spawn's own timeout keeps running if the program does not exist.
  return new Promise((resolve, reject) => {
    const child = spawn('mvn', args, { stdio: ['ignore', 'pipe', 'pipe'], signal: AbortSignal.timeout(DOWNLOAD_LIMIT_MS) });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output = (output + text).slice(-4000);
      });
    }
    child.on('error', (error) => {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code === 'ENOENT') {
        reject(new Error('`mvn` was not found. Install Maven and a Java runtime (Debian: apt-get install maven).'));
      } else if (code === 'ABORT_ERR') {
        reject(new Error(`Maven did not finish within ${DOWNLOAD_LIMIT_MS / 60_000} minutes`));
      } else {
        reject(error);
      }
    });
    child.on('close', (code, signal) => {
      if (code === 0) {
        resolve();
      } else {
        reject(new Error(`Maven could not download Hadoop's jars (${signal ?? `exit ${code}`}):\n${output.trim()}`));
      }
    });
  });
}
