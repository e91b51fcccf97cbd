/**
 * Archives of Hadoop's classes for Java's class-data sharing. With an archive, a daemon starts with less CPU time, because it does not read
 * and parse thousands of class files. The first cluster on a machine records which classes its daemons load, and creates the archive from
 * these records. Java ignores an archive that was created with another Java version or class path.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { processesWithArgument } from './processes.mjs';

const LIMIT_MS = 300_000;
const ENDING = '.classes';

/**
 * Returns the path of the archive for a folder of jars and a Java runtime.
 * @param {string} jars
 * @param {string} java
 */
export async function archiveFile(jars, java) {
  const times = await Promise.all([jars, java].map(async (file) => (await stat(file)).mtimeMs));
  const key = createHash('sha256')
    .update(JSON.stringify([jars, java, times]))
    .digest('hex');
  return path.join(path.dirname(jars), `classes-${key.slice(0, 12)}.jsa`);
}

/**
 * Returns the Java options with which a program uses the archive. If the archive does not exist, returns the options with which the program
 * records its classes.
 * @param {string} archive
 * @param {string} [record] path of the record without its extension; without it, the program records nothing
 */
export function archiveOptions(archive, record) {
  if (existsSync(archive)) {
    return [`-XX:SharedArchiveFile=${archive}`];
  }
  return record === undefined ? [] : [`-XX:DumpLoadedClassList=${record}${ENDING}`];
}

/**
 * Creates the archive from the records in a folder, unless another process is already creating it.
 * @param {string} archive
 * @param {{ folder: string, jars: string, java: string }} from
 */
export async function makeArchive(archive, { folder, jars, java }) {
  const unfinished = `${archive}.`;
  if (existsSync(archive) || processesWithArgument(`-XX:SharedArchiveFile=${unfinished}`).length > 0) {
    return;
  }
  const list = path.join(folder, 'classes');
  const target = `${unfinished}${process.pid}`;
  await writeFile(list, await recordedClasses(folder));
  try {
    const options = ['-Xshare:dump', `-XX:SharedClassListFile=${list}`, `-XX:SharedArchiveFile=${target}`, '-Xlog:disable'];
    await promisify(execFile)(java, [...options, '-cp', `${jars}/*`], { timeout: LIMIT_MS });
    await rename(target, archive);
  } finally {
    await rm(target, { force: true });
  }
}

/**
 * Merges the records. Removes the IDs of classes, which are valid only within one record. Ignores an incomplete last line, because the
 * programs are still running.
 * @param {string} folder
 */
async function recordedClasses(folder) {
  const names = (await readdir(folder)).filter((name) => name.endsWith(ENDING));
  const texts = await Promise.all(names.map((name) => readFile(path.join(folder, name), 'utf8')));
  const lines = texts.flatMap((text) => text.split('\n').slice(0, -1));
  const classes = lines.filter((line) => !line.startsWith('#') && !line.includes(' source: ')).map((line) => line.replace(/ id: \d+$/, ''));
  return `${[...new Set(classes)].join('\n')}\n`;
}
