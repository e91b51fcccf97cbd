import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { COMMAND_LINE } from '../client/cli/command-line.ts';
import { FRAMEWORK_NAMES } from '../conf/frameworks/names.ts';
import { frameworkOf } from '../conf/frameworks.ts';
import { parseJob } from '../conf/resolve/load-job.ts';
import { parseSite, SITE_FILE, siteJsonSchema } from '../conf/resolve/site.ts';
import { yarnReport } from '../conf/status/job-info.ts';
import { reportedJob } from '../conf/status/job-status.fixture.ts';
import { yarnApplication } from '../hadoop/yarn/application.fixture.ts';
import { applicationStateSchema } from '../hadoop/yarn/resource-manager-answers.ts';
import { ERROR_CODES } from '../platform/errors.ts';
import { commandOf } from './command-reference.ts';
import { anchorsOf, type Block, blocksOf, commandsOf, type Document, inlineCode, linksOf, ROOT, readDocuments } from './documents.ts';

/** Checks of README.md and docs/ that need no cluster. integration-tests/documents.test.ts runs their commands. */

let documents: Document[];
let blocks: Block[];
beforeAll(async () => {
  documents = await readDocuments();
  blocks = documents.flatMap(blocksOf);
});

const placeOf = ({ document, line }: Block): string => `${document}:${line}`;

/** Pages that the code generates. Readers search them, and do not read them from the beginning to the end. */
const GENERATED = new Set(['docs/errors.md', 'docs/job-yaml.md', 'docs/commands.md']);

test('no page is longer than readers read: about 2,500 words', () => {
  const long = documents.map(({ name, text }) => ({ name, words: text.split(/\s+/).length })).filter(({ words }) => words > 2_600);
  expect(long.filter(({ name }) => !GENERATED.has(name))).toEqual([]);
});

describe('the document parser', () => {
  const document: Document = {
    name: 'a.md',
    text: [
      '# A `b` c: d, e!',
      'See [this](b.md#x "t") and `[no](link)` and `tony-ts a \\| b`.',
      '```sh',
      'one   # comment',
      '# only a comment',
      'two \\',
      '  more "a#b"',
      '',
      'three',
      '```',
      '## A `b` c: d, e!',
      'and [that](#a-b-c-d-e)',
    ].join('\n'),
  };

  test('finds blocks and commands with their line numbers', () => {
    const [block] = blocksOf(document);
    expect(block).toMatchObject({ line: 3, language: 'sh' });
    expect(commandsOf(block as Block)).toEqual([
      { place: 'a.md:4', text: 'one' },
      { place: 'a.md:6', text: 'two more "a#b"' },
      { place: 'a.md:9', text: 'three' },
    ]);
  });

  test('finds links, anchors and inline code', () => {
    expect(linksOf({ ...document, text: document.text.replace(' "t"', '') })).toEqual(['b.md#x', '#a-b-c-d-e']);
    expect([...anchorsOf(document)]).toEqual(['a-b-c-d-e', 'a-b-c-d-e-1']);
    expect(inlineCode(document)).toContain('tony-ts a | b');
  });

  test('rejects a block without a closing fence', () => {
    expect(() => blocksOf({ name: 'a.md', text: '```sh\nls\n' })).toThrow('a.md:1');
  });
});

test('every link points to an existing file and heading', async () => {
  const broken: string[] = [];
  for (const document of documents) {
    for (const target of linksOf(document)) {
      if (/^[a-z]+:/.test(target)) {
        continue;
      }
      const [file = '', anchor] = target.split('#');
      const name = file === '' ? document.name : path.join(path.dirname(document.name), file);
      const there = await access(path.join(ROOT, name)).then(
        () => true,
        () => false,
      );
      if (!there) {
        broken.push(`${document.name}: ${target}`);
      } else if (anchor !== undefined && name.endsWith('.md')) {
        const text = await readFile(path.join(ROOT, name), 'utf8');
        if (!anchorsOf({ name, text }).has(anchor)) {
          broken.push(`${document.name}: ${target}`);
        }
      }
    }
  }
  expect(broken).toEqual([]);
});

test('every source file and folder that a document names exists', () => {
  const sources =
    /^(?:application-master|client|conf|contract|hadoop|integration-tests|platform|protos|storage|task-executor|tools|training|web)\/[\w./-]*$/;
  const named = documents.flatMap((document) => inlineCode(document).map((text) => ({ document: document.name, text })));
  const paths = named.filter(({ text }) => sources.test(text));
  expect(paths.length).toBeGreaterThan(50);
  expect(paths.filter(({ text }) => !existsSync(path.join(ROOT, text)))).toEqual([]);
});

test('every document in docs/ is linked from another document or the README', () => {
  const linked = new Set(documents.flatMap((document) => linksOf(document).map((target) => path.basename(target.split('#')[0] ?? ''))));
  const pages = documents.map(({ name }) => path.basename(name)).filter((name) => name !== 'README.md');
  expect(pages.filter((name) => !linked.has(name))).toEqual([]);
});

test('every code block names a known language, and only sh blocks contain commands', () => {
  expect(blocks.filter(({ language }) => !['', 'sh', 'yaml', 'ts', 'json', 'xml', 'python'].includes(language)).map(placeOf)).toEqual([]);
  const hiding = blocks.filter(({ language, text }) => language !== 'sh' && /^\s*(\$ |tony-ts |npm |npx )/m.test(text));
  expect(hiding.map(placeOf)).toEqual([]);
});

test('every yaml block is a valid job or site file, or a valid part of one', () => {
  const siteKeys = Object.keys((siteJsonSchema() as { properties: object }).properties);
  const wrong: string[] = [];
  for (const block of blocks.filter(({ language }) => language === 'yaml')) {
    const keys = Object.keys(parse(block.text) as object);
    try {
      if (keys.some((key) => siteKeys.includes(key))) {
        parseSite(block.text, SITE_FILE);
      } else {
        const rest = Object.entries({ name: 'part', command: 'node train.ts', roles: '{worker: {}}' }).filter(
          ([key]) => !keys.includes(key),
        );
        const text = [block.text, ...rest.map(([key, value]) => `${key}: ${value}`)].join('\n');
        parseJob(text, { file: 'job.yaml', folder: ROOT });
      }
    } catch (error) {
      wrong.push(`${placeOf(block)}: ${String(error)}`);
    }
  }
  expect(wrong).toEqual([]);
});

/** Names that the examples use without declaring them. */
const READERS = `
import type * as tf from '@tensorflow/tfjs';
import type * as training from '${path.join(ROOT, 'training', 'index.ts')}';
declare global {
  const cluster: training.Cluster;
  const join: typeof training.join;
  const model: tf.LayersModel;
  const data: { x: tf.Tensor; y: tf.Tensor };
  const x: tf.Tensor;
  const y: tf.Tensor;
  const xTest: tf.Tensor;
  const yTest: tf.Tensor;
  const images: tf.Tensor;
  const dataset: training.Dataset<Buffer>;
  const parse: (record: Buffer) => { xs: Float32Array; ys: number };
  const toExample: (value: unknown) => { xs: Float32Array; ys: number };
  const use: (record: unknown) => void;
  const clicks: AsyncIterable<object>;
  const accuracy: number;
  const train: (cluster: training.Cluster) => Promise<{ accuracy: number }>;
}
`;

test('every ts block compiles without type errors', async () => {
  await mkdir(path.join(ROOT, '.cache'), { recursive: true });
  const folder = await mkdtemp(path.join(ROOT, '.cache', 'documents-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const files = new Map<string, string>();
  for (const block of blocks.filter(({ language }) => language === 'ts')) {
    const file = `${block.document.replaceAll(/\W/g, '-')}-${block.line}.ts`;
    // An excerpt of fit's options.
    const text = /^\w+:/.test(block.text)
      ? `export const options: import('${path.join(ROOT, 'training', 'index.ts')}').FitOptions = {\n${block.text}\n};`
      : block.text;
    files.set(file, `${text}\nexport {};\n`);
  }
  expect(files.size).toBeGreaterThan(10);
  for (const [name, text] of [...files, ['readers.d.ts', READERS] as const]) {
    await writeFile(path.join(folder, name), text);
  }
  const configuration = {
    extends: path.join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      paths: { 'tony-ts': [path.join(ROOT, 'client', 'index.ts')], 'tony-ts/training': [path.join(ROOT, 'training', 'index.ts')] },
    },
    include: [folder],
    exclude: [],
  };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(configuration));
  const checked = promisify(execFile)(path.join(ROOT, 'node_modules', '.bin', 'tsc'), ['--noEmit', '-p', folder], { cwd: ROOT });
  const output = await checked.then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
  // `npm run check` reports the errors in all other files.
  expect(output.split('\n').filter((line) => line.includes(path.basename(folder)))).toEqual([]);
});

test('the documented commands compile a program with the documented tsconfig.json, so that every supported Node.js runs it', async () => {
  const [configuration] = blocks.filter(({ document, language }) => document === 'docs/getting-started.md' && language === 'json');
  const [compile, run] = blocks
    .filter(({ document, language }) => document === 'docs/library.md' && language === 'sh')
    .flatMap((block) => commandsOf(block).map(({ text }) => text))
    .filter((text) => /^(?:npx tsc|node build)/.test(text));
  const folder = await mkdtemp(path.join(ROOT, '.cache', 'compiled-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const files = {
    'package.json': '{"type": "module"}',
    'tsconfig.json': configuration?.text ?? '',
    'client.ts': "import { answer } from './answer.ts';\n\nprocess.stdout.write(String(answer));\n",
    'answer.ts': 'export const answer: number = 42;\n',
  };
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(path.join(folder, name), text)));
  const { stdout } = await promisify(execFile)('sh', ['-c', `${compile} && ${run}`], { cwd: folder });
  expect(stdout).toBe('42');
});

test('every function that docs/library.md names is exported', async () => {
  const library: object = await import('../client/index.ts');
  const [page] = documents.filter(({ name }) => name === 'docs/library.md');
  const rows = (page?.text ?? '').split('\n').filter((line) => line.startsWith('| `tony-ts '));
  expect(rows.length).toBeGreaterThan(10);
  const functions = rows.flatMap((row) => [...(row.split('|')[2] ?? '').matchAll(/`(\w+)(?=[(`])/g)].map(([, name = '']) => name));
  expect(functions.filter((name) => !(name in library))).toEqual([]);
  const { JobHandle } = await import('../client/index.ts');
  const methods = [...(page?.text ?? '').matchAll(/\bjob\.(\w+)\(/g)].map(([, name = '']) => name);
  expect(methods.length).toBeGreaterThan(10);
  expect(methods.filter((name) => !(name in JobHandle.prototype))).toEqual([]);
});

/** Types with fields that docs/job-api/fields.md lists, each under a heading with the type's name. */
const DESCRIBED_TYPES: Readonly<Record<string, readonly string[]>> = {
  'conf/status/status.ts': [
    'TaskStatus',
    'OrphanedContainer',
    'TensorBoardStatus',
    'ElasticStatus',
    'MasterStatus',
    'Usage',
    'HistoryEntry',
    'UsageSample',
    'TaskUsageSample',
  ],
  'conf/status/task-failure.ts': ['ProgramEnd', 'TaskFailure', 'FirstFailure'],
};

/** Fields of a type that is derived from a schema. */
const DERIVED_TYPES: Readonly<Record<string, readonly string[]>> = {
  Job: Object.keys(reportedJob()),
  YarnReport: [...Object.keys(yarnReport(yarnApplication())), 'attempts?'],
};

test('docs/job-api/fields.md lists exactly the fields of the types that it describes', async () => {
  const page = documents.find(({ name }) => name === 'docs/job-api/fields.md')?.text ?? '';
  const declared = await Promise.all(
    Object.entries(DESCRIBED_TYPES).map(async ([file, types]) => {
      const source = await readFile(path.join(ROOT, file), 'utf8');
      return types.map((type) => [type, declaredFields(source, type)] as const);
    }),
  );
  for (const [type, fields] of [...declared.flat(), ...Object.entries(DERIVED_TYPES)]) {
    const [, section = ''] = page.split(`## \`${type}\`\n`);
    const rows = (section.split(/^##/m)[0] ?? '').split('\n').filter((line) => line.startsWith('| `'));
    const listed = rows.flatMap((row) =>
      [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`(\??)/g)].map(([, name, mark]) => `${name}${mark}`),
    );
    expect({ type, fields: listed.toSorted() }).toEqual({ type, fields: fields.toSorted() });
    expect(fields.length, type).toBeGreaterThan(1);
  }
});

/** Returns the fields of an interface, including those that it takes from another type with `extends Pick<...>`. */
function declaredFields(source: string, type: string): string[] {
  const [, head = '', body = ''] = new RegExp(`^export interface ${type}\\b([^{]*)\\{\\n([^]*?)^\\}`, 'm').exec(source) ?? [];
  const picked = [...head.matchAll(/'(\w+)'/g)].map(([, name = '']) => name);
  const own = [...body.matchAll(/^ {2}readonly (\w+)(\??):/gm)].map(([, name = '', optional = '']) => `${name}${optional}`);
  return [...picked, ...own];
}

/** Other names in capitals: environment variables and Hadoop's policies for HTTPS. */
const VARIABLE =
  /^(TONY|HADOOP|AWS|CUDA)_\w+$|^(NO_COLOR|CXX|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|NODE_OPTIONS|HTTPS_PROXY|(NCCL|GLOO)_SOCKET_IFNAME|JOB_ID|TMPDIR|TZ|LANG|LANGUAGE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$|^(HTTP_ONLY|HTTPS_ONLY|HTTP_AND_HTTPS|LENIENT|STRICT)$/;

test('every error code in the documents exists', () => {
  const yarnStates: readonly string[] = [...applicationStateSchema.options, 'SUCCEEDED'];
  const wrong: string[] = [];
  for (const document of documents.filter(({ name }) => !/moving-from|frameworks|tensorflow.README/.test(name))) {
    for (const code of inlineCode(document)) {
      if (!/^[A-Z][A-Z]+(_[A-Z]+)*$/.test(code) || VARIABLE.test(code) || yarnStates.includes(code) || Object.hasOwn(ERROR_CODES, code)) {
        continue;
      }
      wrong.push(`${document.name}: ${code}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("docs/frameworks.md and the pages of the frameworks list every variable that a framework's programs get", () => {
  const pages = documents.filter(({ name }) => name.startsWith('docs/frameworks'));
  const listed = new Set(pages.flatMap(inlineCode));
  for (const framework of FRAMEWORK_NAMES) {
    expect([...frameworkOf(framework).reserved, framework].filter((name) => !listed.has(name))).toEqual([]);
  }
});

test('every inline command exists, with its options and its example job', () => {
  const root = COMMAND_LINE;
  const always = root.options.map(({ name }) => name);
  const wrong: string[] = [];
  for (const document of documents) {
    for (const code of inlineCode(document)) {
      const line = code.replace(/^npx /, '');
      if (!line.startsWith('tony-ts ')) {
        continue;
      }
      const words = line.split(/\s+/).slice(1);
      // `tony-ts --help`, `tony-ts COMMAND --help`
      if (/^(COMMAND|--\w+)$/.test(words[0] ?? '')) {
        continue;
      }
      const command = commandOf(root, words);
      const known = new Set([...always, ...(command?.options ?? []).flatMap(({ name, aliases }) => [name, ...aliases])]);
      const options = words.filter((word) => /^-+[a-z]/.test(word)).map((word) => word.replace(/^-+/, '').replace(/[=\]].*$/, ''));
      const job = words[words.indexOf('--conf') + 1] ?? '';
      const lost = job.startsWith('examples/') && !existsSync(path.join(ROOT, job));
      if (command === null || lost || options.some((name) => !known.has(name))) {
        wrong.push(`${document.name}: ${code}`);
      }
    }
  }
  expect(wrong).toEqual([]);
});
