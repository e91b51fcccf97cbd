/** The types of an optional dependency where it could not be installed: they are those of @tensorflow/tfjs. */
declare module '@tensorflow/tfjs-node' {
  export * from '@tensorflow/tfjs';
}
