import { useState } from 'preact/hooks';
import { describeEntry, nodeBesideText, subjectOf } from '../../../../conf/status/event-text.ts';
import type { HistoryEntry } from '../../../../conf/status/status.ts';
import { containsWords, searchField } from '../parts/controls.ts';
import { formatMoment, formatNumberOf } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import type { JobResources } from '../parts/job-resources.ts';
import { plainText } from '../parts/plain-text.ts';
import { usePolledResource } from '../parts/polled-resource.ts';

/** The number of rows that browsers lay out without a visible delay. */
const ROWS_PER_PAGE = 300;

export function Events({ feeds }: { feeds: JobResources }): Content {
  const { data, problem } = usePolledResource(feeds.events);
  const [filter, setFilter] = useState('');
  const [most, setMost] = useState(ROWS_PER_PAGE);
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the events …' : `The events cannot be read: ${problem.text}`}</p>`;
  }
  const found = data.entries.filter((entry) => containsWords(textOf(entry), filter));
  const shown = found.slice(-most).reverse();
  return html`
    <div class="controls">
      ${searchField('Filter', filter, setFilter, 'event, task, node, text')}
      <span class="aside" role="status">${formatNumberOf(found.length, 'event', data.entries.length)}, newest first</span>
    </div>
    <div class="table-box card">
      <table class="plain events">
        <caption class="off-screen">Events</caption>
        <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Task</th><th scope="col" class="number">Generation</th><th scope="col">Detail</th></tr></thead>
        <tbody>${shown.map((entry) => {
          const node = nodeBesideText(entry);
          return html`<tr>
            <td class="figure">${formatMoment(entry.at)}</td>
            <td><code>${entry.type}</code></td>
            <td>${subjectOf(entry)}</td>
            <td class="number">${entry.generation ?? ''}</td>
            <td class="detail">${plainText(describeEntry(entry))}${node !== undefined && html` <span class="aside">${node}</span>`}</td>
          </tr>`;
        })}</tbody>
      </table>
      ${found.length === 0 && html`<p class="empty">${data.entries.length === 0 ? 'No events yet.' : 'No event matches the filter.'}</p>`}
    </div>
    ${found.length > most && html`<p><button type="button" onClick=${() => setMost(most + ROWS_PER_PAGE)}>Show older events</button></p>`}`;
}

function textOf(entry: HistoryEntry): string {
  return `${entry.type} ${subjectOf(entry)} ${entry.node ?? ''} ${entry.containerId ?? ''} ${describeEntry(entry)}`;
}
