import { Component, h } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import type { JobStatus } from '../../../conf/status.ts';
import { alerts, connectionBanner } from './alerts.ts';
import { Charts } from './charts-view.ts';
import { Configuration } from './configuration-view.ts';
import { useRoute } from './environment.ts';
import { Events } from './events-view.ts';
import { useFeed } from './feed.ts';
import { Header } from './header.ts';
import { type Content, html } from './html.ts';
import { JobFeeds } from './job-feeds.ts';
import { Logs } from './logs-view.ts';
import { Overview } from './overview.ts';
import { Resources } from './resources-view.ts';
import type { Route } from './route.ts';
import { Tabs } from './tabs.ts';
import { Tasks } from './tasks-view.ts';
import { TimelineView } from './timeline-view.ts';

const FIRST: Route = { section: 'overview', rest: [] };

export function JobPage(): Content {
  const feeds = useMemo(() => new JobFeeds(), []);
  const reading = useFeed(feeds.job);
  const route = useRoute(FIRST);
  const status = reading.data;
  useEffect(() => {
    if (status !== null) document.title = `${status.state.toLowerCase()} · ${status.name}`;
  }, [status?.state, status?.name]);
  if (status === null) {
    return html`<main class="wide"><p class="loading" role="status">${
      reading.problem === null
        ? 'Asking the job how it is …'
        : `${reading.problem.text}${reading.problem.kind === 'refused' ? '' : ' Trying again …'}`
    }</p></main>`;
  }
  return html`
    <a class="skip" href="#" onClick=${skip}>Skip to the content</a>
    <p class="off-screen" role="status" aria-live="polite">State of the job: ${status.state.toLowerCase()}.</p>
    <div class="banner" role="alert">${connectionBanner(reading)}</div>
    ${h(Header, { status })}
    <main class="wide" id="content" tabIndex=${-1}>
      ${alerts(status)}
      ${h(Tabs, { route, children: h(Guard, { key: route.section, children: view(route, status, feeds) }) })}
    </main>
    <footer class="wide aside">${status.applicationId} · master attempt ${status.masterAttempt} · generation ${status.generations}</footer>`;
}

function view({ section, rest }: Route, status: JobStatus, feeds: JobFeeds): Content {
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
  // The address behind # names what is shown, not where on the page one is.
  event.preventDefault();
  document.getElementById('content')?.focus();
}

/** A view that breaks takes only itself away. */
class Guard extends Component<{ children: Content }, { error: unknown }> {
  override state = { error: null };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error });
  }

  override render(): Content {
    const { error } = this.state;
    return error === null ? this.props.children : html`<p class="empty">This view cannot be drawn: ${String(error)}</p>`;
  }
}
