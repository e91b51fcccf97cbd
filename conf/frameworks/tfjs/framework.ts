import type { Framework } from '../framework.ts';

/** TensorFlow.js with the training library of tony-ts, whose `join` reads everything from the task file. */
export const tfjs: Framework = {
  title: 'tfjs',
  programs: 'programs can import TensorFlow.js',
  trainingLibrary: 'always',
  reserved: [],
};
