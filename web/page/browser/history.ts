import { HistoryPage } from './history-page.ts';
import { mount } from './parts/html.ts';

mount(HistoryPage);
