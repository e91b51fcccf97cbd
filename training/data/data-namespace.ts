/** The sources of datasets, for example `data.csv(files)`, as `tf.data` of TensorFlow.js. */

export { fromFeed } from './sources/feed-source.ts';
export { fromDataFrame } from './sources/frame-source.ts';
export * from './sources/sources.ts';
