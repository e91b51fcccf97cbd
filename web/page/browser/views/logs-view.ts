import { h } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import type { LogName } from '../../../job-view.ts';
import { choice, searchField } from '../parts/controls.ts';
import { Copy } from '../parts/copy.ts';
import { usePreference } from '../parts/environment.ts';
import { formatBytes } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import { isOver, type JobResources } from '../parts/job-resources.ts';
import { plainText } from '../parts/plain-text.ts';
import { usePolledResource } from '../parts/polled-resource.ts';
import { formatRoute } from '../parts/route.ts';
import { nameOf } from './task-table.ts';

const FILES: readonly LogName[] = ['stdout', 'stderr', 'tony.log'];
const FIRST_BYTES = 64 * 1024;
const MOST_BYTES = 1024 * 1024;
const MASTER = 'master';

/** @param rest the task and the file, from the route. */
export function Logs({ status, feeds, rest }: { status: JobInfo; feeds: JobResources; rest: readonly string[] }): Content {
  const failed = status.failure === null ? null : nameOf(status.failure);
  const first = failed ?? (status.tasks[0] === undefined ? MASTER : nameOf(status.tasks[0]));
  const [task = first] = rest;
  const file = FILES.find((each) => each === rest[1]) ?? (task === MASTER ? 'tony.log' : task === failed ? 'stderr' : 'stdout');
  const [following, setFollow] = usePreference<boolean>('log.follow', true);
  const [wrap, setWrap] = usePreference<boolean>('log.wrap', true);
  const [words, setWords] = useState('');
  const [tail, setTail] = useState(FIRST_BYTES);
  const follow = following && !isOver(status);
  const open = (nextTask: string, nextFile: LogName) => {
    location.hash = formatRoute('logs', nextTask, nextTask === MASTER && nextFile === 'stdout' ? 'tony.log' : nextFile);
  };
  const names = Object.fromEntries([...status.tasks.map((each) => [nameOf(each), nameOf(each)]), [MASTER, 'master (ApplicationMaster)']]);
  const shown = task in names ? names : { ...names, [task]: task };
  return html`
    <div class="controls">
      ${choice('Task', task, (next) => open(next, file), shown)}
      <fieldset class="segments"><legend class="off-screen">File</legend>
        ${FILES.map(
          (each) =>
            html`<label key=${each}><input type="radio" name="log-file" value=${each} checked=${each === file} onChange=${() => open(task, each)} /><span>${each}</span></label>`,
        )}
      </fieldset>
      <label class="check"><input type="checkbox" checked=${follow} disabled=${isOver(status)} onChange=${() => setFollow(!following)} /> follow</label>
      <label class="check"><input type="checkbox" checked=${wrap} onChange=${() => setWrap(!wrap)} /> wrap lines</label>
      ${searchField('Lines containing', words, setWords, 'any text')}
    </div>
    ${h(Log, { key: `${task}/${file}/${tail}/${follow}`, feeds, status, task, file, tail, follow, wrap, words, onMore: () => setTail(Math.min(MOST_BYTES, tail * 4)) })}`;
}

interface LogProps {
  readonly feeds: JobResources;
  readonly status: JobInfo;
  readonly task: string;
  readonly file: LogName;
  readonly tail: number;
  readonly follow: boolean;
  readonly wrap: boolean;
  readonly words: string;
  readonly onMore: () => void;
}

function Log({ feeds, status, task, file, tail, follow, wrap, words, onMore }: LogProps): Content {
  const feed = useMemo(() => feeds.log({ task, file, tail, follow }), []);
  const { data, problem } = usePolledResource(feed);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const text = useMemo(() => (data === null || data === 'none' ? '' : plainText(data.text)), [data]);
  const lines = useMemo(() => withWords(text, words), [text, words]);
  // A layout effect scrolls before the browser paints. Otherwise, the beginning of the new text would be visible for a moment.
  useLayoutEffect(() => {
    const element = box.current;
    // If the user has scrolled back, new text does not change the scroll position.
    if (element !== null && atEnd.current) {
      element.scrollTop = element.scrollHeight;
    }
  }, [lines, wrap]);
  const onScroll = (event: Event) => {
    const element = event.target as HTMLElement;
    atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  };
  const elsewhere = html`<code>tony-ts logs ${status.id} ${task === MASTER ? '' : task}</code>`;
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the log …' : html`The log cannot be shown: ${problem.text} Try ${elsewhere}.`}</p>`;
  }
  if (data === 'none') {
    return html`<p class="empty">${task} has no ${file}${isOver(status) ? html` on this server. Try ${elsewhere}` : ' yet'}.</p>`;
  }
  return html`
    <div class="log card">
      <div class="log-head">
        <span class="aside">${data.skipped > 0 ? `first ${formatBytes(data.skipped)} not shown` : 'from the beginning'}</span>
        ${data.skipped > 0 && tail < MOST_BYTES && html`<button type="button" class="small" onClick=${onMore}>Show more</button>`}
        <span class="spring"></span>
        ${nodeLink(status, task)}
        ${h(Copy, { text: lines, what: `${file} of ${task}` })}
      </div>
      <pre ref=${box} class=${wrap ? 'text wrap' : 'text'} tabIndex=${0} role="region" aria-label=${`${file} of ${task}`} onScroll=${onScroll}>${
        lines === '' ? html`<span class="aside">${text === '' ? 'The log is empty.' : 'No line contains this text.'}</span>` : lines
      }</pre>
    </div>`;
}

function withWords(text: string, words: string): string {
  const wanted = words.trim().toLowerCase();
  if (wanted === '') {
    return text;
  }
  return text
    .split('\n')
    .filter((line) => line.toLowerCase().includes(wanted))
    .join('\n');
}

/** Links to the container's logs on the NodeManager's web server. Some browsers cannot reach this server. */
function nodeLink({ tasks, user }: JobInfo, name: string): Content {
  const task = tasks.find((each) => nameOf(each) === name);
  if (!task?.nodeHttp || task.containerId === null) {
    return null;
  }
  const href = `http://${encodeURI(task.nodeHttp)}/node/containerlogs/${encodeURIComponent(task.containerId)}/${encodeURIComponent(user)}`;
  return html`<a class="aside" href=${href} rel="noreferrer">view on its node</a>`;
}
