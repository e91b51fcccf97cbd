import { expect, test } from 'vitest';
import { readDocuments } from '../documents.ts';
import { pageUrl, type SidebarEntry, sidebarOf } from './pages.ts';

test('links become addresses of the site, and files that are not pages are collected', () => {
  const files = new Set<string>();
  const url = (href: string, page = 'docs/admin/decide.md') => pageUrl(href, page, files);
  expect(url('../security.md#sessions')).toBe('/docs/security.html#sessions');
  expect(url('README.md', 'docs/faq.md')).toBe('/docs/index.html');
  expect(url('../../examples/mnist')).toBe('/examples/mnist/index.html');
  expect(url('#ports')).toBe('#ports');
  expect(url('https://example.com/a.md')).toBe('https://example.com/a.md');
  expect(url('../../conf/tony-site.yaml')).toBe('/conf/tony-site.yaml');
  expect([...files]).toEqual(['conf/tony-site.yaml']);
  expect(() => url('lost.md')).toThrow('docs/admin/decide.md links to docs/admin/lost.md, which does not exist');
});

test('the sidebar groups the links of docs/README.md', () => {
  const [, , group] = sidebarOf('# All\n\n## I train\n\n**How to**\n\n| [from TonY](moving-from-tony.md) | [job.yaml](job-yaml.md) |\n');
  expect(group).toEqual({
    text: 'I train',
    items: [
      {
        text: 'How to',
        collapsed: false,
        items: [
          { text: 'From TonY', link: '/docs/moving-from-tony.html' },
          { text: 'job.yaml', link: '/docs/job-yaml.html' },
        ],
      },
    ],
  });
});

test('docs/README.md lists every page of docs/ except the single decisions', async () => {
  const documents = await readDocuments();
  const links = (entries: readonly SidebarEntry[]): string[] =>
    entries.flatMap(({ link, items = [] }) => [...(link === undefined ? [] : [link]), ...links(items)]);
  const listed = links(sidebarOf(documents.find(({ name }) => name === 'docs/README.md')?.text ?? ''));
  const pages = documents.map(({ name }) => name).filter((name) => /^docs\/(?!decisions\/|README\.md)/.test(name));
  expect(pages.length).toBeGreaterThan(30);
  expect(pages.filter((name) => !listed.includes(pageUrl(name, 'x.md', new Set())))).toEqual([]);
});
