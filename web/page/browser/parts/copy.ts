import { useEffect, useState } from 'preact/hooks';
import { type Content, html } from './html.ts';

/** Renders a button that copies `text` to the clipboard and shows the outcome. */
export function Copy({ text, what, label = 'Copy' }: { text: string; what: string; label?: string }): Content {
  const [outcome, setOutcome] = useState<'' | 'Copied' | 'Not copied'>('');
  useEffect(() => {
    if (outcome === '') {
      return;
    }
    const timer = setTimeout(() => setOutcome(''), 2_000);
    return () => clearTimeout(timer);
  }, [outcome]);
  const onClick = () => void copy(text).then((done) => setOutcome(done ? 'Copied' : 'Not copied'));
  return html`<button type="button" class="small" onClick=${onClick} aria-label=${`${label}: ${what}`}>
    <span aria-live="polite">${outcome || label}</span>
  </button>`;
}

/** Copies text to the clipboard. On http:// pages, browsers have no Clipboard API, so the function copies a selection instead. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const focused = document.activeElement;
  const area = document.createElement('textarea');
  area.value = text;
  area.readOnly = true;
  area.className = 'off-screen';
  document.body.append(area);
  area.select();
  try {
    return document.execCommand('copy');
  } finally {
    area.remove();
    if (focused instanceof HTMLElement) {
      focused.focus();
    }
  }
}
