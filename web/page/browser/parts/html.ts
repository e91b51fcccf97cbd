import htm from 'htm';
import { type ComponentChildren, h } from 'preact';

/** Builds elements from a template. Interpolated values become text or attribute values, never HTML. */
export const html = htm.bind(h);

/** The values that a component may return or receive as children. */
export type Content = ComponentChildren;
