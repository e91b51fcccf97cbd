import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/*
 * Lines of a pip requirements file that tony-ts accepts. pip runs code of a package that it has to build: of local folders, of source
 * archives, and of repositories. tony-ts therefore accepts only lines that name packages of an index (from which pip takes only wheels),
 * wheels, other files, and options that select an index. pip does not read the user's file, but a file that consists of `text`, so that
 * tony-ts and pip cannot read a line differently.
 */

export type RequirementLine =
  /** `wheel` is the path of a local wheel, or null for any other requirement. */
  | { readonly type: 'requirement'; readonly text: string; readonly wheel: string | null }
  | { readonly type: 'include'; readonly file: string; readonly isConstraint: boolean }
  | { readonly type: 'options'; readonly options: readonly IndexOption[] };

export interface IndexOption {
  readonly text: string;
  /** Path of a local folder or page with links to wheels, or null for any other option. */
  readonly links: string | null;
}

/** How relative paths are resolved. */
export interface LinePaths {
  /** Resolves the path of a wheel or an index. */
  fromFolder(file: string): string;
  /** Resolves the path of an included file. */
  fromFile(file: string): string;
  /** Resolves the path of a folder of wheels. */
  links(file: string): string;
}

/** `NAME[EXTRAS] VERSIONS ; MARKER` */
const PACKAGE = /^([A-Za-z0-9][\w.-]*) ?(?:\[[\w ,.-]*\])? ?(?:[=<>~!][\w.,*+!=<>~ -]*|\([\w.,*+!=<>~ -]*\))?(?: ?;[^\p{Cc}]*)?$/u;
/** `NAME[EXTRAS] @ URL ; MARKER` */
const NAMED_URL = /^([A-Za-z0-9][\w.-]* ?(?:\[[\w ,.-]*\])? ?@ ?)([^\s;]+)( ?;[^\p{Cc}]*)?$/u;
const REMOTE = /^(https?:\/\/[^\s;]+)( ?;[^\p{Cc}]*)?$/u;
/** `PATH.whl[EXTRAS] ; MARKER` */
const LOCAL = /^((?:file:\/\/)?[^:;@=<>[\]]+\.whl)(\[[\w ,.-]*\])?( ?;[^\p{Cc}]*)?$/u;
/** pip regards a text with such an ending as a path if the file exists. */
const ARCHIVE = /\.(?:zip|whl|tar|t?gz|t?bz2?|t?xz|t?lz|lzma)$/i;
/** The path must end in `.whl`: pip ignores the query and the fragment when it decides whether a URL names a wheel. */
const WHEEL_URL = /^https?:\/\/[^\s\\"'<>?#/]+\/[^\s\\"'<>?#]+\.whl(?:\?[^\s"'\\#]*)?(?:#[^\s"'\\]*)?$/;
const INDEX_URL = /^https?:\/\/[^\s"'\\]+$/;
const HASH = /^[a-z0-9]+:[0-9a-f]+$/i;
/** Characters that pip's parser of options interprets. */
const QUOTES = /["'\\]/;

const FLAGS = new Set(['--no-index', '--pre', '--prefer-binary', '--require-hashes']);
const LONG: Readonly<Record<string, string>> = { '-r': '--requirement', '-c': '--constraint', '-f': '--find-links', '-i': '--index-url' };

interface Option {
  readonly name: string;
  readonly value: string;
}

/** Parses a line without comments. Returns null if tony-ts does not accept the line. */
export function parseRequirementLine(line: string, paths: LinePaths): RequirementLine | null {
  const words = line.split(/[ \t]+/);
  const at = words.findIndex((word) => word.startsWith('-'));
  const options = at < 0 ? [] : parseOptions(words.slice(at));
  if (options === null) {
    return null;
  }
  return at === 0 ? optionLine(options, paths) : requirement(words.slice(0, at < 0 ? undefined : at).join(' '), options, paths);
}

/** Replaces variables as pip does, which keeps a variable that is not set or empty. */
function expanded(text: string): string {
  return text.replace(/\$\{([A-Z0-9_]+)\}/g, (variable, name: string) => process.env[name] || variable);
}

function requirement(raw: string, options: readonly Option[], { fromFolder }: LinePaths): RequirementLine | null {
  if (!options.every(({ name, value }) => name === '--hash' && HASH.test(value))) {
    return null;
  }
  const text = expanded(raw);
  const accept = (accepted: string, wheel: string | null = null): RequirementLine => ({
    type: 'requirement',
    text: [accepted, ...options.map(({ value }) => `--hash=${value}`)].join(' '),
    wheel,
  });
  const [, name] = PACKAGE.exec(text) ?? [];
  if (name !== undefined && !ARCHIVE.test(name)) {
    return accept(text);
  }
  const [, named = '', url, marker] = NAMED_URL.exec(text) ?? [];
  const [, remote] = REMOTE.exec(text) ?? [];
  if (WHEEL_URL.test(url ?? remote ?? '')) {
    // pip replaces the variables, so that no file contains a password.
    return accept(raw);
  }
  const [, local, extras = '', localMarker] = url?.startsWith('file://') === true ? (LOCAL.exec(url) ?? []) : (LOCAL.exec(text) ?? []);
  const wheel = local === undefined ? null : localPath(local, fromFolder);
  const condition = marker ?? localMarker;
  if (wheel === null) {
    return null;
  }
  // pip accepts extras only after a name, and the file name of a wheel begins with the name.
  const before = extras === '' ? named : `${path.basename(wheel).split('-')[0]}${extras} @ `;
  return accept(`${before}${fileUrl(wheel)}${condition === undefined ? '' : ` ${condition.trim()}`}`, wheel);
}

function optionLine(options: readonly Option[], paths: LinePaths): RequirementLine | null {
  const [first] = options;
  if (first?.name === '--requirement' || first?.name === '--constraint') {
    const file = expanded(first.value);
    const isRemote = /^[a-z][a-z0-9+.-]+:/i.test(file);
    return options.length > 1 || isRemote
      ? null
      : { type: 'include', file: paths.fromFile(file), isConstraint: first.name === '--constraint' };
  }
  const found = options.map((option) => indexOption(option, paths));
  return found.some((each) => each === null) ? null : { type: 'options', options: found as IndexOption[] };
}

function indexOption({ name, value }: Option, { fromFolder, links }: LinePaths): IndexOption | null {
  const target = expanded(value);
  const isUrl = INDEX_URL.test(target);
  if (FLAGS.has(name) && value === '') {
    return { text: name, links: null };
  }
  switch (name) {
    case '--index-url':
    case '--extra-index-url':
    case '--find-links': {
      if (isUrl) {
        return { text: `${name} ${value}`, links: null };
      }
      const local = localPath(target, name === '--find-links' ? links : fromFolder);
      return local === null ? null : { text: `${name} ${fileUrl(local)}`, links: name === '--find-links' ? local : null };
    }
    case '--trusted-host':
      return /^[\w.:[\]-]+$/.test(target) ? { text: `${name} ${target}`, links: null } : null;
    case '--only-binary':
      return /^(?::all:|[\w.,-]+)$/.test(target) ? { text: `${name} ${target}`, links: null } : null;
    default:
      return null;
  }
}

/** Parses `--name value`, `--name=value`, `-n value` and `-nvalue`. Returns null for any other words. */
function parseOptions(words: readonly string[]): Option[] | null {
  const options: Option[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [, written = '', attached] = /^(--[a-z-]+)(?:=(.+))?$/.exec(word) ?? /^(-[a-z])(.+)?$/.exec(word) ?? [];
    const name = LONG[written] ?? written;
    const value = FLAGS.has(name) ? (attached ?? '') : (attached ?? words[++at]);
    if (!name.startsWith('--') || value === undefined || QUOTES.test(value)) {
      return null;
    }
    options.push({ name, value });
  }
  return options;
}

/** Returns the absolute path, or null if the text is a URL of another machine. */
function localPath(text: string, resolve: (file: string) => string): string | null {
  if (!text.startsWith('file:')) {
    return /^[a-z][a-z0-9+.-]+:/i.test(text) ? null : resolve(text);
  }
  try {
    return fileURLToPath(text);
  } catch {
    return null;
  }
}

/** Returns a URL without characters that pip's parser interprets. */
function fileUrl(file: string): string {
  return pathToFileURL(path.resolve(file)).href.replaceAll('$', '%24').replaceAll("'", '%27').replaceAll('[', '%5B').replaceAll(']', '%5D');
}
