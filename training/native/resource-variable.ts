import type * as tfjs from '@tensorflow/tfjs';
import type { NativeBackend } from './native-backend.ts';

let created = 0;

/**
 * The twin of a tf.Variable among TensorFlow's own variables, which its fused kernels change in place. The tf.Variable stays the truth:
 *
 *   take    the twin gets its value if anybody but `give` has changed it; then the twin alone holds the memory
 *   (a kernel changes the twin)
 *   give    the tf.Variable gets the twin's value, sharing its memory
 *
 * TensorFlow counts who shares a buffer, and copies before changing one that is shared: clones that a program has kept stay as they are.
 */
export class ResourceVariable {
  readonly handle: tfjs.Tensor;
  readonly variable: tfjs.Variable;
  readonly #native: NativeBackend;
  /** The data that the variable and its twin share. */
  #shared: object | null = null;

  constructor(native: NativeBackend, variable: tfjs.Variable) {
    this.#native = native;
    this.variable = variable;
    created++;
    const attributes = [
      native.type('dtype'),
      native.shape('shape', variable.shape),
      native.text('container', ''),
      native.text('shared_name', `tony-ts/${created}`),
    ];
    this.handle = native.tf.keep(native.runRaw('VarHandleOp', [], attributes, 1)[0] as tfjs.Tensor);
  }

  /** Somebody else has given the tf.Variable a value since the last `give`. */
  get changed(): boolean {
    return this.variable.dataId !== this.#shared;
  }

  /** After this and until `give` the tf.Variable may be without a value. */
  take(): void {
    if (this.changed) {
      this.#native.runRaw('AssignVariableOp', [this.handle, this.variable], [this.#native.type('dtype')], 0);
      this.#shared = this.variable.dataId;
    }
    if (this.#native.sharers(this.variable) === 1) {
      this.#native.tf.engine().disposeTensor(this.variable);
    }
  }

  give(): void {
    const [value] = this.#native.runRaw('ReadVariableOp', [this.handle], [this.#native.type('dtype')], 1) as [tfjs.Tensor];
    this.variable.assign(value);
    value.dispose();
    this.#shared = this.variable.dataId;
  }

  /** Frees TensorFlow's variable; the tf.Variable keeps its value. */
  dispose(): void {
    this.#native.runRaw('DestroyResourceOp', [this.handle], [this.#native.flag('ignore_lookup_error', true)], 0);
    this.handle.dispose();
  }
}
