import type { TensorBoardStatus } from '../../conf/status/status.ts';
import { SLASH_SCRIPT, SLASH_SOURCE, sourceOf } from './tensorboard-page.ts';

const STYLE = `:root{color-scheme:light dark}
body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto 0;padding:0 1rem}
h1{font-size:1.25rem}
a{display:inline-block;padding:.5rem 1rem;border:1px solid;border-radius:.5rem}`;

/**
 * Polls this page. If the response no longer contains the marker element, TensorBoard or the job's page is available, and the script
 * reloads.
 */
const SCRIPT = `const shown=document.getElementById('tensorboard-waits');
const ask=async()=>{
try{
const answer=await fetch(location.href,{cache:'no-store',signal:AbortSignal.timeout(20000)});
if(answer.ok){
const next=new DOMParser().parseFromString(await answer.text(),'text/html').getElementById('tensorboard-waits');
if(next===null){location.reload();return}
if(shown.textContent!==next.textContent)shown.textContent=next.textContent;
}}catch{}
setTimeout(ask,2000)};
setTimeout(ask,2000);`;

export const WAITING_POLICY = `default-src 'none'; script-src ${SLASH_SOURCE} ${sourceOf(SCRIPT)}; style-src ${sourceOf(STYLE)}; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`;

const SENTENCES: Readonly<Record<TensorBoardStatus['state'], string>> = {
  off: 'The job does not use TensorBoard.',
  waiting: 'TensorBoard is waiting for its container.',
  starting: 'TensorBoard is starting.',
  ready: 'TensorBoard does not respond at the moment.',
  unavailable: 'TensorBoard is not available.',
};

/** Returns the HTML for the page shown at `/` until TensorBoard is ready. */
export function waitingPage({ state, message }: TensorBoardStatus): string {
  const sentence = message === '' ? SENTENCES[state] : `${SENTENCES[state]} ${message}`;
  return `<!doctype html>
<html lang="en">
<head>
<script>${SLASH_SCRIPT}</script>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Waiting for TensorBoard - tony-ts</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
<body>
<main>
<h1>Waiting for TensorBoard</h1>
<p id="tensorboard-waits" role="status">${escaped(sentence)}</p>
<p>This page opens TensorBoard automatically. The job continues in the meantime:</p>
<p><a href="tony/">Open the job's page</a></p>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
