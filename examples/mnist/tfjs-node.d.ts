/** Types for machines on which this optional dependency is not installed: the same as those of @tensorflow/tfjs. */
declare module '@tensorflow/tfjs-node' {
  export * from '@tensorflow/tfjs';
}
