import { h, render } from 'preact';
import { JobPage } from './job-page.ts';

const place = document.getElementById('page');
if (place !== null) {
  place.replaceChildren();
  render(h(JobPage, {}), place);
}
