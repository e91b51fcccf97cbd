import { JobPage } from './job-page.ts';
import { mount } from './parts/html.ts';

mount(JobPage);
