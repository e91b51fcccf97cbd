import { runInNewContext } from 'node:vm';
import type { AnyNode, Pattern, Program } from 'acorn';
import { messageOf, TonyError } from '../../platform/errors.ts';

/**
 * Turns a function's source into a self-contained module. Names from the surrounding code would be undefined in the tasks: parsing finds
 * them, and such functions are rejected.
 */

export const FUNCTION_EXPORT = 'run';

/** The helper with which TypeScript compilers wrap nested functions to keep their names. */
const NAME_KEEPER = '__name';

/** Globals of Node in addition to those of JavaScript. */
const NODE_GLOBALS = [
  'AbortController AbortSignal Blob BroadcastChannel Buffer CompressionStream CountQueuingStrategy Crypto CryptoKey CustomEvent DOMException',
  'DecompressionStream Event EventTarget File FormData Headers MessageChannel MessageEvent MessagePort Performance ReadableStream Request Response',
  'SubtleCrypto TextDecoder TextEncoder TransformStream URL URLSearchParams WebAssembly WritableStream atob btoa clearImmediate clearInterval',
  'clearTimeout console crypto fetch global performance process queueMicrotask setImmediate setInterval setTimeout structuredClone undefined',
].flatMap((line) => line.split(' '));

/**
 * @param source the result of `function.toString()`
 * @throws TonyError FUNCTION_INVALID naming the outer names that the function uses
 */
export async function moduleOf(source: string): Promise<string> {
  const { parse } = await import('acorn');
  const parsed = (text: string): AnyNode | null => {
    const program: Program = parse(text, { ecmaVersion: 'latest', sourceType: 'module', allowAwaitOutsideFunction: false });
    const [statement, ...more] = program.body;
    return statement?.type === 'ExpressionStatement' && more.length === 0 ? statement.expression : null;
  };
  let wrapped = `(${source}\n);\n`;
  let expression: AnyNode | null;
  try {
    expression = parsed(wrapped);
  } catch (error) {
    // A shorthand method, `{ train(cluster) { ... } }`, is valid only within an object.
    expression = methodIn(source, parsed);
    if (expression === null) throw unsendable(source, messageOf(error));
    wrapped = `Object.values({${source}\n})[0];\n`;
  }
  if (expression?.type !== 'ArrowFunctionExpression' && expression?.type !== 'FunctionExpression') {
    throw unsendable(source, 'it is no function expression');
  }
  const free = freeNames(expression).filter((name) => name !== NAME_KEEPER);
  if (free.length > 0) {
    throw new TonyError(
      'FUNCTION_INVALID',
      `the function uses ${free.join(', ')} from outside of itself, and would not find that where it runs`,
      {
        hint:
          'Hand it over as an argument: run(options, fn, ...args); import modules within the function (await import(...)); or export the function from ' +
          "a module, and name that: run(options, { module: new URL('./train.ts', import.meta.url), export: 'train' }).",
      },
    );
  }
  const keeper = source.includes(NAME_KEEPER) ? `const ${NAME_KEEPER} = (target) => target;\n` : '';
  return `${keeper}export const ${FUNCTION_EXPORT} = ${wrapped}`;
}

function methodIn(source: string, parsed: (text: string) => AnyNode | null): AnyNode | null {
  try {
    const object = parsed(`({${source}\n});`);
    const [property, ...more] = object?.type === 'ObjectExpression' ? object.properties : [];
    return property?.type === 'Property' && property.method && more.length === 0 ? property.value : null;
  } catch {
    return null;
  }
}

function unsendable(source: string, why: string): TonyError {
  return new TonyError('FUNCTION_INVALID', `the function cannot be sent by its text (${firstLine(source)}): ${why}`);
}

function firstLine(source: string): string {
  const [line = ''] = source.split('\n');
  return line.length > 60 ? `${line.slice(0, 60)}...` : line;
}

/** Names that a function uses without defining them, in order; also `this`, `import.meta` and files imported by relative paths. */
export function freeNames(tree: AnyNode): string[] {
  const known = new Set([...(runInNewContext('Object.getOwnPropertyNames(globalThis)') as string[]), ...NODE_GLOBALS]);
  const found = new Set<string>();
  new Scopes((name) => {
    if (!known.has(name)) found.add(name);
  }).visit(tree, { names: new Set(), outer: null, hasThis: false });
  return [...found];
}

interface Scope {
  readonly names: Set<string>;
  readonly outer: Scope | null;
  /** Whether the scope is in a function with its own `this`. */
  readonly hasThis: boolean;
}

class Scopes {
  readonly #onFree: (name: string) => void;

  constructor(onFree: (name: string) => void) {
    this.#onFree = onFree;
  }

  visit(node: AnyNode, scope: Scope): void {
    switch (node.type) {
      case 'Identifier':
        this.#refer(node.name, scope);
        return;
      case 'ThisExpression':
      case 'Super':
        if (!scope.hasThis) this.#onFree(node.type === 'Super' ? 'super' : 'this');
        return;
      case 'MetaProperty':
        if (node.meta.name === 'import') this.#onFree('import.meta');
        return;
      case 'ImportExpression':
        if (node.source.type === 'Literal' && /^\.{0,2}\//.test(String(node.source.value))) this.#onFree(`import(${node.source.raw})`);
        this.visit(node.source, scope);
        return;
      case 'FunctionDeclaration':
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        this.#visitFunction(node, scope);
        return;
      case 'ClassDeclaration':
      case 'ClassExpression':
        this.#visitChildren(node, inner(scope, node.id ? [node.id.name] : [], true), ['id']);
        return;
      case 'BlockStatement':
      case 'StaticBlock':
        this.#visitChildren(node, inner(scope, blockNames(node.body)));
        return;
      case 'SwitchStatement':
        this.visit(node.discriminant, scope);
        this.#visitAll(node.cases, inner(scope, blockNames(node.cases.flatMap(({ consequent }) => consequent))));
        return;
      case 'ForStatement':
      case 'ForInStatement':
      case 'ForOfStatement': {
        const head = node.type === 'ForStatement' ? node.init : node.left;
        this.#visitChildren(node, inner(scope, head?.type === 'VariableDeclaration' ? blockNames([head]) : []));
        return;
      }
      case 'CatchClause':
        this.#visitChildren(node, inner(scope, node.param ? patternNames(node.param) : []));
        return;
      case 'MemberExpression':
        this.visit(node.object, scope);
        if (node.computed) this.visit(node.property, scope);
        return;
      case 'Property':
      case 'MethodDefinition':
      case 'PropertyDefinition':
        if (node.computed) this.visit(node.key, scope);
        if (node.value) this.visit(node.value, scope);
        return;
      case 'LabeledStatement':
        this.visit(node.body, scope);
        return;
      case 'BreakStatement':
      case 'ContinueStatement':
        return;
      default:
        this.#visitChildren(node, scope);
    }
  }

  #visitFunction(
    node: Extract<AnyNode, { type: 'FunctionDeclaration' | 'FunctionExpression' | 'ArrowFunctionExpression' }>,
    scope: Scope,
  ): void {
    const isArrow = node.type === 'ArrowFunctionExpression';
    const own = [...node.params.flatMap(patternNames), ...(isArrow ? [] : ['arguments']), ...(node.id ? [node.id.name] : [])];
    const body = node.body.type === 'BlockStatement' ? [...varNames(node.body), ...blockNames(node.body.body)] : [];
    const inside = inner(scope, [...own, ...body], scope.hasThis || !isArrow);
    this.#visitAll(node.params, inside);
    this.visit(node.body, inside);
  }

  #refer(name: string, scope: Scope): void {
    for (let at: Scope | null = scope; at !== null; at = at.outer) if (at.names.has(name)) return;
    this.#onFree(name);
  }

  #visitAll(nodes: readonly (AnyNode | null)[], scope: Scope): void {
    for (const node of nodes) if (node !== null) this.visit(node, scope);
  }

  #visitChildren(node: AnyNode, scope: Scope, except: readonly string[] = []): void {
    for (const [name, child] of Object.entries(node)) if (!except.includes(name)) this.#visitAll(nodesIn(child), scope);
  }
}

function nodesIn(child: unknown): AnyNode[] {
  if (Array.isArray(child)) return child.flatMap(nodesIn);
  return typeof child === 'object' && child !== null && 'type' in child && typeof child.type === 'string' ? [child as AnyNode] : [];
}

function inner(outer: Scope, names: readonly string[], hasThis = outer.hasThis): Scope {
  return { names: new Set(names), outer, hasThis };
}

/** Names that the statements declare in their own block. */
function blockNames(statements: readonly AnyNode[]): string[] {
  return statements.flatMap((statement) => {
    switch (statement.type) {
      case 'VariableDeclaration':
        return statement.declarations.flatMap(({ id }) => patternNames(id));
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
        return statement.id ? [statement.id.name] : [];
      default:
        return [];
    }
  });
}

/** Names that `var` declares in a function, excluding nested functions. */
function varNames(node: AnyNode): string[] {
  if (node.type === 'FunctionDeclaration' || node.type === 'FunctionExpression' || node.type === 'ArrowFunctionExpression') return [];
  const own = node.type === 'VariableDeclaration' && node.kind === 'var' ? blockNames([node]) : [];
  return [...own, ...Object.values(node).flatMap(nodesIn).flatMap(varNames)];
}

function patternNames(pattern: Pattern): string[] {
  switch (pattern.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => patternNames(property.type === 'Property' ? property.value : property.argument));
    case 'ArrayPattern':
      return pattern.elements.flatMap((element) => (element === null ? [] : patternNames(element)));
    case 'RestElement':
      return patternNames(pattern.argument);
    case 'AssignmentPattern':
      return patternNames(pattern.left);
    case 'MemberExpression':
      return [];
  }
}
