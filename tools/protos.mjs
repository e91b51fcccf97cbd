// Converts the .proto files to JSON descriptors, so that bundles include them and start without a parser:
//   protos/tony.proto -> protos/tony.json, protos/hadoop/*.proto -> protos/hadoop.json
// `--check` writes nothing and fails when a descriptor is out of date.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

const folder = fileURLToPath(new URL('../protos', import.meta.url));

const TARGETS = [
  { output: 'tony.json', sources: ['tony.proto'], keepCase: false },
  // Hadoop mixes snake_case and camelCase in one message. `keepCase` preserves the names as written in the .proto files.
  {
    output: 'hadoop.json',
    sources: readdirSync(path.join(folder, 'hadoop'))
      .filter((name) => name.endsWith('.proto'))
      .sort()
      .map((name) => path.join('hadoop', name)),
    keepCase: true,
  },
];

/** @param {{ sources: string[], keepCase: boolean }} target */
function descriptorOf({ sources, keepCase }) {
  const root = new protobuf.Root();
  for (const source of sources) {
    protobuf.parse(readFileSync(path.join(folder, source), 'utf8'), root, { keepCase });
  }
  root.resolveAll();
  return `${format(root.toJSON())}\n`;
}

/**
 * Serialises JSON as the project's formatter does: objects expanded, lists on one line.
 * @param {unknown} value
 * @returns {string}
 */
function format(value, indent = '') {
  if (Array.isArray(value)) {
    return `[${value.map((item) => format(item, indent)).join(', ')}]`;
  }
  if (value === null || typeof value !== 'object') {
    return JSON.stringify(value);
  }
  const inner = `${indent}  `;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  if (fields.length === 0) {
    return '{}';
  }
  return `{\n${fields.map(([key, field]) => `${inner}${JSON.stringify(key)}: ${format(field, inner)}`).join(',\n')}\n${indent}}`;
}

const check = process.argv.includes('--check');
for (const target of TARGETS) {
  const file = path.join(folder, target.output);
  const text = descriptorOf(target);
  if (!check) {
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`protos/${target.output} is out of date: run \`node tools/protos.mjs\` and commit it.`);
    process.exitCode = 1;
  }
}
