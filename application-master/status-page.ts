import type { JobStatus, TaskStatus } from '../conf/status.ts';
import { formatDuration, formatMemory } from '../conf/units.ts';

/** The job as one plain HTML page: no script, no style, every value escaped. */
export function statusPage(status: JobStatus): string {
  const metrics = Object.entries(status.metrics).map(([name, value]) => `<li>${escapeHtml(name)}: ${escapeHtml(String(value))}</li>`);
  const notices = status.notices.map((notice) => `<li>${escapeHtml(notice)}</li>`);
  const elapsed = (status.finishedAt ?? Date.now()) - status.startedAt;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="3">
<title>${escapeHtml(status.name)}: ${status.state}</title>
</head>
<body>
<h1>${escapeHtml(status.name)}</h1>
<p>${escapeHtml(status.applicationId)}, started by ${escapeHtml(status.user)}, for ${formatDuration(Math.max(0, elapsed))}</p>
<p><strong>${status.state}</strong> ${escapeHtml(status.message)}</p>
<p>Step ${status.step}, newest checkpoint at step ${status.checkpointStep}, generation ${status.generations}</p>
${list('Metrics', metrics)}${list('Notices', notices)}<table border="1">
<caption>Tasks</caption>
<thead><tr><th>task</th><th>state</th><th>node</th><th>generation</th><th>attempts</th><th>step</th><th>memory</th><th>CPU</th><th>failure</th></tr></thead>
<tbody>
${status.tasks.map(row).join('\n')}
</tbody>
</table>
<p>Checkpoints: ${escapeHtml(status.checkpointDir)}<br>Summaries: ${escapeHtml(status.summaryDir)}</p>
</body>
</html>
`;
}

function row(task: TaskStatus): string {
  const cells = [
    `${task.role}:${task.index}`,
    task.state,
    task.node ?? '',
    String(task.generation),
    String(task.attempts),
    String(task.step),
    task.usage === null ? '' : formatMemory(Math.round(task.usage.rssBytes / 2 ** 20)),
    task.usage === null ? '' : task.usage.cpuCores.toFixed(1),
    task.failure ?? '',
  ];
  return `<tr>${cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}</tr>`;
}

function list(title: string, items: readonly string[]): string {
  return items.length === 0 ? '' : `<h2>${title}</h2>\n<ul>${items.join('')}</ul>\n`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
