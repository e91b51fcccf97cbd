import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/* Parses README.md, docs/ and the examples' READMEs for the tests. Supports only the Markdown that these pages use. */

export const ROOT = path.resolve(import.meta.dirname, '..');

export interface Document {
  /** Path relative to the package, e.g. `docs/training.md`. */
  readonly name: string;
  readonly text: string;
}

export interface Block {
  readonly document: string;
  /** Line number of the opening fence, counted from 1. */
  readonly line: number;
  /** The text after the opening fence; may be empty. */
  readonly language: string;
  /** The comment `<!-- ... -->` in the line before the block, or '' if there is none. Tutorials tell their tests with it what to do. */
  readonly note: string;
  readonly text: string;
}

export interface DocumentedCommand {
  readonly place: string;
  /** The command as written, without a trailing comment. */
  readonly text: string;
}

/** @param root the repository, or an installed package */
export async function readDocuments(root: string = ROOT): Promise<Document[]> {
  const pages = (await readdir(path.join(root, 'docs'), { recursive: true })).filter((name) => name.endsWith('.md')).sort();
  const examples = (await readdir(path.join(root, 'examples'))).sort();
  const names = ['README.md', ...pages.map((name) => `docs/${name}`), ...examples.map((name) => `examples/${name}/README.md`)];
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(path.join(root, name), 'utf8') })));
}

export function blocksOf({ name, text }: Document): Block[] {
  const blocks: Block[] = [];
  let open: (Omit<Block, 'document' | 'text'> & { readonly lines: string[] }) | null = null;
  const all = text.split('\n');
  for (const [index, line] of all.entries()) {
    const fence = /^\s*```(.*)$/.exec(line);
    if (fence === null) {
      open?.lines.push(line);
    } else if (open === null) {
      const note = /^<!-- (.*) -->$/.exec(all[index - 1] ?? '')?.[1] ?? '';
      open = { line: index + 1, language: (fence[1] ?? '').trim(), note, lines: [] };
    } else {
      const { lines, ...block } = open;
      blocks.push({ ...block, document: name, text: lines.join('\n') });
      open = null;
    }
  }
  if (open !== null) {
    throw new Error(`${name}:${open.line}: the block is not closed`);
  }
  return blocks;
}

/** `\` at the end of a line continues the command. */
export function commandsOf(block: Block): DocumentedCommand[] {
  const commands: DocumentedCommand[] = [];
  let begun: { readonly line: number; readonly parts: string[] } | null = null;
  for (const [index, raw] of block.text.split('\n').entries()) {
    const line = raw.replace(/(^|\s+)# .*$/, '').trimEnd();
    if (line === '' && begun === null) {
      continue;
    }
    begun ??= { line: block.line + 1 + index, parts: [] };
    begun.parts.push(line.replace(/\\$/, '').trim());
    if (line.endsWith('\\')) {
      continue;
    }
    commands.push({ place: `${block.document}:${begun.line}`, text: begun.parts.join(' ') });
    begun = null;
  }
  return commands;
}

/** Returns the text between single backticks, outside blocks. */
export function inlineCode({ text }: Document): string[] {
  return [...withoutBlocks(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code.replaceAll('\\|', '|'));
}

/** Returns the targets of `[text](target)` and `![text](target)`, outside blocks. */
export function linksOf({ text }: Document): string[] {
  const prose = withoutBlocks(text).replace(/`[^`\n]*`/g, '``');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
}

/** Returns the anchors of the headings, as GitHub generates them. */
export function anchorsOf({ text }: Document): Set<string> {
  const counts = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, title = ''] of withoutBlocks(text).matchAll(/^#{1,6}\s+(.*)$/gm)) {
    const slug = slugOf(title);
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

/** Returns the anchor of a heading, as GitHub generates it. */
export function slugOf(title: string): string {
  return title
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

function withoutBlocks(text: string): string {
  return text.replace(/^\s*```[\s\S]*?^\s*```\s*$/gm, '');
}
