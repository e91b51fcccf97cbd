import { existsSync, statSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { ROOT } from '../documents.ts';

export interface SidebarEntry {
  readonly text: string;
  readonly link?: string;
  readonly items?: SidebarEntry[];
  readonly collapsed?: boolean;
}

/**
 * Returns the site's address for a link in a page.
 * @param href as written in the page: a URL, an anchor, or a path relative to the page
 * @param page path of the page, relative to the repository
 * @param files receives the paths of linked files that are not pages
 * @throws Error if the linked file does not exist
 */
export function pageUrl(href: string, page: string, files: Set<string>): string {
  if (/^[a-z]+:|^[#/]/i.test(href)) {
    return href;
  }
  const [file = '', anchor] = href.split('#');
  const name = path.join(path.dirname(page), decodeURIComponent(file));
  const suffix = anchor === undefined ? '' : `#${anchor}`;
  if (!existsSync(path.join(ROOT, name))) {
    throw new Error(`${page} links to ${name}, which does not exist`);
  }
  if (statSync(path.join(ROOT, name)).isDirectory()) {
    return `/${path.join(name, 'index.html')}${suffix}`;
  }
  if (name.endsWith('.md')) {
    return `/${name.replace(/(^|\/)README\.md$/, '$1index.md').replace(/\.md$/, '.html')}${suffix}`;
  }
  files.add(name);
  return `/${name}`;
}

/** Copies files from the repository to the site, with the same paths. */
export async function copyLinkedFiles(files: ReadonlySet<string>, site: string): Promise<void> {
  await Promise.all(
    [...files].map(async (name) => {
      const target = path.join(site, name);
      await mkdir(path.dirname(target), { recursive: true });
      await copyFile(path.join(ROOT, name), target);
    }),
  );
}

/**
 * Returns the sidebar: one group for each heading of docs/README.md, with its links. A line in bold begins a subgroup.
 * @param index text of docs/README.md
 */
export function sidebarOf(index: string): SidebarEntry[] {
  const groups = index.split(/^## /m).slice(1);
  return [
    { text: 'Overview', link: '/' },
    { text: 'All documents', link: '/docs/' },
    ...groups.map((group) => {
      const [title = '', ...rest] = group.split('\n');
      const parts = rest.join('\n').split(/^\*\*(.+)\*\*$/m);
      const items = linksIn(parts[0] ?? '');
      for (let part = 1; part < parts.length; part += 2) {
        items.push({ text: parts[part] ?? '', items: linksIn(parts[part + 1] ?? ''), collapsed: false });
      }
      return { text: title, items };
    }),
  ];
}

function linksIn(text: string): SidebarEntry[] {
  return [...text.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)].map(([, title = '', target = '']) => ({
    text: title.replace(/^[a-z](?!ob\.yaml)/, (letter) => letter.toUpperCase()),
    link: pageUrl(target, 'docs/README.md', new Set()),
  }));
}
