import { type Content, html } from './html.ts';

/** Renders a select element. Each key in `options` is the value of an option, and the value at this key is the option's displayed title. */
export function choice(
  label: string,
  value: string,
  onChange: (value: string) => void,
  options: Readonly<Record<string, string>>,
): Content {
  return html`<label>${label}
    <select value=${value} onChange=${(event: Event) => onChange(inputValue(event))}>
      ${Object.entries(options).map(([each, title]) => html`<option key=${each} value=${each} selected=${each === value}>${title}</option>`)}
    </select>
  </label>`;
}

export function searchField(label: string, value: string, onChange: (value: string) => void, placeholder: string): Content {
  return html`<label>${label}
    <input type="search" value=${value} placeholder=${placeholder} onInput=${(event: Event) => onChange(inputValue(event))} />
  </label>`;
}

/** Returns whether the text contains every word in a filter, ignoring case. */
export function containsWords(text: string, filter: string): boolean {
  const searched = text.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}

export function inputValue(event: Event): string {
  return (event.target as HTMLInputElement | HTMLSelectElement).value;
}
