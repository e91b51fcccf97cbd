/**
 * Writes the Python package `tony` as a wheel: a zip archive with the modules and three files of metadata. The same sources always give the
 * same bytes. The build needs neither Python nor a registry.
 * Format: https://packaging.python.org/specifications/binary-distribution-format/
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

/** 1 January 1980, the earliest time that a zip archive can contain. */
const DOS_DATE = (1 << 5) | 1;
const UTF8_NAMES = 1 << 11;
const VERSION_NEEDED = 20;
/** Creator Unix, so that the upper half of the external attributes contains the file mode. */
const VERSION_MADE_BY = (3 << 8) | VERSION_NEEDED;
const FILE_MODE = 0o100644;
const DEFLATE = 8;

/**
 * Returns the file name of the wheel, and writes it into `folder` with `replace`.
 * @param {string} python folder with pyproject.toml and the modules
 * @param {readonly string[]} modules paths relative to `python`, with forward slashes
 * @param {string} folder
 * @param {(from: string, to: string) => Promise<void>} replace
 */
export async function writeWheel(python, modules, folder, replace) {
  const project = parseProject(await readFile(path.join(python, 'pyproject.toml'), 'utf8'));
  const stem = `${project.name.replaceAll(/[-.]+/g, '_')}-${project.version}`;
  const info = `${stem}.dist-info`;
  /** @type {(readonly [name: string, content: Buffer])[]} */
  const files = [];
  for (const name of modules.toSorted()) {
    files.push([name, await readFile(path.join(python, name))]);
  }
  files.push([`${info}/METADATA`, Buffer.from(metadata(project))]);
  files.push([`${info}/WHEEL`, Buffer.from('Wheel-Version: 1.0\nGenerator: tony-ts\nRoot-Is-Purelib: true\nTag: py3-none-any\n')]);
  const record = files.map(([name, content]) => {
    const hash = createHash('sha256').update(content).digest('base64url');
    return `${name},sha256=${hash},${content.length}\n`;
  });
  files.push([`${info}/RECORD`, Buffer.from(`${record.join('')}${info}/RECORD,,\n`)]);
  const name = `${stem}-py3-none-any.whl`;
  const unfinished = path.join(folder, `${name}.${process.pid}`);
  await writeFile(unfinished, zip(files));
  await replace(unfinished, path.join(folder, name));
  return name;
}

/**
 * @typedef {{ name: string, version: string, description: string, requiresPython: string, license: string,
 *   extras: Readonly<Record<string, readonly string[]>> }} Project
 */

/**
 * Reads the part of TOML that pyproject.toml uses: one key per line, whose value is also JSON, or an inline table with one text.
 * @param {string} text
 * @returns {Project}
 */
function parseProject(text) {
  /** @type {Record<string, Record<string, any>>} */
  const sections = {};
  let section = '';
  for (const line of text.split('\n')) {
    const [, heading] = /^\[+([\w.-]+)\]+$/.exec(line) ?? [];
    const [, key, value] = /^([\w-]+) = (.+)$/.exec(line) ?? [];
    if (heading !== undefined) {
      section = heading;
    } else if (key !== undefined && value !== undefined) {
      sections[section] = { ...sections[section], [key]: JSON.parse(value.replace(/^\{ text = (".*") \}$/, '$1')) };
    }
  }
  const { project = {}, 'project.optional-dependencies': extras = {} } = sections;
  const { name, version, description, license } = project;
  return { name, version, description, license, requiresPython: project['requires-python'], extras };
}

/** @param {Project} project */
function metadata({ name, version, description, requiresPython, license, extras }) {
  const lines = ['Metadata-Version: 2.1', `Name: ${name}`, `Version: ${version}`, `Summary: ${description}`, `License: ${license}`];
  lines.push(`Requires-Python: ${requiresPython}`);
  for (const [extra, packages] of Object.entries(extras)) {
    lines.push(`Provides-Extra: ${extra}`, ...packages.map((each) => `Requires-Dist: ${each}; extra == "${extra}"`));
  }
  return `${lines.join('\n')}\n`;
}

/** @param {readonly (readonly [name: string, content: Buffer])[]} files */
function zip(files) {
  /** @type {Buffer[]} */
  const bodies = [];
  /** @type {Buffer[]} */
  const directory = [];
  let offset = 0;
  for (const [name, content] of files) {
    const data = deflateRawSync(content, { level: 9 });
    const label = Buffer.from(name);
    // Fields of both headers: version, flags, method, time, date, CRC-32, both sizes, length of the name, length of the extra field.
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(VERSION_NEEDED, 0);
    shared.writeUInt16LE(UTF8_NAMES, 2);
    shared.writeUInt16LE(DEFLATE, 4);
    shared.writeUInt16LE(DOS_DATE, 8);
    shared.writeUInt32LE(crc32(content), 10);
    shared.writeUInt32LE(data.length, 14);
    shared.writeUInt32LE(content.length, 18);
    shared.writeUInt16LE(label.length, 22);
    const body = Buffer.concat([Buffer.from('PK\u0003\u0004'), shared, label, data]);
    // Length of the comment, number of the disk, internal and external attributes, and offset of the file.
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(FILE_MODE * 0x1_0000, 6);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\u0001\u0002'), uint16(VERSION_MADE_BY), shared, rest, label);
    bodies.push(body);
    offset += body.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...bodies, central, Buffer.from('PK\u0005\u0006'), end]);
}

/** @param {number} value */
function uint16(value) {
  const buffer = Buffer.alloc(2);
  buffer.writeUInt16LE(value);
  return buffer;
}
