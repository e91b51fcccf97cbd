import { h, render } from 'preact';
import { HistoryPage } from './history-page.ts';

const place = document.getElementById('page');
if (place !== null) {
  place.replaceChildren();
  render(h(HistoryPage, {}), place);
}
