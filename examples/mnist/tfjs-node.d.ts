/** Types for machines on which this optional dependency is not installed; they are the same as the types of @tensorflow/tfjs. */
declare module '@tensorflow/tfjs-node' {
  export * from '@tensorflow/tfjs';
}
