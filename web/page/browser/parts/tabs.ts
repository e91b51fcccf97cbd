import { useEffect, useRef } from 'preact/hooks';
import { type Content, html } from './html.ts';
import { formatRoute, type Route, SECTIONS, type Section } from './route.ts';

const TITLES: Readonly<Record<Section, string>> = {
  overview: 'Overview',
  charts: 'Charts',
  resources: 'Resources',
  tasks: 'Tasks',
  timeline: 'Timeline',
  logs: 'Logs',
  events: 'Events',
  configuration: 'Configuration',
};

/** Renders the tab list, with mouse and arrow key control, and the selected tab's panel. */
export function Tabs({ route, children }: { route: Route; children: Content }): Content {
  const list = useRef<HTMLDivElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const first = useRef(true);
  const { section } = route;
  useEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    // Scrolls only the tab list, because it can be wider than the screen.
    if (tab && list.current) {
      list.current.scrollLeft = tab.offsetLeft - (list.current.clientWidth - tab.offsetWidth) / 2;
    }
    if (first.current) {
      first.current = false;
      return;
    }
    // If neither the tabs nor the panel has the focus, the user has followed a link elsewhere on the page.
    if (!list.current?.contains(document.activeElement) && !panel.current?.contains(document.activeElement)) {
      panel.current?.focus({ preventScroll: true });
      list.current?.scrollIntoView({ block: 'start' });
    }
  }, [section]);

  const open = (next: Section) => {
    location.hash = formatRoute(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = SECTIONS.indexOf(section);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: SECTIONS.length - 1 }[event.key];
    const next = to === undefined ? undefined : SECTIONS[(to + SECTIONS.length) % SECTIONS.length];
    if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    open(next);
  };
  return html`
    <div class="tabs" role="tablist" aria-label="Job views" ref=${list} onKeyDown=${onKeyDown}>
      ${SECTIONS.map(
        (each) => html`<button type="button" role="tab" key=${each} id=${`tab-${each}`} class="tab"
          aria-selected=${each === section ? 'true' : 'false'} aria-controls="panel" tabIndex=${each === section ? 0 : -1}
          onClick=${() => open(each)}>${TITLES[each]}</button>`,
      )}
    </div>
    <div id="panel" role="tabpanel" tabIndex=${-1} aria-labelledby=${`tab-${section}`} ref=${panel}>
      <h2 class="off-screen">${TITLES[section]}</h2>
      ${children}
    </div>`;
}
