import { type Document, isAlias, isMap, isScalar, LineCounter, visit } from 'yaml';
import type * as z from 'zod';
import { type ErrorCode, messageOf, TonyError } from '../platform/errors.ts';
import { isRecord } from '../platform/is-record.ts';
import { once } from '../platform/once.ts';
import { suggest } from '../platform/text/suggest.ts';
import { apiVersionProblem, isUserKey } from './api-version.ts';
import { isSlip, nearestPlaces, placeOfRole } from './key-places.ts';
import type { JsonSchema } from './values/json-schema.ts';
import { meantAlternative, tooBig, typeName } from './values/schema-issues.ts';
import { parseYaml, TOO_DEEP, YamlIndex, type YamlPath, type YamlTerms } from './yaml-document.ts';

/** Number of mistakes that an error lists. The heading contains the number of all mistakes. */
const MOST_LISTED = 50;
/** Length of the longest path that `CheckOptions.key` receives. An alias can make a file infinitely deep. */
const DEEPEST_KEY = 10;

export interface YamlProblem {
  readonly path: YamlPath;
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
  /**
   * Whether a file without keys is valid: `{}`, or only comments. The default is false. A file without any text is a mistake, because an
   * interrupted copy leaves one.
   */
  readonly mayBeEmpty?: boolean;
  /** Returns true for keys whose values keep their spelling. */
  readonly isText: YamlTerms['isText'];
}

/** Descriptions of the errors of `Document.toJS` that describe the parser instead of the file. */
const RESOLUTION: Readonly<Record<string, string>> = {
  'Excessive alias count indicates a resource exhaustion attack': 'the aliases of this file would expand to too many values',
  'Maximum call stack size exceeded': TOO_DEEP,
};

interface Terms {
  /** Returns the JSON Schema that contains the known keys. Called at most once per check, and only if there are unknown keys. */
  readonly schema: () => JsonSchema;
  /** Hints for missing keys, keyed by the path of the key. */
  readonly missing?: Readonly<Record<string, string>>;
  /** Returns the reason why this file does not support a key that exists in other files. Returns undefined for all other keys. */
  readonly unknown?: (path: YamlProblem['path']) => string | undefined;
}

export interface CheckOptions<T> extends Terms {
  readonly amend?: (written: unknown) => unknown;
  /**
   * Returns the mistake in a key that the schema accepts because users choose it, such as the name of a resource type. Called for all
   * keys, also if other values have mistakes.
   */
  readonly key?: (path: YamlPath) => string | undefined;
  /**
   * Returns mistakes that the schema cannot detect. If the schema has detected mistakes, the value lacks the keys that contain them, and
   * this function is called only if all these keys are independent.
   */
  readonly meaning?: (value: T) => readonly YamlProblem[];
  /** Returns true for keys that do not affect what `meaning` says about other keys. */
  readonly independent?: (path: YamlPath) => boolean;
  /** Returns true for unknown keys that are not mistakes if the file has no other mistakes. By default, all unknown keys are mistakes. */
  readonly ignored?: (path: YamlPath) => boolean;
  /** Called with a text about each unknown key that {@link CheckOptions.ignored} excuses. */
  readonly onIgnored?: (path: YamlPath, text: string) => void;
  /**
   * Returns the origin of a value that does not come from the file, for example `--set timeout=1`. Returns undefined for values from the
   * file.
   */
  readonly elsewhere?: (path: YamlProblem['path']) => string | undefined;
}

/** What the description of a mistake needs besides the mistake. */
interface Described extends Terms {
  readonly index: YamlIndex;
}

/** YAML file that a user has written. Reports all mistakes at once, each with its line, column and expected value. */
export class YamlFile {
  readonly document: Document;
  readonly #options: YamlFileOptions;
  readonly #lines = new LineCounter();

  /** @throws TonyError if the text is not valid YAML or does not contain a mapping */
  constructor(text: string, options: YamlFileOptions) {
    this.#options = options;
    const { document, mistakes } = parseYaml(text, { isText: options.isText, lineCounter: this.#lines });
    this.document = document;
    const { contents } = document;
    if (mistakes.length > 0) {
      // One mistake often causes several errors at the same position. The first one describes it best.
      const problems = new Map<string, string>();
      for (const { offset, message } of mistakes) {
        const at = this.#at(offset);
        problems.set(at, problems.get(at) ?? `${at}  ${message}`);
      }
      this.#fail([...problems.values()]);
    }
    const empty = options.mayBeEmpty === true && (contents === null || (isScalar(contents) && contents.value === null));
    if (empty && text.trim() === '') {
      this.#fail([`${this.#at(0)}  the file is empty: write \`{}\` if it shall set nothing`]);
    }
    if (!isMap(contents) && !empty) {
      this.#fail([`${this.#at(0)}  expected ${options.expected}, found ${describe(this.written())}`]);
    }
  }

  /**
   * Returns the content before validation, without the keys at the top level that belong to the user.
   * @throws TonyError if an alias cannot be resolved, or if there are too many expansions of aliases
   */
  written(): unknown {
    try {
      const content: unknown = this.document.toJS();
      return isRecord(content) ? Object.fromEntries(Object.entries(content).filter(([key]) => !isUserKey(key))) : content;
    } catch (error) {
      // parseDocument does not resolve aliases, but toJS does.
      return this.#fail([`${this.#at(this.#aliasAt())}  ${RESOLUTION[messageOf(error)] ?? messageOf(error)}`]);
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
    this.#refuseLostKeys();
    const written = this.written() ?? {};
    const index = new YamlIndex(this.document);
    const outdated = isRecord(written) ? apiVersionProblem(written.apiVersion) : null;
    if (outdated !== null) {
      // The other mistakes in a file for another version would mislead.
      return this.#fail([`${this.#at(index.offsetOf(['apiVersion']))}  apiVersion: ${outdated}`]);
    }
    const described = { ...options, index, schema: once(options.schema) };
    this.#removeIgnored(written, schema, described);
    const amended = options.amend === undefined ? written : options.amend(written);
    const parsed = schema.safeParse(amended);
    const wrongKeys = options.key === undefined ? [] : keyProblems(amended, options.key);
    const known = new Set(wrongKeys.map(({ path }) => pathText(path)));
    const others = parsed.success
      ? (options.meaning?.(parsed.data) ?? [])
      : withMeaning(
          amended,
          parsed.error.issues.flatMap((issue) => describeIssue(issue, described)),
          schema,
          options,
        );
    // The value of a wrong key is judged by the rules of another key, so only the mistake in the key is of use.
    const problems = [...wrongKeys, ...others.filter(({ path }) => !known.has(pathText(path)))];
    if (parsed.success && problems.length === 0) {
      return parsed.data;
    }
    const placed = problems.map((problem) => {
      const name = problem.path.length === 0 ? '' : `${problem.path.join('.')}: `;
      const elsewhere = options.elsewhere?.(problem.path);
      if (elsewhere !== undefined) {
        return { offset: Number.MAX_SAFE_INTEGER, text: `${elsewhere}  ${name}${problem.message}`, place: undefined };
      }
      const offset = index.offsetOf(problem.path, problem.atKey);
      const place = index.has(problem.path) ? `${offset} ${problem.message}` : undefined;
      return { offset, text: `${this.#at(offset)}  ${name}${problem.message}`, place };
    });
    // Roles share the keys that they take from elsewhere in the file, and the mistakes in them.
    const places = new Map(placed.map((problem) => [problem.place ?? problem, problem] as const).reverse());
    const distinct = placed.filter((problem) => places.get(problem.place ?? problem) === problem);
    // The schema may find one mistake by two rules with the same text.
    return this.#fail([...new Set(distinct.sort((a, b) => a.offset - b.offset).map((problem) => problem.text))]);
  }

  /** Removes the ignored keys, unless the file has mistakes: then they may be the cause, and the error lists them as well. */
  #removeIgnored<T>(content: unknown, schema: z.ZodType<T>, options: CheckOptions<T> & Described): void {
    const { ignored, onIgnored } = options;
    const issues = ignored === undefined ? [] : (schema.safeParse(content).error?.issues ?? []);
    const problems = issues.every(({ code }) => code === 'unrecognized_keys')
      ? issues.flatMap((issue) => describeIssue(issue, options))
      : [];
    if (!problems.every(({ path }) => ignored?.(path) === true)) {
      return;
    }
    for (const { path, message } of problems) {
      removeKey(content, path);
      onIgnored?.(path, `${this.#at(options.index.offsetOf(path, true))}  ${path.join('.')}: ${message}`);
    }
  }

  /** The schemas would drop a key called `__proto__` without an error. */
  #refuseLostKeys(): void {
    const problems: string[] = [];
    visit(this.document, {
      Pair: (_, { key }) => {
        if (isScalar(key) && key.value === '__proto__') {
          problems.push(`${this.#at(key.range?.[0] ?? 0)}  \`__proto__\` cannot be a key`);
        }
      },
    });
    if (problems.length > 0) {
      this.#fail(problems);
    }
  }

  #at(offset: number): string {
    const { line, col } = this.#lines.linePos(offset);
    return `${this.#options.file}:${line}:${col}`;
  }

  #fail(problems: readonly string[]): never {
    const { what, code } = this.#options;
    const heading = problems.length === 1 ? `The ${what} has a mistake:` : `The ${what} has ${problems.length} mistakes:`;
    const listed = problems.slice(0, MOST_LISTED).map((problem) => `  ${problem}`);
    const rest = problems.length > MOST_LISTED ? [`  ... and ${problems.length - MOST_LISTED} more`] : [];
    throw new TonyError(code, [heading, ...listed, ...rest].join('\n'));
  }
}

/** Adds the mistakes that the schema cannot detect to those that it has detected. */
function withMeaning<T>(
  value: unknown,
  problems: readonly YamlProblem[],
  schema: z.ZodType<T>,
  { meaning, independent }: CheckOptions<T>,
): readonly YamlProblem[] {
  const isApart = problems.length <= MOST_LISTED && problems.every(({ path }) => independent?.(path) === true);
  if (meaning === undefined || !isApart) {
    return problems;
  }
  const rest = schema.safeParse(problems.reduce((left, { path }) => withoutKey(left, path), value));
  const concerns = (one: YamlPath, other: YamlPath): boolean => one.every((key, at) => at >= other.length || key === other[at]);
  const further = (rest.success ? meaning(rest.data) : []).filter(({ path }) => problems.every((known) => !concerns(known.path, path)));
  return [...problems, ...further];
}

/** Returns a copy without the key, or without the list that contains it. */
function withoutKey(value: unknown, [key, ...below]: YamlPath): unknown {
  if (!isRecord(value) || key === undefined || !Object.hasOwn(value, key)) {
    return value;
  }
  const { [key]: inner, ...others } = value;
  return below.length === 0 || !isRecord(inner) ? others : { ...others, [key]: withoutKey(inner, below) };
}

/** Removes the key from the mapping that contains it. */
export function removeKey(content: unknown, path: YamlPath): void {
  const parent = path.slice(0, -1).reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), content);
  if (isRecord(parent)) {
    delete (parent as Record<string, unknown>)[String(path.at(-1))];
  }
}

function keyProblems(value: unknown, check: (path: YamlPath) => string | undefined, above: YamlPath = []): YamlProblem[] {
  if (typeof value !== 'object' || value === null || above.length === DEEPEST_KEY) {
    return [];
  }
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = [...above, Array.isArray(value) ? Number(key) : key];
    const message = check(path);
    return message === undefined ? keyProblems(inner, check, path) : [{ path, atKey: true, message }];
  });
}

function pathText(path: YamlPath): string {
  return path.join('\u0000');
}

function describeIssue(issue: z.core.$ZodIssue, terms: Described): YamlProblem[] {
  const { index } = terms;
  const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key));
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({
        path: [...path, key],
        atKey: true,
        message: unknownKey(path, key, terms),
      }));
    case 'invalid_key':
      return [{ path, atKey: true, message: `\`${String(path.at(-1))}\` ${issue.issues[0]?.message ?? 'is not a valid name'}` }];
    case 'invalid_value': {
      const value = index.valueAt(path);
      const options = issue.values.map((option) => String(option));
      if (value === undefined) {
        return [{ path, message: `is missing: set one of ${options.join(', ')}` }];
      }
      if (value === null) {
        return [{ path, message: `expected ${options.join(' or ')}, found nothing` }];
      }
      return [{ path, message: `${describeAt(index, path)} is not one of ${options.join(', ')}${didYouMean(String(value), options)}` }];
    }
    case 'invalid_type': {
      if (!index.has(path)) {
        const advice = terms.missing?.[path.join('.')];
        return [{ path, message: `is missing${advice === undefined ? '' : `: ${advice}`}` }];
      }
      const expectation = issue.message.startsWith('Invalid') ? `expected ${typeName(issue.expected)}` : issue.message;
      return [{ path, message: `${expectation}, found ${describeAt(index, path)}` }];
    }
    case 'invalid_union': {
      // Report the mistakes in the alternative that has the same type as the value. They are more specific than "none of these".
      const meant = meantAlternative(issue.errors);
      if (meant?.some(({ code, path: inner }) => code !== 'invalid_format' && (code !== 'invalid_value' || inner.length > 0))) {
        return meant.flatMap((inner) => describeIssue({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, terms));
      }
      const words = issue.errors.flat().flatMap((inner) => (inner.code === 'invalid_value' && inner.path.length === 0 ? inner.values : []));
      const suggestion = didYouMean(String(index.valueAt(path)), words.map(String));
      return [{ path, message: `${issue.message}, found ${describeAt(index, path)}${suggestion}` }];
    }
    case 'too_small':
      return [{ path, message: issue.origin === 'string' ? issue.message : `must be at least ${issue.minimum}` }];
    case 'too_big':
      return [{ path, message: tooBig(issue) }];
    case 'invalid_format':
      return [{ path, message: /^expected /.test(issue.message) ? `${issue.message}, found ${describeAt(index, path)}` : issue.message }];
    case 'not_multiple_of':
    case 'invalid_element':
    case 'custom':
      return [{ path, message: issue.message }];
  }
}

/** Quotes a scalar as the user has written it. */
function describeAt(index: YamlIndex, path: YamlPath): string {
  const node = index.nodeAt(path);
  return describe(isScalar(node) ? (node.value === null ? null : (node.source ?? node.value)) : node);
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

function unknownKey(path: readonly (string | number)[], key: string, { index, unknown, schema }: Described): string {
  const own = [...path, key];
  const parent = schemaAt(path, schema());
  const known = Object.keys(parent?.properties ?? {});
  const node = index.nodeAt(own);
  const keys = isMap(node) ? node.items.map((pair) => String(pair.key)) : [];
  if (!isSlip(key, known)) {
    const role = placeOfRole(own, keys, parent);
    const foreign = role === undefined ? unknown?.(own) : undefined;
    if (foreign !== undefined) {
      return foreign;
    }
    const places = role === undefined ? nearestPlaces(own, schema()) : `\`${role}\``;
    if (places !== undefined) {
      return `is not a known key; did you mean ${places}?`;
    }
  }
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
