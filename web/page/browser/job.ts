import { Component, h } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import type { JobInfo } from '../../../conf/status/job-info.ts';
import { useRoute } from './parts/environment.ts';
import { type Content, html, mount } from './parts/html.ts';
import { JobResources } from './parts/job-resources.ts';
import { usePolledResource } from './parts/polled-resource.ts';
import type { Route } from './parts/route.ts';
import { Tabs } from './parts/tabs.ts';
import { alerts, connectionBanner } from './views/alerts.ts';
import { Charts } from './views/charts-view.ts';
import { Configuration } from './views/configuration-view.ts';
import { Events } from './views/events-view.ts';
import { Header } from './views/header.ts';
import { Logs } from './views/logs-view.ts';
import { Overview } from './views/overview.ts';
import { Resources } from './views/resources-view.ts';
import { Tasks } from './views/tasks-view.ts';
import { TimelineView } from './views/timeline-view.ts';

const FIRST: Route = { section: 'overview', rest: [] };

function JobPage(): Content {
  const feeds = useMemo(() => new JobResources(), []);
  const reading = usePolledResource(feeds.job);
  const route = useRoute(FIRST);
  const status = reading.data;
  useEffect(() => {
    if (status !== null) {
      document.title = `${status.state} · ${status.name}`;
    }
  }, [status?.state, status?.name]);
  if (status === null) {
    return html`<main class="wide"><p class="loading" role="status">${
      reading.problem === null
        ? 'Loading the job …'
        : `${reading.problem.text}${reading.problem.kind === 'refused' ? '' : ' Trying again …'}`
    }</p></main>`;
  }
  return html`
    <a class="skip" href="#" onClick=${skip}>Skip to the content</a>
    <p class="off-screen" role="status" aria-live="polite">State of the job: ${status.state}.</p>
    <div class="banner" role="alert">${connectionBanner(reading)}</div>
    ${h(Header, { status })}
    <main class="wide" id="content" tabIndex=${-1}>
      ${alerts(status)}
      ${h(Tabs, { route, children: h(Guard, { key: route.section, children: view(route, status, feeds) }) })}
    </main>
    <footer class="wide aside">${status.id} · ApplicationMaster attempt ${status.masterAttempt} · generation ${status.generations}</footer>`;
}

function view({ section, rest }: Route, status: JobInfo, feeds: JobResources): Content {
  switch (section) {
    case 'overview':
      return h(Overview, { status, feeds });
    case 'charts':
      return h(Charts, { feeds });
    case 'resources':
      return h(Resources, { status, feeds });
    case 'tasks':
      return h(Tasks, { key: rest[0] ?? '', status, first: rest[0] ?? '' });
    case 'timeline':
      return h(TimelineView, { status, feeds });
    case 'logs':
      return h(Logs, { status, feeds, rest });
    case 'events':
      return h(Events, { feeds });
    case 'configuration':
      return h(Configuration, { feeds });
  }
}

function skip(event: MouseEvent): void {
  // The URL fragment selects a section, so this link cannot use a fragment.
  event.preventDefault();
  document.getElementById('content')?.focus();
}

/** Shows an error message in place of a view that fails to render. The rest of the page keeps working. */
class Guard extends Component<{ children: Content }, { error: unknown }> {
  override state = { error: null };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error });
  }

  override render(): Content {
    const { error } = this.state;
    return error === null ? this.props.children : html`<p class="empty">This view cannot be displayed: ${String(error)}</p>`;
  }
}

mount(JobPage);
