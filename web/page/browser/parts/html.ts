import htm from 'htm';
import { type ComponentChildren, type ComponentType, h, render } from 'preact';

/** Builds elements from a template. Interpolated values become text or attribute values, never HTML. */
export const html = htm.bind(h);

export type Content = ComponentChildren;

/** Renders a page's component in place of the text "Loading". */
export function mount(page: ComponentType): void {
  const place = document.getElementById('page');
  if (place !== null) {
    place.replaceChildren();
    render(h(page, {}), place);
  }
}
