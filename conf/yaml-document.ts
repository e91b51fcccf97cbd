import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type LineCounter,
  type Node,
  Pair,
  parseDocument,
  type Range,
  Scalar,
  visit,
  type YAMLMap,
} from 'yaml';

/** Position of a key: the names and list indexes that lead to it. */
export type YamlPath = readonly (string | number)[];

export interface YamlMistake {
  readonly offset: number;
  readonly message: string;
}

export interface ParsedYaml {
  readonly document: Document;
  readonly mistakes: readonly YamlMistake[];
}

export interface YamlTerms {
  /** Returns true for keys whose values are text, even if YAML would read them as numbers: `1.50` and `010` keep their spelling. */
  readonly isText: (path: YamlPath) => boolean;
  readonly lineCounter?: LineCounter;
}

/** Number of YAML nodes that merge keys may copy. Without a limit, a short file could expand to an arbitrarily large document. */
const MOST_MERGED = 10_000;

/** No key that holds text is nested more deeply. */
const DEEPEST_TEXT = 6;

export const TOO_DEEP = 'lists and mappings are nested too deeply here';

/** Descriptions of the mistakes that the parser reports in terms of the YAML specification. */
const SYNTAX: Readonly<Record<string, string>> = {
  BAD_INDENT: 'the indentation is wrong, or a closing bracket is missing',
  BLOCK_AS_IMPLICIT_KEY:
    'a key cannot follow a value in the same line: check the indentation of this line, and put text that contains a colon in quotes',
  BLOCK_IN_FLOW: 'an indented list or mapping cannot stand in brackets: check that every bracket above is closed',
  MULTILINE_IMPLICIT_KEY: 'this key has no colon after it, or the indentation of the next line is wrong',
  MULTIPLE_DOCS: 'a second document begins here: write each document to its own file',
  RESOURCE_EXHAUSTION: TOO_DEEP,
  TAB_AS_INDENT: 'YAML does not allow tabs for indentation: use spaces',
};

/**
 * Parses YAML in the way in which all files and options of tony-ts are read:
 * - Text keeps its spelling ({@link YamlTerms.isText}).
 * - Merge keys (`<<: *anchor`) are replaced by copies of the merged keys, so the document can be changed key by key.
 * - Unknown tags are mistakes, because they would otherwise change the value.
 */
export function parseYaml(text: string, { isText, lineCounter }: YamlTerms, path: YamlPath = []): ParsedYaml {
  // The parser would compare each key with all keys before it.
  const options = { prettyErrors: false, uniqueKeys: false, ...(lineCounter !== undefined && { lineCounter }) };
  const document: Document = parseDocument(text, options);
  // A file that is nested too deeply ends the parser early, so its other errors are consequences.
  const exhausted = document.errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION');
  const errors = exhausted === undefined ? document.errors : [exhausted];
  const mistakes = errors.map(({ pos, code, message }) => ({ offset: pos[0], message: SYNTAX[code] ?? message }));
  for (const { pos, code } of document.warnings) {
    if (code === 'TAG_RESOLVE_FAILED') {
      const [tag = '!'] = /^\S+/.exec(text.slice(pos[0])) ?? [];
      mistakes.push({ offset: pos[0], message: `\`${tag}\` is not a known YAML tag: put text that begins with ! in quotes` });
    }
  }
  if (mistakes.length === 0) {
    mistakes.push(...duplicateKeys(document));
  }
  if (mistakes.length === 0) {
    mistakes.push(...mergeKeys(document));
    keepText(aliasTargets(document), document.contents, path, isText);
  }
  return { document, mistakes };
}

function duplicateKeys(document: Document): YamlMistake[] {
  const mistakes: YamlMistake[] = [];
  visit(document, {
    Map: (_, { items }) => {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (isScalar(key) && keys.size === keys.add(key.value).size) {
          mistakes.push({ offset: key.range?.[0] ?? 0, message: 'this mapping already contains a key with this name' });
        }
      }
    },
  });
  return mistakes;
}

/**
 * Returns the nodes to which the aliases refer: the last node before the alias that has the anchor. `Alias.resolve` would visit the whole
 * document for each alias.
 */
function aliasTargets(document: Document): ReadonlyMap<Alias, Node> {
  const targets = new Map<Alias, Node>();
  const anchors = new Map<string, Node>();
  visit(document, {
    Node: (_, node) => {
      if (isAlias(node)) {
        const target = anchors.get(node.source);
        if (target !== undefined) {
          targets.set(node, target);
        }
      } else if (node.anchor !== undefined) {
        anchors.set(node.anchor, node);
      }
    },
  });
  return targets;
}

/** Replaces values that YAML reads as numbers or booleans with the text that the user has written. */
function keepText(targets: ReadonlyMap<Alias, Node>, node: unknown, path: YamlPath, isText: YamlTerms['isText']): void {
  if (isScalar(node) && isText(path)) {
    keepSpelling(node);
  }
  if (path.length >= DEEPEST_TEXT || !(isMap(node) || isSeq(node))) {
    return;
  }
  for (const [index, item] of node.items.entries()) {
    if (!isMap(node)) {
      keepText(targets, item, [...path, index], isText);
      continue;
    }
    const pair = item as Pair;
    const below = [...path, isScalar(pair.key) ? String(pair.key.value) : ''];
    const target = isAlias(pair.value) && isText(below) ? targets.get(pair.value) : undefined;
    if (isScalar(target)) {
      pair.value = copyOf(target);
    }
    keepText(targets, pair.value, below, isText);
  }
}

function keepSpelling(scalar: Scalar): void {
  if (scalar.source !== undefined && scalar.value !== null && typeof scalar.value !== 'string') {
    scalar.value = scalar.source;
    delete scalar.tag;
  }
}

/** Replaces all merge keys. Keys of the mapping itself take precedence, then those of the mapping that comes first in the list. */
function mergeKeys(document: Document): YamlMistake[] {
  const mistakes: YamlMistake[] = [];
  const targets = aliasTargets(document);
  let merged = 0;
  const merge = (map: YAMLMap): void => {
    const at = map.items.findIndex(({ key }) => isScalar(key) && key.type === 'PLAIN' && key.source === '<<');
    const [pair] = at === -1 ? [] : map.items.splice(at, 1);
    if (pair === undefined) {
      return;
    }
    const offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? 0) : 0;
    for (const each of isSeq(pair.value) ? pair.value.items : [pair.value]) {
      const source = isAlias(each) ? (targets.get(each) ?? each.resolve(document)) : each;
      if (!isMap(source)) {
        mistakes.push({ offset, message: '`<<` copies the keys of another mapping: write `<<: *NAME`, where `&NAME` marks that mapping' });
        continue;
      }
      merge(source);
      for (const other of source.items) {
        if (map.has(other.key) || merged > MOST_MERGED) {
          continue;
        }
        // A mapping that stands after `<<` itself is not used elsewhere, so its values need no copies.
        const value = isAlias(each) ? copyOf(other.value) : (other.value as Node);
        visit(value, { Node: () => void merged++ });
        map.items.push(new Pair(copyOf(other.key), value));
      }
    }
    if (merged > MOST_MERGED) {
      mistakes.push({ offset, message: `merge keys (\`<<\`) may copy at most ${MOST_MERGED} values` });
    }
  };
  visit(document, { Map: (_, map) => merge(map) });
  return mistakes.slice(0, 1);
}

/** Returns a copy without anchors, because aliases would otherwise refer to the copy instead of the original. */
export function copyOf(node: unknown): Node {
  const copy = (isNode(node) ? node.clone() : new Scalar(node)) as Node;
  visit(copy, {
    Node: (_, each) => {
      if (!isAlias(each)) {
        delete each.anchor;
      }
    },
  });
  return copy;
}

/**
 * Finds the nodes of a document by their paths. Unlike `Document.getIn`, which searches each mapping from its first key, a look-up takes
 * constant time per key of the path. The document must not change.
 */
export class YamlIndex {
  readonly #document: Document;
  readonly #pairs = new Map<YAMLMap, ReadonlyMap<string, Pair>>();

  constructor(document: Document) {
    this.#document = document;
  }

  /** Returns whether the path exists, also without a value, as in `key:`. */
  has(path: YamlPath): boolean {
    const parent = this.nodeAt(path.slice(0, -1));
    const last = path.at(-1);
    return last === undefined || (isMap(parent) ? this.#pair(parent, last) !== undefined : isSeq(parent) && Number(last) in parent.items);
  }

  /** Returns the node at the path. Returns undefined if the path does not exist or leads through an alias. */
  nodeAt(path: YamlPath): unknown {
    let node: unknown = this.#document.contents;
    for (const key of path) {
      node = isMap(node) ? this.#pair(node, key)?.value : isSeq(node) ? node.items[Number(key)] : undefined;
    }
    return node;
  }

  valueAt(path: YamlPath): unknown {
    const node = this.nodeAt(path);
    return isScalar(node) ? node.value : node;
  }

  /**
   * Returns the position of the value. If `atKey` is true, returns the position of the key. If the path does not exist, returns the
   * position of the nearest existing parent.
   */
  offsetOf(path: YamlPath, atKey = false): number {
    for (let length = path.length; length > 0; length--) {
      const range =
        (length < path.length || atKey ? this.#keyRange(path.slice(0, length)) : undefined) ?? this.#range(path.slice(0, length));
      if (range) {
        return range[0];
      }
    }
    return 0;
  }

  #range(path: YamlPath): Range | null | undefined {
    return (this.nodeAt(path) as Node | null | undefined)?.range;
  }

  #keyRange(path: YamlPath): Range | null | undefined {
    const parent = this.nodeAt(path.slice(0, -1));
    const key = isMap(parent) ? this.#pair(parent, path.at(-1) ?? '')?.key : undefined;
    return isScalar(key) ? key.range : undefined;
  }

  #pair(map: YAMLMap, key: string | number): Pair | undefined {
    let pairs = this.#pairs.get(map);
    if (pairs === undefined) {
      pairs = new Map(map.items.map((pair) => [String(isScalar(pair.key) ? pair.key.value : pair.key), pair]));
      this.#pairs.set(map, pairs);
    }
    return pairs.get(String(key));
  }
}
