import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
  type Range,
  visit,
  type YAMLParseError,
} from 'yaml';
import type * as z from 'zod';
import { type ErrorCode, messageOf, TonyError } from '../platform/errors.ts';
import { suggest } from '../platform/text/suggest.ts';
import type { JsonSchema } from './values/json-schema.ts';

export interface YamlProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** Whether the mistake is in the key. If false, the mistake is in the value. */
  readonly atKey?: boolean;
}

export interface YamlFileOptions {
  readonly file: string;
  /** Name for this kind of file in error messages, for example `job file`. */
  readonly what: string;
  readonly code: ErrorCode;
  /** Description of the expected content, for example `a mapping with the key name`. */
  readonly expected: string;
  /** Whether an empty file is valid and equivalent to `{}`. The default is false. */
  readonly mayBeEmpty?: boolean;
}

interface Terms {
  /** Returns the JSON Schema that contains the known keys. Called only if there are mistakes. */
  readonly schema: () => JsonSchema;
  /** Hints for missing keys, keyed by the path of the key. */
  readonly missing?: Readonly<Record<string, string>>;
  /** Returns the reason why this file does not support a key that exists in other files. Returns undefined for all other keys. */
  readonly unknown?: (path: YamlProblem['path']) => string | undefined;
}

export interface CheckOptions<T> extends Terms {
  readonly amend?: (written: unknown) => unknown;
  /** Returns mistakes that the schema cannot detect. */
  readonly meaning?: (value: T) => readonly YamlProblem[];
  /**
   * Returns the origin of a value that does not come from the file, for example `--set timeout=1`. Returns undefined for values from the
   * file.
   */
  readonly elsewhere?: (path: YamlProblem['path']) => string | undefined;
}

/** Descriptions of the mistakes that the parser reports in terms of the YAML specification. */
const SYNTAX: Partial<Record<YAMLParseError['code'], string>> = {
  BAD_INDENT: 'the indentation is wrong, or a closing bracket is missing',
  BLOCK_AS_IMPLICIT_KEY:
    'a key cannot follow a value in the same line: check the indentation of this line, and put text that contains a colon in quotes',
  BLOCK_IN_FLOW: 'an indented list or mapping cannot stand in brackets: check that every bracket above is closed',
  DUPLICATE_KEY: 'this mapping already contains a key with this name',
  MULTILINE_IMPLICIT_KEY: 'this key has no colon after it, or the indentation of the next line is wrong',
  TAB_AS_INDENT: 'YAML does not allow tabs for indentation: use spaces',
};

/** YAML file that a user has written. Reports all mistakes at once, each with its line, column and expected value. */
export class YamlFile {
  readonly document: Document;
  readonly #options: YamlFileOptions;
  readonly #lines = new LineCounter();

  /** @throws TonyError if the text is not valid YAML or does not contain a mapping */
  constructor(text: string, options: YamlFileOptions) {
    this.#options = options;
    this.document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    const { errors, contents } = this.document;
    if (errors.length > 0) {
      // One mistake often causes several errors at the same position. The first one describes it best.
      const problems = new Map<string, string>();
      for (const { pos, code, message } of errors) {
        const at = this.#at(pos[0]);
        problems.set(at, problems.get(at) ?? `${at}  ${SYNTAX[code] ?? message}`);
      }
      this.#fail([...problems.values()]);
    }
    const empty = options.mayBeEmpty === true && (contents === null || (isScalar(contents) && contents.value === null));
    if (!isMap(contents) && !empty) {
      this.#fail([`${this.#at(0)}  expected ${options.expected}, found ${describe(this.written())}`]);
    }
  }

  /**
   * Returns the content before validation.
   * @throws TonyError if an alias cannot be resolved, or if there are too many expansions of aliases
   */
  written(): unknown {
    try {
      return this.document.toJS();
    } catch (error) {
      // parseDocument does not resolve aliases, but toJS does.
      return this.#fail([`${this.#at(this.#aliasAt())}  ${messageOf(error)}`]);
    }
  }

  /**
   * Returns the position of the first alias that cannot be resolved. If all aliases can be resolved, returns the position of the first
   * alias.
   */
  #aliasAt(): number {
    const anchors = new Set<string>();
    let first: number | undefined;
    let lost: number | undefined;
    visit(this.document, {
      Node: (_, node) => {
        if (!isAlias(node)) {
          if (node.anchor !== undefined) {
            anchors.add(node.anchor);
          }
          return;
        }
        first ??= node.range?.[0];
        if (!anchors.has(node.source)) {
          lost ??= node.range?.[0];
        }
      },
    });
    return lost ?? first ?? 0;
  }

  /**
   * Validates the content against the schema.
   * @throws TonyError with all mistakes
   */
  check<T>(schema: z.ZodType<T>, options: CheckOptions<T>): T {
    const written = this.written() ?? {};
    const parsed = schema.safeParse(options.amend === undefined ? written : options.amend(written));
    const problems = parsed.success
      ? (options.meaning?.(parsed.data) ?? [])
      : parsed.error.issues.flatMap((issue) => describeIssue(issue, this.document, options));
    if (parsed.success && problems.length === 0) {
      return parsed.data;
    }
    const placed = problems.map((problem) => {
      const name = problem.path.length === 0 ? '' : `${problem.path.join('.')}: `;
      const elsewhere = options.elsewhere?.(problem.path);
      if (elsewhere !== undefined) {
        return { offset: Number.MAX_SAFE_INTEGER, text: `${elsewhere}  ${name}${problem.message}` };
      }
      const offset = offsetOf(this.document, problem);
      return { offset, text: `${this.#at(offset)}  ${name}${problem.message}` };
    });
    return this.#fail(placed.sort((a, b) => a.offset - b.offset).map((problem) => problem.text));
  }

  #at(offset: number): string {
    const { line, col } = this.#lines.linePos(offset);
    return `${this.#options.file}:${line}:${col}`;
  }

  #fail(problems: readonly string[]): never {
    const { what, code } = this.#options;
    const heading = problems.length === 1 ? `The ${what} has a mistake:` : `The ${what} has ${problems.length} mistakes:`;
    throw new TonyError(code, [heading, ...problems.map((problem) => `  ${problem}`)].join('\n'));
  }
}

/**
 * Returns the position of the value. If `atKey` is true, returns the position of the key. If the path does not exist, returns the position
 * of the nearest existing parent.
 */
function offsetOf(document: Document, problem: YamlProblem): number {
  const { path } = problem;
  if (problem.atKey === true && path.length > 0) {
    const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
    if (isMap(parent)) {
      const pair = parent.items.find((item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(path.at(-1)));
      const range = isScalar(pair?.key) ? pair.key.range : undefined;
      if (range) {
        return range[0];
      }
    }
  }
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as Node | undefined;
    const range = node?.range as Range | null | undefined;
    if (range) {
      return length === path.length ? range[0] : offsetOf(document, { ...problem, path: path.slice(0, length), atKey: true });
    }
  }
  return 0;
}

function describeIssue(issue: z.core.$ZodIssue, document: Document, terms: Terms): YamlProblem[] {
  const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key));
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({
        path: [...path, key],
        atKey: true,
        message: terms.unknown?.([...path, key]) ?? unknownKey(path, key, terms.schema()),
      }));
    case 'invalid_key':
      return [{ path, atKey: true, message: `\`${String(path.at(-1))}\` ${issue.issues[0]?.message ?? 'is not a valid name'}` }];
    case 'invalid_value': {
      const value = document.getIn(path);
      const options = issue.values.map((option) => String(option));
      if (value === undefined) {
        return [{ path, message: `is missing: set one of ${options.join(', ')}` }];
      }
      return [{ path, message: `\`${String(value)}\` is not one of ${options.join(', ')}${didYouMean(String(value), options)}` }];
    }
    case 'invalid_type': {
      if (!document.hasIn(path)) {
        const advice = terms.missing?.[path.join('.')];
        return [{ path, message: `is missing${advice === undefined ? '' : `: ${advice}`}` }];
      }
      const expectation = issue.message.startsWith('Invalid') ? `expected ${typeName(issue.expected)}` : issue.message;
      return [{ path, message: `${expectation}, found ${describe(document.getIn(path))}` }];
    }
    case 'invalid_union': {
      // Report the mistakes in the alternative that has the same type as the value. They are more specific than "none of these".
      const meant = meantAlternative(issue.errors);
      if (meant?.some((inner) => inner.code !== 'invalid_format')) {
        return meant.flatMap((inner) =>
          describeIssue({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, document, terms),
        );
      }
      return [{ path, message: `${issue.message}, found ${describe(document.getIn(path))}` }];
    }
    case 'too_small':
      return [{ path, message: issue.origin === 'string' ? issue.message : `must be at least ${issue.minimum}` }];
    case 'too_big':
      return [{ path, message: issue.origin === 'number' || issue.origin === 'int' ? `must be at most ${issue.maximum}` : issue.message }];
    case 'invalid_format':
      return [
        { path, message: /^expected /.test(issue.message) ? `${issue.message}, found ${describe(document.getIn(path))}` : issue.message },
      ];
    case 'not_multiple_of':
    case 'invalid_element':
    case 'custom':
      return [{ path, message: issue.message }];
  }
}

/**
 * Returns the mistakes in the alternative that the user most likely meant. Returns undefined if no alternative has the type of the value.
 */
function meantAlternative<Issue extends z.core.$ZodIssue>(alternatives: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const withoutMistakeOf = (...codes: readonly string[]) =>
    alternatives.filter((issues) => issues.every(({ path, code }) => path.length > 0 || !codes.includes(code)));
  const [meant] = withoutMistakeOf('invalid_type', 'invalid_value').sort((one, other) => one.length - other.length);
  return meant ?? withoutMistakeOf('invalid_type')[0];
}

function typeName(expected: string): string {
  if (expected === 'object' || expected === 'record') {
    return 'a mapping';
  }
  if (expected === 'array') {
    return 'a list';
  }
  if (expected === 'int') {
    return 'a whole number';
  }
  if (expected === 'string') {
    return 'a string';
  }
  return `a ${expected}`;
}

function describe(value: unknown): string {
  if (value === undefined || value === null) {
    return 'nothing';
  }
  if (isMap(value)) {
    return 'a mapping';
  }
  if (Array.isArray(value) || (typeof value === 'object' && 'items' in value)) {
    return 'a list';
  }
  if (typeof value === 'object') {
    return 'a mapping';
  }
  const text = String(value);
  return `\`${text.length > 60 ? `${text.slice(0, 57)}...` : text}\``;
}

function unknownKey(path: readonly (string | number)[], key: string, root: JsonSchema): string {
  const known = Object.keys(schemaAt(path, root)?.properties ?? {});
  return `is not a known key${didYouMean(key, known)}${known.length > 0 ? ` (known: ${known.join(', ')})` : ''}`;
}

function didYouMean(word: string, candidates: readonly string[]): string {
  const meant = suggest(word, candidates);
  return meant === undefined ? '' : `; did you mean \`${meant}\`?`;
}

function schemaAt(path: readonly (string | number)[], root: JsonSchema): JsonSchema | undefined {
  let schema = root;
  for (const key of path) {
    const branches: readonly JsonSchema[] = [schema, ...(schema.anyOf ?? [])];
    const next: JsonSchema | boolean | undefined = branches
      .map((branch) => branch.properties?.[key] ?? branch.additionalProperties ?? branch.items)
      .find((candidate) => typeof candidate === 'object');
    if (typeof next !== 'object') {
      return undefined;
    }
    schema = next;
  }
  return [schema, ...(schema.anyOf ?? [])].find((branch) => branch.properties !== undefined) ?? schema;
}
