import htm from 'htm';
import { type ComponentChildren, h } from 'preact';

/** Text between the quotes becomes elements; what is put in by `${}` becomes text or an attribute's value, never HTML. */
export const html = htm.bind(h);

/** What a component may return or be given to show. */
export type Content = ComponentChildren;
