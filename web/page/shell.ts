import { assetName } from './assets.ts';

/** The page has no inline scripts or styles, and loads nothing from other hosts. */
export const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const TITLES = { job: 'Job', history: 'Job history' } as const;

/**
 * Returns a page's HTML. The page's script loads and renders the content.
 * @param options.base the relative path from the page to the folder that contains `assets/` and `api/`. Pass '' for a page at `tony/`, or
 * 'tony/' for a page one folder above.
 */
export function pageShell({ base, page = 'job' }: { base: string; page?: 'job' | 'history' }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${TITLES[page]} - tony-ts</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${base}assets/${assetName('page.css')}">
<script type="module" src="${base}assets/${assetName(`${page}.js`)}"></script>
</head>
<body>
<div id="page"><p class="loading">Loading &hellip;</p></div>
<noscript><p class="loading">This page requires JavaScript. <code>tony-ts status</code> and <code>tony-ts logs</code> show the same information.</p></noscript>
</body>
</html>
`;
}
