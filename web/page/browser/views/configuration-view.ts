import { h } from 'preact';
import { useMemo } from 'preact/hooks';
import { choice } from '../parts/controls.ts';
import { Copy } from '../parts/copy.ts';
import { usePreference } from '../parts/environment.ts';
import { type Content, html } from '../parts/html.ts';
import type { JobResources } from '../parts/job-resources.ts';
import { usePolledResource } from '../parts/polled-resource.ts';
import { toYaml } from '../parts/yaml.ts';

export function Configuration({ feeds }: { feeds: JobResources }): Content {
  const { data, problem } = usePolledResource(feeds.configuration);
  const [format, setFormat] = usePreference<string>('configuration.format', 'yaml');
  const text = useMemo(() => (format === 'json' ? `${JSON.stringify(data, null, 2)}\n` : toYaml(data)), [data, format]);
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the configuration …' : `The configuration cannot be read: ${problem.text}`}</p>`;
  }
  return html`
    <div class="controls">
      ${choice('Format', format, setFormat, { yaml: 'YAML', json: 'JSON' })}
      ${h(Copy, { text, what: 'configuration' })}
    </div>
    <p class="remark">The job as it was submitted, with all defaults filled in and without secrets.</p>
    <pre class="card text configuration" tabIndex=${0} role="region" aria-label="Configuration">${text}</pre>`;
}
