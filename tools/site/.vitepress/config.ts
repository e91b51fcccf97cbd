import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitepress';
import description from '../../../package.json' with { type: 'json' };
import { ROOT, slugOf } from '../../documents.ts';
import { copyLinkedFiles, pageUrl, sidebarOf } from '../pages.ts';

/*
 * The site shows README.md, docs/ and the examples' READMEs as they are. The files stay readable on GitHub and in an editor: links are
 * relative paths of files, anchors are those of GitHub, and no page has front matter.
 */

const index = readFileSync(path.join(ROOT, 'docs', 'README.md'), 'utf8');
/** Linked files that are not pages, such as JSON schemas and programs. The build copies them to the site. */
const linked = new Set<string>();

// VitePress reads the configuration from a default export.
// biome-ignore lint/style/noDefaultExport: required by vitepress
export default defineConfig({
  title: 'tony-ts',
  description: description.description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  srcDir: ROOT,
  srcExclude: readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !['docs', 'examples'].includes(entry.name))
    .map(({ name }) => `${name}/**`),
  ignoreDeadLinks: [(link) => linked.has(link.slice(1))],
  outDir: path.join(ROOT, '.cache', 'site'),
  cacheDir: path.join(ROOT, '.cache', 'vitepress'),
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  buildEnd: ({ outDir }) => copyLinkedFiles(linked, outDir),
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => {
      md.core.ruler.push('links', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet('href');
          if (token.type === 'link_open' && href !== null) {
            token.attrSet('href', pageUrl(href, path.relative(ROOT, env.realPath ?? env.path), linked));
          }
        }
      });
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: sidebarOf(index),
    nav: [
      { text: 'I train', link: '/docs/#i-train' },
      { text: 'I run the cluster', link: '/docs/#i-run-the-cluster' },
      { text: 'I contribute', link: '/docs/#i-contribute' },
      { text: description.version, link: '/CHANGELOG' },
    ],
  },
});
