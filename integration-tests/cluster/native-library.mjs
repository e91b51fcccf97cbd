/**
 * Hadoop's native library, which Hadoop's own jars do not contain. With it, NodeManagers set the permissions of unpacked files themselves.
 * Without it, they start `chmod` for each file, which takes 12 s for the runtime of tony-ts. NodeManagers of a secure cluster also need it
 * to aggregate logs.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { POM, runMaven } from './jars.mjs';
import { keptFolder } from './kept-folder.mjs';
import { CACHE } from './layout.mjs';

/**
 * Environment variable that names a folder with another libhadoop.so, for example for a Hadoop version whose library Maven does not have.
 */
const VARIABLE = 'TONY_LIBHADOOP';
/** This jar, from another project, contains the Hadoop 3.3.5 native library. Later versions have the same functions. */
const ARTIFACT = 'io.trino.hadoop:hadoop-apache:3.3.5-3';
const PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';
/** @type {Readonly<Record<string, string>>} */
const ARCHITECTURES = { x64: 'Linux-amd64', arm64: 'Linux-aarch64' };

/**
 * Returns true if the library has all functions of this Hadoop version.
 * @param {string} hadoop
 */
export function hasNativeLibrary(hadoop) {
  return Boolean(process.env[VARIABLE]) || /^3\.[34]\./.test(hadoop);
}

export function nativeLibraryFolder() {
  return process.env[VARIABLE] || path.join(CACHE, 'libhadoop', 'nativelib', ARCHITECTURES[process.arch] ?? process.arch);
}

/**
 * Downloads the library (about 70 MB), unless it exists or the developer has provided another one.
 * @param {(line: string) => void} [log]
 */
export async function ensureNativeLibrary(log = () => {}) {
  const target = path.join(CACHE, 'libhadoop');
  if (existsSync(path.join(nativeLibraryFolder(), 'libhadoop.so'))) {
    return;
  }
  if (process.env[VARIABLE]) {
    throw new Error(`${VARIABLE} names ${process.env[VARIABLE]}, which has no libhadoop.so`);
  }
  log(`taking libhadoop.so from ${ARTIFACT} with Maven ...`);
  await keptFolder(target, async (folder) => {
    const options = [`-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${folder}`, `-Dcluster.target=${path.join(folder, 'target')}`];
    await runMaven(['-B', '-q', '-f', POM, `${PLUGIN}:unpack`, ...options, '-Dmdep.unpack.includes=nativelib/*/libhadoop.so']);
  });
  if (!existsSync(path.join(nativeLibraryFolder(), 'libhadoop.so'))) {
    throw new Error(`${ARTIFACT} has no libhadoop.so for ${process.arch}`);
  }
}
