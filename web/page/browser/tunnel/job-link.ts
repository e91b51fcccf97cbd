import { ROOT } from './site.ts';

const STRIP_HEIGHT = '34px';

/** Adds a bar below TensorBoard with a link to the job's page. Its shadow tree isolates the bar from TensorBoard's styles. */
export function addLink(): void {
  const strip = document.createElement('nav');
  strip.setAttribute('aria-label', 'tony-ts');
  const shadow = strip.attachShadow({ mode: 'open' });
  // Content security policies do not apply to style sheets that a script constructs.
  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { position: fixed; inset: auto 0 0 0; height: ${STRIP_HEIGHT}; box-sizing: border-box; display: flex; align-items: center; gap: 8px;
      padding: 0 12px; background: #263238; color: #b0bec5; font: 13px/1 Roboto, system-ui, sans-serif; white-space: nowrap; overflow: hidden; }
    a { color: #fff; font-weight: 500; padding: 5px 12px; border: 1px solid #78909c; border-radius: 4px; text-decoration: none; }
    a:hover { background: #455a64; }
    a:focus-visible { outline: 2px solid #ffb300; outline-offset: -1px; }
    @media print { :host { display: none; } }`);
  shadow.adoptedStyleSheets = [style];
  const link = document.createElement('a');
  link.href = new URL('tony/', ROOT).href;
  link.textContent = 'Job';
  shadow.append(link, 'state, tasks, logs');
  // TensorBoard is as tall as the page's body, so a shorter body leaves space for the bar.
  document.body.style.height = `calc(100% - ${STRIP_HEIGHT})`;
  document.body.append(strip);
}
